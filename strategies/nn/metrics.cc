// Metrics that are means: a sum and how many numbers went into it.
#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "strategies/nn/labels.h"
#include "strategies/nn/metric.h"

namespace tandem::metric {
namespace {

using nn::AsRows;
using nn::AsVector;
using nn::LabelsLikeOutputs;

class MeanMetric final : public Metric {
 public:
  // `function` makes numbers or bools, whose mean is the metric.
  MeanMetric(std::string name, MetricFunction function)
      : name_(std::move(name)), function_(std::move(function)) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::vector<Output>> Sums(const Scope& scope, Output labels,
                                           Output outputs) const override {
    Output values = outputs;
    if (function_) {
      TANDEM_ASSIGN_OR_RETURN(values, function_(scope, labels, outputs));
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    const DataType dtype = RemoveReference(values.dtype());
    if (dtype != kFloat32) values = scope.Call("Cast", {values}, {{"DstT", kFloat32}});
    const Output sum = scope.Call("Sum", {AsVector(scope, values), Tensor::Vector<int32_t>({0})});
    const Output count = scope.Call("Cast", {scope.Call("Size", {values})}, {{"DstT", kFloat32}});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return std::vector<Output>{sum, count};
  }

  double Result(const std::vector<Tensor>& sums) const override {
    const double count = sums[1].ScalarValue<double>();
    return count > 0 ? sums[0].ScalarValue<double>() / count : 0;
  }

 private:
  const std::string name_;
  const MetricFunction function_;
};

Output ArgMax(const Scope& scope, Output x, DataType dtype) {
  return scope.Call("ArgMax", {x, Tensor::Scalar<int32_t>(-1)}, {{"output_type", dtype}});
}

Output IsAbove(const Scope& scope, Output x, double threshold) {
  return scope.Call("Greater", {x, static_cast<float>(threshold)});
}

absl::StatusOr<Output> OnSameSide(const Scope& scope, absl::string_view who, double threshold,
                                  Output labels, Output outputs) {
  TANDEM_ASSIGN_OR_RETURN(const Output like, LabelsLikeOutputs(scope, who, labels, outputs));
  return scope.Call("Equal", {IsAbove(scope, outputs, threshold), IsAbove(scope, like, 0.5)});
}

absl::StatusOr<Output> IsGreatest(const Scope& scope, Output labels, Output outputs) {
  const PartialShape& shape = outputs.shape();
  if (shape.has_rank() && shape.rank() >= 2 && shape.dim(shape.rank() - 1) == 1) {
    return OnSameSide(scope, "the accuracy", 0, labels, outputs);
  }
  if (labels.shape().IsCompatibleWith(outputs.shape()) && labels.shape().has_rank() &&
      labels.shape().rank() >= 2) {
    TANDEM_ASSIGN_OR_RETURN(const Output like,
                            LabelsLikeOutputs(scope, "the accuracy", labels, outputs));
    return scope.Call("Equal", {ArgMax(scope, outputs, kInt64), ArgMax(scope, like, kInt64)});
  }
  TANDEM_RETURN_IF_ERROR(nn::CheckClassNumbers("the accuracy", labels, outputs));
  return scope.Call("Equal", {ArgMax(scope, outputs, labels.dtype()), labels});
}

}  // namespace

MetricPtr Mean(std::string name, MetricFunction function) {
  return std::make_shared<MeanMetric>(std::move(name), std::move(function));
}

MetricPtr Accuracy() { return Mean("accuracy", IsGreatest); }

MetricPtr BinaryAccuracy(double threshold) {
  return Mean(
      "binary_accuracy",
      [threshold](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
        if (!std::isfinite(threshold)) {
          return errors::InvalidArgument("the binary accuracy has the threshold ", threshold,
                                         "; it must be finite");
        }
        return OnSameSide(scope, "the binary accuracy", threshold, labels, outputs);
      });
}

MetricPtr TopK(int64_t k) {
  const std::string name = absl::StrCat("top_", k, "_accuracy");
  return Mean(
      name, [name, k](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
        if (k < 1 || k > (int64_t{1} << 30)) {
          return errors::InvalidArgument("the metric '", name, "' has the k ", k,
                                         "; it must be at least 1");
        }
        TANDEM_RETURN_IF_ERROR(nn::CheckClassNumbers(name, labels, outputs));
        const Tensor k_like_labels = labels.dtype() == kInt64
                                         ? Tensor::Scalar<int64_t>(k)
                                         : Tensor::Scalar<int32_t>(static_cast<int32_t>(k));
        return scope.Call("InTopKV2",
                          {AsRows(scope, outputs), AsVector(scope, labels), k_like_labels});
      });
}

MetricPtr MeanSquaredError() {
  return Mean("mean_squared_error",
              [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
                TANDEM_ASSIGN_OR_RETURN(
                    const Output like,
                    LabelsLikeOutputs(scope, "the mean squared error", labels, outputs));
                return scope.Call("SquaredDifference", {outputs, like});
              });
}

MetricPtr MeanAbsoluteError() {
  return Mean("mean_absolute_error",
              [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
                TANDEM_ASSIGN_OR_RETURN(
                    const Output like,
                    LabelsLikeOutputs(scope, "the mean absolute error", labels, outputs));
                return scope.Call("Abs", {scope.Call("Sub", {outputs, like})});
              });
}

}  // namespace tandem::metric
