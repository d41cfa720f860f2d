#include "kernels/nn/fused_activation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/tensor/float16.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

constexpr int64_t kBlock = 512;

// In place.
void Activate(float* x, int64_t n, const FusedActivation& activation) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return;
    case ActivationKind::kRelu:
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] <= 0.0f ? 0.0f : x[i];
      return;
    case ActivationKind::kRelu6:
      for (int64_t i = 0; i < n; ++i) {
        const float low = x[i] <= 0.0f ? 0.0f : x[i];
        x[i] = low > 6.0f ? 6.0f : low;
      }
      return;
    case ActivationKind::kElu: {
      for (int64_t i = 0; i < n; i += kBlock) {
        float e[kBlock];
        const int64_t count = std::min(kBlock, n - i);
        Expm1(x + i, e, count);
        for (int64_t j = 0; j < count; ++j) x[i + j] = x[i + j] < 0.0f ? e[j] : x[i + j];
      }
      return;
    }
    case ActivationKind::kLeakyRelu:
      for (int64_t i = 0; i < n; ++i) x[i] = x[i] > 0.0f ? x[i] : x[i] * activation.alpha;
      return;
    case ActivationKind::kTanh:
      return Tanh(x, x, n);
    case ActivationKind::kSigmoid:
      return Logistic(x, x, n);
  }
}

}  // namespace

absl::StatusOr<FusedActivation> ParseFusedOps(const std::vector<std::string>& fused_ops,
                                              float leakyrelu_alpha) {
  static constexpr std::pair<absl::string_view, ActivationKind> kKnown[] = {
      {"Relu", ActivationKind::kRelu}, {"Relu6", ActivationKind::kRelu6},
      {"Elu", ActivationKind::kElu},   {"LeakyRelu", ActivationKind::kLeakyRelu},
      {"Tanh", ActivationKind::kTanh}, {"Sigmoid", ActivationKind::kSigmoid},
  };
  if (fused_ops.size() == 1 && fused_ops[0] == "BiasAdd") return FusedActivation();
  if (fused_ops.size() == 2 && fused_ops[0] == "BiasAdd") {
    for (const auto& [name, kind] : kKnown) {
      if (fused_ops[1] == name) return FusedActivation{kind, leakyrelu_alpha};
    }
  }
  return errors::Unimplemented("fused_ops [", absl::StrJoin(fused_ops, ","),
                               "]; known are BiasAdd alone or before one of Relu, Relu6, Elu, "
                               "LeakyRelu, Tanh, Sigmoid");
}

void Activate(float* x, int64_t n, const FusedActivation& activation, ParallelRunner& parallel) {
  parallel.For(n, 0.5,
               [&](int64_t begin, int64_t end) { Activate(x + begin, end - begin, activation); });
}

template <typename T>
void AddBiasAndActivate(T* values, int64_t rows, int64_t columns, const T* bias,
                        const FusedActivation& activation, ParallelRunner& parallel) {
  parallel.For(rows, 0.5 * static_cast<double>(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < columns; i += kBlock) {
        float block[kBlock];
        const int64_t n = std::min(kBlock, columns - i);
        T* const x = values + row * columns + i;
        for (int64_t j = 0; j < n; ++j) {
          block[j] = static_cast<float>(x[j]) + static_cast<float>(bias[i + j]);
        }
        Activate(block, n, activation);
        FromCompute(block, x, n);
      }
    }
  });
}

template void AddBiasAndActivate(float*, int64_t, int64_t, const float*, const FusedActivation&,
                                 ParallelRunner&);
template void AddBiasAndActivate(Float16*, int64_t, int64_t, const Float16*, const FusedActivation&,
                                 ParallelRunner&);
template void AddBiasAndActivate(Bfloat16*, int64_t, int64_t, const Bfloat16*,
                                 const FusedActivation&, ParallelRunner&);

}  // namespace tandem
