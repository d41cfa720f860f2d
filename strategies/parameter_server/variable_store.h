// VariableStore: the variables of a ParameterBuilder: where their parts lie, how they begin, and
// how their values are put together.
//
// Threads: one. Errors of nodes are kept by the scope that they are added to.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_VARIABLE_STORE_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_VARIABLE_STORE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/graph/scope.h"
#include "strategies/builder.h"
#include "strategies/parameter_server/parameter_builder.h"
#include "strategies/parameter_server/partition.h"
#include "strategies/parameter_server/placement.h"

namespace tandem::parameter_server {

// "/job:ps/task:<n>/device:CPU:0"
std::string ServerDevice(int shard);

class VariableStore {
 public:
  struct Entry {
    std::unique_ptr<StrategyVariable> variable;
    Partition partition;
    std::vector<int> shards;  // Of each part.
  };

  // Nodes are added to `root`; `initialize` runs after all variables have their initial values.
  VariableStore(const ParameterBuilderOptions& options, Scope root, Node* initialize);

  // See StrategyBuilder::Variable.
  absl::StatusOr<StrategyVariable*> GetOrCreate(const VariableSpec& spec);
  std::vector<StrategyVariable*> variables() const;
  // REQUIRES: it is one of this store's.
  const Entry& Find(const StrategyVariable& variable) const;

  // Reads the variable, or each of its parts, where it is. REQUIRES: the scope has no device of its
  // own but the worker's, where parts are joined.
  Output Read(const Scope& scope, const StrategyVariable& variable,
              std::vector<Node*>& reads) const;
  // The rows of `ids` (a vector; int32 or int64).
  Output Gather(const Scope& scope, const StrategyVariable& variable, const Output& ids,
                std::vector<Node*>& reads) const;

 private:
  Partition Cut(const VariableSpec& spec) const;
  // The variable that this one is a slot of. Null: of none.
  const Entry* OwnerOf(const VariableSpec& spec) const;
  absl::StatusOr<std::vector<Output>> InitialValues(const VariableSpec& spec,
                                                    const Partition& partition,
                                                    const std::vector<Shape>& shapes,
                                                    bool is_slot) const;

  const ParameterBuilderOptions options_;
  const Scope root_;
  Node* const initialize_;
  Placement placement_;
  std::vector<std::unique_ptr<Entry>> entries_;  // In the order of creation.
  absl::flat_hash_map<std::string, const Entry*> by_name_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_VARIABLE_STORE_H_
