// The large constants of a graph, taken out of its message before it is imported and put into the
// graph afterwards, so that none is in memory twice.
//
// Threads: as for messages and graphs.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_LARGE_CONSTANTS_H_
#define TANDEM_RUNTIME_SAVED_MODEL_LARGE_CONSTANTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class GraphDef;
}  // namespace tensorflow

namespace tandem {

// By the names of their nodes.
using LargeConstants = std::vector<std::pair<std::string, Tensor>>;

// Puts a placeholder into the place of each constant of `min_bytes` or more. InvalidArgument: what
// TensorFromProto refuses.
absl::StatusOr<LargeConstants> TakeLargeConstants(tensorflow::GraphDef* graph,
                                                  size_t min_bytes = size_t{64} << 10);
// Puts them back into the graph that was imported.
absl::Status PutLargeConstants(LargeConstants constants, Graph* graph);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_LARGE_CONSTANTS_H_
