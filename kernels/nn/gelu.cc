// _TandemGelu and its gradient: x Φ(x), with the normal distribution's Φ(x) = (1 + erf(x / √2)) / 2
// (Hendrycks and Gimpel 2016). Made by layers (strategies/nn/activation.cc), in place of five ops
// of TensorFlow's.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

constexpr int64_t kBlock = 512;  // Elements that go through a vector function together.
constexpr double kSqrtHalf = 0.70710678118654752;
constexpr double kDensity = 0.39894228040143268;  // 1 / √(2π)

// Calls f(begin, count, scratch) for blocks, on several threads; `scratch` has room for two.
template <typename T, typename F>
void ForBlocks(int64_t n, double nanoseconds, ParallelRunner& parallel, F f) {
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  parallel.For(blocks, nanoseconds * kBlock, [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(2 * kBlock);
    for (int64_t b = begin; b < end; ++b) {
      f(b * kBlock, std::min(kBlock, n - b * kBlock), scratch.data());
    }
  });
}

template <typename T>
class GeluKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
    const T* const from = c.input(0).Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    ForBlocks<T>(output->num_elements(), 1.0, c.parallel(), [&](int64_t at, int64_t n, T* erf) {
      const T* const x = from + at;
      for (int64_t j = 0; j < n; ++j) erf[j] = x[j] * static_cast<T>(kSqrtHalf);
      Erf(erf, erf, n);
      T* const y = to + at;
      for (int64_t j = 0; j < n; ++j) y[j] = x[j] * static_cast<T>(0.5) * (erf[j] + 1);
    });
    return absl::OkStatus();
  }
};

// dx = dy (Φ(x) + x φ(x)), with the density φ(x) = exp(-x² / 2) / √(2π).
template <typename T>
class GeluGradKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    if (c.input(0).shape() != c.input(1).shape()) {
      return errors::InvalidArgument("a gradient of ", c.input(0).shape().DebugString(),
                                     " for a GELU of ", c.input(1).shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output,
                            c.ForwardOrAllocate({0, 1}, 0, c.input(0).shape()));
    const T* const gradient = c.input(0).Elements<T>().data();
    const T* const from = c.input(1).Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    ForBlocks<T>(output->num_elements(), 1.8, c.parallel(), [&](int64_t at, int64_t n, T* erf) {
      T* const density = erf + kBlock;
      const T* const x = from + at;
      for (int64_t j = 0; j < n; ++j) {
        erf[j] = x[j] * static_cast<T>(kSqrtHalf);
        density[j] = x[j] * x[j] * static_cast<T>(-0.5);
      }
      Erf(erf, erf, n);
      Exp(density, density, n);
      const T* const dy = gradient + at;
      T* const dx = to + at;
      for (int64_t j = 0; j < n; ++j) {
        dx[j] = dy[j] *
                (static_cast<T>(0.5) * (erf[j] + 1) + x[j] * density[j] * static_cast<T>(kDensity));
      }
    });
    return absl::OkStatus();
  }
};

absl::Status GeluGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("_TandemGeluGrad", {g.OutputGradient(0), g.input(0)}));
  return absl::OkStatus();
}

TANDEM_OP("_TandemGelu")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type{float32,float64}")
    .Shape(UnchangedShape)
    .Gradient(GeluGradient)
    .Cpu(ByType<GeluKernel, float, double>("T"));

TANDEM_OP("_TandemGeluGrad")
    .Inputs("dy:T, x:T")
    .Outputs("dx:T")
    .Attrs("T:type{float32,float64}")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(ByType<GeluGradKernel, float, double>("T"));

}  // namespace
}  // namespace tandem
