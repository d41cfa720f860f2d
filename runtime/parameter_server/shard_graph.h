// ShardGraph: the graph of a shard, with its programs and variables, ready to run.
//
// A graph that grows gets a session for what is new. All sessions have the same devices and
// stateful nodes, so the variables are the same in all; programs stay with the session that they
// were compiled in.
//
// Threads: any. Lifetime: programs live as long as this. REQUIRES: none runs when it is destroyed.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_GRAPH_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_GRAPH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/variable_budget.h"
#include "runtime/session/session.h"

namespace tandem::parameter_server {

// A program, compiled. Does not change.
struct ShardProgram {
  Program description;
  std::vector<Combination> combinations;  // Of each feed; empty: it takes part in no rounds.
  std::vector<std::pair<DataType, PartialShape>> feeds;
  std::unique_ptr<Session::Callable> callable;

  const std::string& name() const { return description.name(); }
  // InvalidArgument: these are not its arguments.
  absl::Status CheckArguments(const std::vector<Tensor>& arguments) const;
};

class ShardGraph {
 public:
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

  // `budget`: see ShardOptions.
  static absl::StatusOr<std::unique_ptr<ShardGraph>> Create(
      SessionOptions options, std::shared_ptr<VariableBudget> budget = nullptr);
  ~ShardGraph();

  // See Shard::Extend.
  absl::Status Extend(const tensorflow::GraphDef& graph, const std::vector<Program>& programs,
                      const std::vector<Variable>& variables);

  // NotFound: there is none; near names are suggested. InvalidArgument: it updates, or does not.
  absl::StatusOr<const ShardProgram*> Find(const std::string& name, bool updates) const;

  // The names of the variables, in the order of their definition.
  std::vector<std::string> variables() const;
  int64_t variable_bytes() const;

  // NotFound, InvalidArgument: there is no such variable, or its value does not fit; one comes
  // twice; or, with `all`, one is missing.
  absl::Status CheckValues(const NamedTensors& values, bool all) const;
  // REQUIRES, for those of a read to belong together: no update runs. NotFound.
  // FailedPrecondition: one has no value yet.
  absl::StatusOr<NamedTensors> ReadAll() const;
  absl::StatusOr<std::vector<Tensor>> Read(const std::vector<std::string>& names) const;
  // REQUIRES: CheckValues is OK, and no update runs. Variables may take the memory over.
  absl::Status Assign(NamedTensors values);

  // Ends what runs, and refuses more.
  void Close(const absl::Status& reason);

 private:
  struct KnownVariable {
    Variable description;
    int number = 0;  // Of its nodes.
    DataType dtype = DataType::kInvalid;
    PartialShape shape;
  };
  // What grows, made aside and put in place as a whole.
  struct Contents {
    std::vector<std::shared_ptr<Session>> sessions;  // The newest is the last; it has all nodes.
    std::map<std::string, std::string> nodes;        // The bytes of those that came.
    std::map<std::string, std::shared_ptr<const ShardProgram>> programs;
    std::vector<KnownVariable> variables;
    // Of all variables; null: there are none.
    std::shared_ptr<Session::Callable> read;
    std::shared_ptr<Session::Callable> assign;
  };

  ShardGraph(SessionOptions options, std::shared_ptr<VariableBudget> budget)
      : options_(std::move(options)), budget_(std::move(budget)) {}

  static absl::Status AddVariables(const std::vector<Variable>& variables, Graph& graph,
                                   Contents& contents);
  static absl::Status CompilePrograms(const std::vector<Program>& programs, const Graph& graph,
                                      Contents& contents);
  static absl::Status CompileVariables(Contents& contents);
  static int64_t BytesOf(const KnownVariable& variable);
  // Takes from the budget what variables from number `first` on take, and gives how much it was.
  absl::StatusOr<int64_t> Reserve(const Contents& contents, size_t first) const;
  std::shared_ptr<const Contents> contents() const ABSL_LOCKS_EXCLUDED(mu_);

  SessionOptions options_;
  const std::shared_ptr<VariableBudget> budget_;  // Null: there is no limit.
  Mutex extend_mu_;                               // Held by whoever extends.
  Graph graph_ ABSL_GUARDED_BY(extend_mu_);
  mutable Mutex mu_;
  std::shared_ptr<const Contents> contents_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_GRAPH_H_
