// What can be told of a value before the graph runs, without running kernels: constants, and
// vectors of sizes that were computed from shapes. Shape functions ask for it.
#ifndef TANDEM_CORE_GRAPH_KNOWN_VALUES_H_
#define TANDEM_CORE_GRAPH_KNOWN_VALUES_H_

#include "absl/types/optional.h"
#include "core/graph/graph.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tandem {

// The value of a constant (also through Identity), or of Shape, Size and Rank of a known shape.
absl::optional<Tensor> KnownValue(const Output& output);

// The value of a vector of sizes as a shape, with unknown sizes where they depend on the run:
// through Shape, Pack, ConcatV2, StridedSlice with step 1, Cast and Identity. Unknown when nothing
// is known.
PartialShape KnownShapeValue(const Output& output);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_KNOWN_VALUES_H_
