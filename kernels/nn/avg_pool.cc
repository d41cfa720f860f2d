// AvgPool and AvgPoolGrad. Padding does not count: a window at the border divides by the number of
// elements that it has.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/pool.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

// Channels are looked at in pieces whose sums stay in the first-level cache.
constexpr int64_t kPiece = 256;

class PoolKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, PoolAttrsOf(init, false));
    if (attrs_.depth != 1) {
      return errors::Unimplemented("average pooling over channels, in windows of ", attrs_.depth);
    }
    return absl::OkStatus();
  }

 protected:
  PoolAttrs attrs_;
};

double Size(const Span& rows, const Span& columns) {
  return static_cast<double>((rows.end - rows.begin) * (columns.end - columns.begin));
}

double CostOfRow(const Pool& p) {
  return 0.3 * static_cast<double>(p.width.output * p.channels) *
         static_cast<double>(p.height.window * p.width.window);
}

template <typename T>
class AvgPoolKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Pool p, Pool::Make(attrs_, input.shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = input.Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    c.parallel().For(p.batch * p.height.output, CostOfRow(p), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        PoolRow(p, x + row / p.height.output * p.InputImage(), row % p.height.output,
                y + row * p.width.output * p.channels);
      }
    });
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;

  static void PoolRow(const Pool& p, const T* image, int64_t out_row, T* to) {
    const Span rows = Covered(p.height, out_row);
    for (int64_t o = 0; o < p.width.output; ++o, to += p.channels) {
      const Span columns = Covered(p.width, o);
      const C size = static_cast<C>(Size(rows, columns));
      for (int64_t first = 0; first < p.channels; first += kPiece) {
        const int64_t n = std::min(kPiece, p.channels - first);
        C sums[kPiece];
        std::fill_n(sums, n, C(0));
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const T* const x = image + (i * p.width.input + j) * p.channels + first;
            for (int64_t k = 0; k < n; ++k) sums[k] += static_cast<C>(x[k]);
          }
        }
        for (int64_t k = 0; k < n; ++k) to[first + k] = T(sums[k] / size);
      }
    }
  }
};

template <typename T>
class AvgPoolGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& sizes = c.input(0);
    const Tensor& dy = c.input(1);
    if (!sizes.shape().IsVector() || sizes.num_elements() != 4) {
      return errors::InvalidArgument("orig_input_shape must be a vector of 4 sizes, not of shape ",
                                     sizes.shape().DebugString());
    }
    Shape::Dims dims;
    for (const int32_t size : sizes.Elements<int32_t>()) dims.push_back(size);
    TANDEM_ASSIGN_OR_RETURN(const Shape input, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(const Pool p, Pool::Make(attrs_, input));
    if (dy.shape() != p.output) {
      return errors::InvalidArgument("the pool of an input of shape ", input.DebugString(),
                                     " has shape ", p.output.DebugString(), ", the gradient ",
                                     dy.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input));
    if (output->num_elements() == 0) return absl::OkStatus();
    T* const dx = output->MutableElements<T>().data();
    const T* const g = dy.Elements<T>().data();
    c.parallel().For(p.batch, CostOfRow(p) * static_cast<double>(p.height.output),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = begin; n < end; ++n) {
                         Spread(p, g + n * p.OutputImage(), dx + n * p.InputImage());
                       }
                     });
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;

  static void Spread(const Pool& p, const T* gradient, T* image) {
    std::fill_n(image, p.InputImage(), T(0.0f));
    for (int64_t o = 0; o < p.height.output; ++o) {
      const Span rows = Covered(p.height, o);
      for (int64_t q = 0; q < p.width.output; ++q, gradient += p.channels) {
        const Span columns = Covered(p.width, q);
        const C scale = C(1) / static_cast<C>(Size(rows, columns));
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            T* const to = image + (i * p.width.input + j) * p.channels;
            for (int64_t k = 0; k < p.channels; ++k) {
              to[k] = T(static_cast<C>(to[k]) + static_cast<C>(gradient[k]) * scale);
            }
          }
        }
      }
    }
  }
};

absl::Status AvgPoolGradShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(PoolAttrsOf(c, false).status());
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape sizes, c.InputAsShape(0));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, sizes.MergeWith(PartialShape::UnknownOfRank(4)));
  return c.SetOutput(0, std::move(output));
}

AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

absl::Status AvgPoolGradient(GradientContext& g) {
  g.SetInputGradient(
      0, g.Call("AvgPoolGrad", {g.Call("Shape", {g.input(0)}), g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status AvgPoolGradGradient(GradientContext& g) {
  g.SetInputGradient(1, g.Call("AvgPool", {g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}

TANDEM_OP("AvgPool")
    .Inputs("value:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=4; strides:list(int)>=4; padding:string{SAME,VALID}; "
        "data_format:string{NHWC,NCHW}=NHWC; T:type{float16,bfloat16,float32,float64}")
    .Shape([](ShapeContext& c) { return PoolShape(c, false); })
    .Gradient(AvgPoolGradient)
    .Cpu(ByType<AvgPoolKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("AvgPoolGrad")
    .Inputs("orig_input_shape:int32, grad:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=4; strides:list(int)>=4; padding:string{SAME,VALID}; "
        "data_format:string{NHWC,NCHW}=NHWC; T:type{float16,bfloat16,float32,float64}")
    .HostMemory({"orig_input_shape"})
    .Shape(AvgPoolGradShape)
    .Gradient(AvgPoolGradGradient)
    .Cpu(ByType<AvgPoolGradKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
