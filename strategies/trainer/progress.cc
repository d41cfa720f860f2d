#include "strategies/trainer/progress.h"

#include <utility>

#include "absl/strings/match.h"

namespace tandem {

absl::optional<double> EpochResult::Value(const std::string& name) const {
  constexpr char kValidation[] = "validation_";
  if (absl::StartsWith(name, kValidation)) {
    if (validation == nullptr) return absl::nullopt;
    return validation->Value(name.substr(sizeof(kValidation) - 1));
  }
  if (name == "loss") return loss;
  for (const auto& [metric, value] : metrics) {
    if (metric == name) return value;
  }
  return absl::nullopt;
}

EpochTotals::EpochTotals(std::vector<MetricPtr> metrics, std::vector<int> metric_sums)
    : metrics_(std::move(metrics)), metric_sums_(std::move(metric_sums)) {}

void EpochTotals::Add(const std::vector<Tensor>& fetched, int64_t examples) {
  sums_.loss +=
      static_cast<double>(fetched[0].ScalarValue<float>()) * static_cast<double>(examples);
  sums_.examples += examples;
  size_t count = 0;
  for (const int sums : metric_sums_) count += static_cast<size_t>(sums);
  if (sums_.metrics.empty()) {
    for (size_t i = 0; i < count; ++i) {
      sums_.metrics.push_back(Tensor::Zeros(kFloat64, fetched[i + 1].shape()));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const auto from = fetched[i + 1].Elements<float>();
    const auto to = sums_.metrics[i].MutableElements<double>();
    for (size_t k = 0; k < to.size() && k < from.size(); ++k) to[k] += from[k];
  }
}

double EpochTotals::loss() const {
  return sums_.examples == 0 ? 0 : sums_.loss / static_cast<double>(sums_.examples);
}

MetricValues EpochTotals::metrics() const {
  MetricValues values;
  size_t first = 0;
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const size_t count = static_cast<size_t>(metric_sums_[i]);
    double value = 0;
    if (!sums_.metrics.empty()) {
      const auto begin = sums_.metrics.begin() + static_cast<std::ptrdiff_t>(first);
      value = metrics_[i]->Result(
          std::vector<Tensor>(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
    first += count;
    values.emplace_back(metrics_[i]->name(), value);
  }
  return values;
}

EpochResult EpochTotals::Result(absl::Duration duration) const {
  EpochResult result;
  result.loss = loss();
  result.metrics = metrics();
  result.examples = sums_.examples;
  result.duration = duration;
  return result;
}

}  // namespace tandem
