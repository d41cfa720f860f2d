// What the cut knows of ops on variables: which only read one, which change one, and what the
// arguments of several workers' pushes become in one update.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_COMBINATION_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_COMBINATION_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

// A read of a variable, or of some of its rows.
bool IsRead(const Node& node);
// An op that changes a variable, and of whose arguments CombinationFor knows what they become.
bool IsUpdate(const Node& node);

// What a value becomes that those nodes take for which `is_taken` holds: updates, and nodes on
// their way that a shard computes itself. It follows from those: a dense gradient is added up, rows
// are joined, a learning rate is the same in all.
//
// InvalidArgument: a node on the way of which that is not known, or two that want different things;
// names it.
absl::StatusOr<Combination> CombinationFor(const Output& value,
                                           absl::FunctionRef<bool(const Node&)> is_taken);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_COMBINATION_H_
