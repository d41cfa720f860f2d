#include "core/base/status.h"
#include "strategies/nn/metric.h"

namespace tandem {
namespace {

// Sums: the number of right answers, the number of examples.
class AccuracyMetric final : public Metric {
 public:
  std::string name() const override { return "accuracy"; }

  absl::StatusOr<std::vector<Output>> Sums(const Scope& scope, Output labels,
                                           Output outputs) const override {
    if (!IsInteger(labels.dtype())) {
      return errors::InvalidArgument("the accuracy needs labels that are integers; they are ",
                                     DataTypeName(labels.dtype()));
    }
    const Output answer = scope.Call("ArgMax", {outputs, scope.Constant(-1)},
                                     {{"output_type", labels.dtype() == kInt64 ? kInt64 : kInt32}});
    const Output right =
        scope.Call("Cast", {scope.Call("Equal", {answer, labels})}, {{"DstT", kFloat32}});
    const Output sum = scope.Call("Sum", {right, Tensor::Vector<int32_t>({0})});
    const Output count = scope.Call("Cast", {scope.Call("Size", {labels})}, {{"DstT", kFloat32}});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return std::vector<Output>{sum, count};
  }

  double Result(const std::vector<Tensor>& sums) const override {
    const double count = sums[1].ScalarValue<double>();
    return count > 0 ? sums[0].ScalarValue<double>() / count : 0;
  }
};

}  // namespace

namespace metric {

MetricPtr Accuracy() { return std::make_shared<AccuracyMetric>(); }

}  // namespace metric
}  // namespace tandem
