#include "strategies/nn/loss.h"

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace tandem {
namespace loss {

LossFunction SparseSoftmaxCrossEntropy() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    const Output loss = scope.Call("SparseSoftmaxCrossEntropyWithLogits", {outputs, labels});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return loss;
  };
}

LossFunction MeanSquaredError() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    const Output squares = scope.Call("SquaredDifference", {outputs, labels});
    // [batch, rest] by way of a reshape, so that any rank will do.
    const Output rows =
        scope.Call("StridedSlice", {scope.Call("Shape", {squares}), Tensor::Vector<int32_t>({0}),
                                    Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({1})});
    const Output flat_shape =
        scope.Call("ConcatV2", {rows, Tensor::Vector<int32_t>({-1}), Tensor::Scalar<int32_t>(0)});
    const Output loss = scope.Call(
        "Mean", {scope.Call("Reshape", {squares, flat_shape}), Tensor::Scalar<int32_t>(1)});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return loss;
  };
}

}  // namespace loss

}  // namespace tandem
