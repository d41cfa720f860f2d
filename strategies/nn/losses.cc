#include <cmath>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "strategies/nn/labels.h"
#include "strategies/nn/layer_call.h"
#include "strategies/nn/loss.h"

namespace tandem::loss {
namespace {

using nn::AsRows;
using nn::AsVector;
using nn::LabelsLikeOutputs;

// The mean of each example of `values` [batch, …].
absl::StatusOr<Output> MeanOfEach(const Scope& scope, Output values) {
  TANDEM_RETURN_IF_ERROR(scope.status());
  const int rank = values.shape().rank();
  if (rank == 1) return values;
  Tensor axes(kInt32, Shape({rank - 1}));
  for (int i = 1; i < rank; ++i) axes.MutableElements<int32_t>()[static_cast<size_t>(i) - 1] = i;
  const Output mean = scope.Call("Mean", {values, axes});
  TANDEM_RETURN_IF_ERROR(scope.status());
  return mean;
}

// The mean for each example of what was computed for the rows of `outputs` [batch, …, n].
absl::StatusOr<Output> MeanOfRows(const Scope& scope, Output losses, Output outputs) {
  const int rank = outputs.shape().rank();
  if (rank > 2) losses = nn::ReshapeLike(scope, losses, outputs, rank - 1, {});
  return MeanOfEach(scope, losses);
}

}  // namespace

LossFunction SparseSoftmaxCrossEntropy() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    TANDEM_RETURN_IF_ERROR(
        nn::CheckClassNumbers("the sparse softmax cross entropy", labels, outputs));
    const Output losses = scope.Call("SparseSoftmaxCrossEntropyWithLogits",
                                     {AsRows(scope, outputs), AsVector(scope, labels)});
    return MeanOfRows(scope, losses, outputs);
  };
}

LossFunction SoftmaxCrossEntropy() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    constexpr char kName[] = "the softmax cross entropy";
    const PartialShape& shape = outputs.shape();
    if (!shape.has_rank() || shape.rank() < 2 || shape.dim(shape.rank() - 1) < 0 ||
        !labels.shape().IsCompatibleWith(shape)) {
      return nn::LabelError(kName, "labels and outputs that are both [batch, …, classes]", labels,
                            outputs);
    }
    TANDEM_ASSIGN_OR_RETURN(const Output targets, LabelsLikeOutputs(scope, kName, labels, outputs));
    const Output losses = scope.Call("SoftmaxCrossEntropyWithLogits",
                                     {AsRows(scope, outputs), AsRows(scope, targets)});
    return MeanOfRows(scope, losses, outputs);
  };
}

LossFunction SigmoidCrossEntropy() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    TANDEM_ASSIGN_OR_RETURN(const Output targets,
                            LabelsLikeOutputs(scope, "the sigmoid cross entropy", labels, outputs));
    // For a logit x and a label z: -z log p - (1 - z) log(1 - p) with p = sigmoid(x). These
    // logarithms are -softplus(-x) and -softplus(x), which stay exact where p is near 0 or 1.
    const Output when_true = scope.Call("Softplus", {scope.Call("Neg", {outputs})});
    const Output when_false = scope.Call("Softplus", {outputs});
    const Output losses =
        scope.Call("AddV2", {scope.Call("Mul", {targets, when_true}),
                             scope.Call("Mul", {scope.Call("Sub", {1.0f, targets}), when_false})});
    return MeanOfEach(scope, losses);
  };
}

LossFunction MeanSquaredError() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    TANDEM_ASSIGN_OR_RETURN(const Output targets,
                            LabelsLikeOutputs(scope, "the mean squared error", labels, outputs));
    return MeanOfEach(scope, scope.Call("SquaredDifference", {outputs, targets}));
  };
}

LossFunction Huber(double delta) {
  return [delta](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    if (!(delta > 0) || !std::isfinite(delta)) {
      return errors::InvalidArgument("the Huber loss has the delta ", delta,
                                     "; it must be positive and finite");
    }
    TANDEM_ASSIGN_OR_RETURN(const Output targets,
                            LabelsLikeOutputs(scope, "the Huber loss", labels, outputs));
    // With c = min(|e|, delta), both branches are c (|e| - c / 2).
    const Output error = scope.Call("Abs", {scope.Call("Sub", {outputs, targets})});
    const Output cut = scope.Call("Minimum", {error, static_cast<float>(delta)});
    const Output losses =
        scope.Call("Mul", {cut, scope.Call("Sub", {error, scope.Call("Mul", {cut, 0.5f})})});
    return MeanOfEach(scope, losses);
  };
}

}  // namespace tandem::loss
