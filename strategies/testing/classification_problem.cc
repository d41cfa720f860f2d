#include "strategies/testing/classification_problem.h"

#include <cmath>
#include <memory>

namespace tandem::testing {

std::vector<Tensor> ClassificationBatch(int64_t number, int64_t size) {
  Tensor x(kFloat32, Shape({size, kFeatures}));
  Tensor y(kInt32, Shape({size}));
  for (int64_t i = 0; i < size; ++i) {
    int best = 0;
    for (int64_t j = 0; j < kFeatures; ++j) {
      const double noise =
          std::sin(static_cast<double>((number * size + i) * 97 + j * 31 + 1)) * 1e4;
      const float value = static_cast<float>(noise - std::floor(noise));
      x.MutableElements<float>()[static_cast<size_t>(i * kFeatures + j)] = value;
      if (j < kClasses && value > x.Elements<float>()[static_cast<size_t>(i * kFeatures + best)]) {
        best = static_cast<int>(j);
      }
    }
    y.MutableElements<int32_t>()[static_cast<size_t>(i)] = best;
  }
  return {x, y};
}

OpenEpoch ClassificationEpochs(int64_t count, int64_t size) {
  return [count, size](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int64_t>(0);
    return NextBatch([next, count, size]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == count) return absl::optional<std::vector<Tensor>>();
      return absl::optional<std::vector<Tensor>>(ClassificationBatch((*next)++, size));
    });
  };
}

}  // namespace tandem::testing
