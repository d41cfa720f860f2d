// _TandemLayerNorm and its gradient: the last dimension of each example normalized by itself (Ba,
// Kiros and Hinton 2016), y = (x - mean) / sqrt(variance + epsilon) gamma + beta. Made by layers
// (strategies/nn/layer_norm.cc), in place of ten ops of TensorFlow's that would read and write
// all values once each.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

// Sizes of `x`, a matrix with all dimensions but the last as its rows.
struct Sizes {
  int64_t rows = 0;
  int64_t columns = 0;
};

absl::StatusOr<Sizes> SizesOf(const Tensor& x, const Tensor& gamma) {
  const Shape& shape = x.shape();
  if (shape.rank() < 1) return errors::InvalidArgument("layer normalization of a scalar");
  Sizes sizes;
  sizes.columns = shape.dim(shape.rank() - 1);
  if (gamma.shape() != Shape({sizes.columns})) {
    return errors::InvalidArgument("layer normalization of ", shape.DebugString(),
                                   " with a scale of shape ", gamma.shape().DebugString(),
                                   "; it must be [", sizes.columns, "]");
  }
  sizes.rows = sizes.columns == 0 ? 0 : x.num_elements() / sizes.columns;
  return sizes;
}

Shape WithoutLast(const Shape& shape) {
  return Shape(shape.dims().subspan(0, static_cast<size_t>(shape.rank()) - 1));
}

template <typename T>
class LayerNormKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    epsilon_ = static_cast<T>(init.Attr<float>("epsilon"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(input, c.input(1)));
    if (c.input(2).shape() != c.input(1).shape()) {
      return errors::InvalidArgument("layer normalization with a scale of shape ",
                                     c.input(1).shape().DebugString(), " and an offset of shape ",
                                     c.input(2).shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input.shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const means, c.AllocateOutput(1, WithoutLast(input.shape())));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const factors, c.AllocateOutput(2, WithoutLast(input.shape())));
    if (input.num_elements() == 0) return absl::OkStatus();
    const int64_t n = sizes.columns;
    const T* const from = input.Elements<T>().data();
    const T* const gamma = c.input(1).Elements<T>().data();
    const T* const beta = c.input(2).Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    T* const mean = means->MutableElements<T>().data();
    T* const factor = factors->MutableElements<T>().data();
    c.parallel().For(sizes.rows, 5 + 0.4 * static_cast<double>(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* const x = from + row * n;
        T* const y = to + row * n;
        const T m = Sum(x, n) / static_cast<T>(n);
        for (int64_t j = 0; j < n; ++j) y[j] = x[j] - m;
        const T f = 1 / std::sqrt(Dot(y, y, n) / static_cast<T>(n) + epsilon_);
        for (int64_t j = 0; j < n; ++j) y[j] = y[j] * f * gamma[j] + beta[j];
        mean[row] = m;
        factor[row] = f;
      }
    });
    return absl::OkStatus();
  }

 private:
  T epsilon_ = 0;
};

// With n = (x - mean) factor and g = dy gamma:
//   dx = factor (g - mean(g) - n mean(g n)),  dgamma = sum(dy n),  dbeta = sum(dy).
template <typename T>
class LayerNormGradKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(input, c.input(4)));
    if (c.input(0).shape() != input.shape() || c.input(2).num_elements() < sizes.rows ||
        c.input(3).num_elements() < sizes.rows) {
      return errors::InvalidArgument(
          "the gradient of a layer normalization of ", input.shape().DebugString(),
          " is given a gradient of ", c.input(0).shape().DebugString(), ", means of ",
          c.input(2).shape().DebugString(), " and factors of ", c.input(3).shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input.shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dgamma, c.AllocateOutput(1, c.input(4).shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dbeta, c.AllocateOutput(2, c.input(4).shape()));
    const int64_t n = sizes.columns;
    const T* const gradient = c.input(0).Elements<T>().data();
    const T* const from = input.Elements<T>().data();
    const T* const mean = c.input(2).Elements<T>().data();
    const T* const factor = c.input(3).Elements<T>().data();
    const T* const gamma = c.input(4).Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    std::vector<T> sums(static_cast<size_t>(2 * n));
    ColumnSums<2>(sizes.rows, n, 5 + 0.8 * static_cast<double>(n), c.parallel(), sums.data(),
                  [&](int64_t row, T* totals) {
                    Row(gradient + row * n, from + row * n, mean[row], factor[row], gamma, n,
                        to + row * n, totals, totals + n);
                  });
    std::copy(sums.begin(), sums.begin() + n, dgamma->MutableElements<T>().begin());
    std::copy(sums.begin() + n, sums.end(), dbeta->MutableElements<T>().begin());
    return absl::OkStatus();
  }

 private:
  static void Row(const T* dy, const T* x, T mean, T factor, const T* gamma, int64_t n, T* dx,
                  T* dgamma, T* dbeta) {
    for (int64_t j = 0; j < n; ++j) {
      const T normalized = (x[j] - mean) * factor;
      dgamma[j] += dy[j] * normalized;
      dbeta[j] += dy[j];
      dx[j] = normalized;
    }
    const T scale = 1 / static_cast<T>(n);
    const T of_gradient = Dot(dy, gamma, n) * scale;
    const T of_product = Dot3(dy, gamma, dx, n) * scale;
    for (int64_t j = 0; j < n; ++j) {
      dx[j] = factor * (dy[j] * gamma[j] - of_gradient - dx[j] * of_product);
    }
  }
};

absl::Status LayerNormShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 1));
  const PartialShape& x = c.input(0);
  PartialShape rows;
  if (x.has_rank()) {
    rows = PartialShape(x.dims().subspan(0, static_cast<size_t>(x.rank()) - 1));
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, x));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, rows));
  return c.SetOutput(2, rows);
}

absl::Status LayerNormGradShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, c.input(1)));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, c.input(4)));
  return c.SetOutput(2, c.input(4));
}

absl::Status LayerNormGradient(GradientContext& g) {
  const std::vector<Output> inputs =
      g.CallMulti("_TandemLayerNormGrad",
                  {g.OutputGradient(0), g.input(0), g.output(1), g.output(2), g.input(1)}, {});
  if (!g.status().ok()) return absl::OkStatus();
  for (int i = 0; i < 3; ++i) g.SetInputGradient(i, inputs[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

// `mean` and `factor` (1 / sqrt(variance + epsilon)) have x's shape without the last dimension; no
// gradient goes through them.
TANDEM_OP("_TandemLayerNorm")
    .Inputs("x:T, gamma:T, beta:T")
    .Outputs("y:T, mean:T, factor:T")
    .Attrs("T:type{float32,float64}; epsilon:float=0.001")
    .Shape(LayerNormShape)
    .Gradient(LayerNormGradient)
    .Cpu(ByType<LayerNormKernel, float, double>("T"));

TANDEM_OP("_TandemLayerNormGrad")
    .Inputs("dy:T, x:T, mean:T, factor:T, gamma:T")
    .Outputs("dx:T, dgamma:T, dbeta:T")
    .Attrs("T:type{float32,float64}")
    .Shape(LayerNormGradShape)
    .NotDifferentiable()
    .Cpu(ByType<LayerNormGradKernel, float, double>("T"));

}  // namespace
}  // namespace tandem
