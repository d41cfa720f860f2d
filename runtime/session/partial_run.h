// Session::PartialRun, for sessions whose callables run partial signatures (core/passes/prune.h).
#ifndef TANDEM_RUNTIME_SESSION_PARTIAL_RUN_H_
#define TANDEM_RUNTIME_SESSION_PARTIAL_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/passes/prune.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "runtime/session/session.h"

namespace tandem {

// What calls are checked against. The same for all runs of a signature.
struct PartialSignature {
  RunSignature names;  // "node:output", also for output 0.
  std::vector<DataType> feed_types;
  std::vector<PartialShape> feed_shapes;
  // The graph between feeds and fetches. What a vertex depends on: a vertex, or, if negative, the
  // feed ~i.
  std::vector<std::vector<int32_t>> vertices;
  std::vector<int32_t> fetches;  // What each depends on, likewise.
};

// InvalidArgument, NotFound: a name is not in the graph, or twice in the signature.
absl::StatusOr<PartialSignature> DescribePartialSignature(const RunSignature& signature,
                                                          const Graph& graph);

// A run of `callable`, which was made for this signature, and is partial. A fetch of what an
// untaken branch did not make ends it with InvalidArgument.
std::unique_ptr<Session::PartialRun> NewPartialRun(
    std::shared_ptr<const PartialSignature> signature, std::unique_ptr<Session::Callable> callable);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_PARTIAL_RUN_H_
