// ParameterBuilder: the graph-time half of the parameter-server strategy. It builds a step with one
// replica, that of whichever worker runs it; variables, or their parts, are requested on the
// devices of servers, "/job:ps/task:<n>". The cut (cut.h) then takes such a graph apart.
//
//   variable      lies on one server, or in parts (rows) on several; its slots beside it
//   read          joins the parts
//   lookup        asks each part for its rows, each row once; a table that is only looked up never
//                 travels, and its gradient is sparse
//   update        once for each part, with the part's rows of the gradient
//
// What several workers' steps mean together follows from the consumers of what they push
// (Combination in proto/parameter_server.proto), and for what they fetch from JoinOf.
//
// Threads and lifetime as StrategyBuilder.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_BUILDER_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "proto/parameter_server.pb.h"
#include "strategies/builder.h"

namespace tandem::parameter_server {

// The attribute of an AssignVariableOp that says what the values of several workers become: the
// name of a Combination. Without it: MEAN.
inline constexpr char kCombinationAttr[] = "_combination";

// The job of servers in the devices of variables: "/job:ps/task:<n>".
inline constexpr char kServerJob[] = "ps";

struct ParameterBuilderOptions {
  int shards = 1;  // One a server.
  // The worker's device.
  std::string device = "/device:CPU:0";

  // As Strategy::ParameterServerOptions has them.
  int64_t min_part_bytes = int64_t{256} << 10;
  int64_t max_part_bytes = 0;
  int parts = 0;
  bool balance_by_bytes = true;

  // A variable in parts whose initial value has more bytes than this is never computed as a whole:
  // each server computes its own rows, if the spec can (VariableSpec::part_initializer). Random
  // numbers are others then than those of strategies that compute the whole.
  int64_t most_initial_bytes = int64_t{64} << 20;
};

struct VariablePart {
  int shard = 0;
  // `name` is what the part is called at its shard: the variable's name if it is in one piece, else
  // "<variable>/part_<n>".
  Variable variable;
  Shape shape;
};

// How results of several workers, each of its part of a batch, become one.
enum class Join { kSum, kMean, kMin, kMax, kProduct, kConcat };

class ParameterBuilder : public StrategyBuilder {
 public:
  virtual int num_shards() const = 0;
  // In the order of rows, or for those whose rows are spread in that of their first rows. One that
  // is not cut has one part. REQUIRES: the variable is this builder's.
  virtual std::vector<VariablePart> PartsOf(const StrategyVariable& variable) const = 0;
  // Of an output that ReduceAllToHost or GatherToHost (kConcat: along the first axis) has given, by
  // its name. NotFound: it was not reduced.
  virtual absl::StatusOr<Join> JoinOf(const std::string& fetch) const = 0;
};

// InvalidArgument: no shard, or a negative number other than min_part_bytes = -1.
absl::StatusOr<std::unique_ptr<ParameterBuilder>> NewParameterBuilder(
    ParameterBuilderOptions options);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_BUILDER_H_
