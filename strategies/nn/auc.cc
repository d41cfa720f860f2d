#include <utility>

#include "core/base/status.h"
#include "strategies/nn/labels.h"
#include "strategies/nn/metric.h"

namespace tandem::metric {
namespace {

// With n thresholds at i / (n - 1), the first a little below 0 and the last a little above 1, an
// output belongs to the interval between two: it lies above threshold i and not above i + 1. The
// sums count true and false examples in each interval; how many lie above a threshold follows when
// the result is asked for.
class AucMetric final : public Metric {
 public:
  explicit AucMetric(AucOptions options) : options_(options) {}

  std::string name() const override { return "auc"; }

  absl::StatusOr<std::vector<Output>> Sums(const Scope& scope, Output labels,
                                           Output outputs) const override {
    constexpr int kMost = 1 << 20;
    if (options_.num_thresholds < 2 || options_.num_thresholds > kMost) {
      return errors::InvalidArgument("the AUC has ", options_.num_thresholds,
                                     " thresholds; there must be 2 to ", kMost);
    }
    TANDEM_ASSIGN_OR_RETURN(const Output like,
                            nn::LabelsLikeOutputs(scope, "the AUC", labels, outputs));
    Output x = nn::AsVector(scope, outputs);
    if (options_.from_logits) x = scope.Call("Sigmoid", {x});
    const int last = options_.num_thresholds - 1;
    // Interval 0 has what is not above 1 / last, so also 0 itself.
    const Output up = scope.Call("Ceil", {scope.Call("Mul", {x, static_cast<float>(last)})});
    const Output interval =
        scope.Call("Cast",
                   {scope.Call("ClipByValue", {scope.Call("Sub", {up, 1.0f}), Tensor::Scalar(0.0f),
                                               Tensor::Scalar(static_cast<float>(last - 1))})},
                   {{"DstT", kInt32}});
    const Output is_true = scope.Call(
        "Cast", {scope.Call("Greater", {nn::AsVector(scope, like), 0.5f})}, {{"DstT", kFloat32}});
    const auto in_intervals = [&](Output counts) {
      return scope.Call("UnsortedSegmentSum", {counts, interval, Tensor::Scalar<int32_t>(last)});
    };
    const Output trues = in_intervals(is_true);
    const Output falses = in_intervals(scope.Call("Sub", {1.0f, is_true}));
    TANDEM_RETURN_IF_ERROR(scope.status());
    return std::vector<Output>{trues, falses};
  }

  double Result(const std::vector<Tensor>& sums) const override {
    const absl::Span<const double> trues = sums[0].Elements<double>();
    const absl::Span<const double> falses = sums[1].Elements<double>();
    // From the highest threshold down: above[k] grows by the interval's, and the area by a
    // trapezoid as wide as the interval's false ones.
    double true_positives = 0;
    double false_positives = 0;
    double area = 0;
    for (size_t i = trues.size(); i-- > 0;) {
      area += falses[i] * (true_positives + trues[i] / 2);
      true_positives += trues[i];
      false_positives += falses[i];
    }
    const double whole = true_positives * false_positives;
    return whole > 0 ? area / whole : 0;
  }

 private:
  const AucOptions options_;
};

}  // namespace

MetricPtr Auc(AucOptions options) { return std::make_shared<AucMetric>(options); }

}  // namespace tandem::metric
