#include "kernels/math/gradient_helpers.h"

namespace tandem::math {

absl::Status NoGradient(GradientContext&) { return absl::OkStatus(); }

Output Scaled(GradientContext& g, double factor, Output x) {
  if (!x.valid()) return x;
  return g.Call("Mul", {x, g.Scalar(RemoveReference(x.dtype()), factor)});
}

Output ReduceTo(GradientContext& g, Output gradient, Output part, Output whole) {
  if (gradient.valid() && part.shape().IsFullyDefined() && part.shape() == whole.shape()) {
    return gradient;
  }
  const Output shape = g.Call("Shape", {part});
  const Output axes = g.Call("BroadcastGradientArgs", {shape, g.Call("Shape", {whole})});
  return g.Call("Reshape", {g.Call("Sum", {gradient, axes}), shape});
}

}  // namespace tandem::math
