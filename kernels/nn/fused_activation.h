// What may be fused behind a product or a convolution: a bias, then an activation.
#ifndef TANDEM_KERNELS_NN_FUSED_ACTIVATION_H_
#define TANDEM_KERNELS_NN_FUSED_ACTIVATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernel/parallel.h"

namespace tandem {

enum class ActivationKind { kNone, kRelu, kRelu6, kElu, kLeakyRelu, kTanh, kSigmoid };

struct FusedActivation {
  ActivationKind kind = ActivationKind::kNone;
  float alpha = 0;  // LeakyRelu's slope below 0.
};

// The `fused_ops` of _FusedMatMul and its kin: "BiasAdd", then at most one of Relu, Relu6, Elu,
// LeakyRelu, Tanh and Sigmoid. Unimplemented: anything else.
absl::StatusOr<FusedActivation> ParseFusedOps(const std::vector<std::string>& fused_ops,
                                              float leakyrelu_alpha);

// x = activation(x) for n elements. What is no number stays none.
void Activate(float* x, int64_t n, const FusedActivation& activation, ParallelRunner& parallel);

// values = activation(values + bias), for `rows` rows of `columns`, with one bias for each column.
// T is float, Float16 or Bfloat16.
template <typename T>
void AddBiasAndActivate(T* values, int64_t rows, int64_t columns, const T* bias,
                        const FusedActivation& activation, ParallelRunner& parallel);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_FUSED_ACTIVATION_H_
