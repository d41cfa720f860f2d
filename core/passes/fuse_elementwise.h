// FuseElementwise: elementwise ops that feed each other become one node.
//
// Ops on numbers of one floating-point type (float32, float64), on one device, become one
// _TandemElementwise node, if what lies between them has no other use: the node runs the ops block
// by block, so that only its inputs and its output go through memory. The kernels and so the bits
// are those of the single ops.
//
// Operands are scalars or have the shape of the result, as far as shapes are known. Where they are
// not the ops are fused all the same; the kernel then looks at the shapes, and broadcasts op by op
// if it has to. Ops on what is known to be scalar are left alone: they gain nothing.
#ifndef TANDEM_CORE_PASSES_FUSE_ELEMENTWISE_H_
#define TANDEM_CORE_PASSES_FUSE_ELEMENTWISE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tandem {

// The ops that may be fused.
absl::Span<const absl::string_view> ElementwiseOps();

// REQUIRES: all nodes are placed. InvalidArgument: the graph has a cycle.
absl::Status FuseElementwise(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_FUSE_ELEMENTWISE_H_
