// ResizeBilinear and ResizeBilinearGrad: a pixel of the result is made of the four around its place
// in the image, each the more the nearer it is. The result is float32 whatever the images are.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/image/resize.h"
#include "kernels/nn/tensor_conversion.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

// The two rows (or columns) that a row of the result lies between.
struct Between {
  int64_t lower;
  int64_t upper;
  float to_upper;  // How far it lies on the way from one to the other.
};

std::vector<Between> Places(const ResizeAttrs& attrs, int64_t input, int64_t output, float scale) {
  std::vector<Between> places(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float at = attrs.Coordinate(i, scale);
    const float floor = std::floor(at);
    places[static_cast<size_t>(i)] = {
        std::min(std::max<int64_t>(static_cast<int64_t>(floor), 0), input - 1),
        std::min<int64_t>(static_cast<int64_t>(std::ceil(at)), input - 1), at - floor};
  }
  return places;
}

class BilinearKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ResizeAttrs::Of(init.attrs()));
    return absl::OkStatus();
  }

 protected:
  ResizeAttrs attrs_;
};

template <typename T>
class ResizeBilinearKernel : public BilinearKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(1), "size"));
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make(attrs_, images.shape(), size.height, size.width));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, r.OutputShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const auto rows = Places(attrs_, r.in_height, r.out_height, r.height_scale);
    const auto columns = Places(attrs_, r.in_width, r.out_width, r.width_scale);
    const T* const x = images.Elements<T>().data();
    float* const y = output->MutableElements<float>().data();
    const int64_t row_size = r.out_width * r.channels;
    c.parallel().For(r.batch * r.out_height, 2.0 * static_cast<double>(row_size),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         ResizeRow(r, x + i / r.out_height * r.InputImage(),
                                   rows[static_cast<size_t>(i % r.out_height)], columns,
                                   y + i * row_size);
                       }
                     });
    return absl::OkStatus();
  }

 private:
  static void ResizeRow(const Resize& r, const T* image, const Between& row,
                        const std::vector<Between>& columns, float* to) {
    const T* const above = image + row.lower * r.in_width * r.channels;
    const T* const below = image + row.upper * r.in_width * r.channels;
    for (const Between& column : columns) {
      const int64_t left = column.lower * r.channels;
      const int64_t right = column.upper * r.channels;
      for (int64_t k = 0; k < r.channels; ++k) {
        const auto value = [k](const T* pixel) { return static_cast<float>(pixel[k]); };
        const float a = value(above + left);
        const float b = value(below + left);
        const float top = a + (value(above + right) - a) * column.to_upper;
        const float bottom = b + (value(below + right) - b) * column.to_upper;
        to[k] = top + (bottom - top) * row.to_upper;
      }
      to += r.channels;
    }
  }
};

template <typename T>
class ResizeBilinearGradKernel : public BilinearKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradients = c.input(0);
    const Shape& original = c.input(1).shape();
    const Shape& resized = gradients.shape();
    if (resized.rank() != 4) {
      return errors::InvalidArgument("grads must have rank 4, not shape ", resized.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make(attrs_, original, resized.dim(1), resized.dim(2)));
    if (resized != r.OutputShape()) {
      return errors::InvalidArgument("images of shape ", original.DebugString(),
                                     " cannot have been resized to grads of shape ",
                                     resized.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, original));
    if (output->num_elements() == 0) return absl::OkStatus();
    Tensor sums = *output;
    if (output->dtype() != DataTypeOf<C>()) {
      TANDEM_ASSIGN_OR_RETURN(sums, c.AllocateTemporary(DataTypeOf<C>(), original));
    }
    const auto rows = Places(attrs_, r.in_height, r.out_height, r.height_scale);
    const auto columns = Places(attrs_, r.in_width, r.out_width, r.width_scale);
    const float* const dy = gradients.Elements<float>().data();
    C* const dx = sums.MutableElements<C>().data();
    c.parallel().For(
        r.batch, 3.0 * static_cast<double>(r.OutputImage()), [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            Spread(r, rows, columns, dy + n * r.OutputImage(), dx + n * r.InputImage());
          }
        });
    if constexpr (!std::is_same_v<C, T>) FromFloat(sums, *output, c.parallel());
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;

  static void Spread(const Resize& r, const std::vector<Between>& rows,
                     const std::vector<Between>& columns, const float* dy, C* image) {
    std::fill_n(image, r.InputImage(), C(0));
    for (const Between& row : rows) {
      C* const above = image + row.lower * r.in_width * r.channels;
      C* const below = image + row.upper * r.in_width * r.channels;
      for (const Between& column : columns) {
        const int64_t left = column.lower * r.channels;
        const int64_t right = column.upper * r.channels;
        const float to_lower_row = 1 - row.to_upper;
        const float to_lower_column = 1 - column.to_upper;
        for (int64_t k = 0; k < r.channels; ++k) {
          above[left + k] += static_cast<C>(dy[k] * to_lower_row * to_lower_column);
          above[right + k] += static_cast<C>(dy[k] * to_lower_row * column.to_upper);
          below[left + k] += static_cast<C>(dy[k] * row.to_upper * to_lower_column);
          below[right + k] += static_cast<C>(dy[k] * row.to_upper * column.to_upper);
        }
        dy += r.channels;
      }
    }
  }
};

absl::Status ResizeBilinearGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ResizeBilinearGrad", {g.OutputGradient(0), g.input(0)},
                               {{"align_corners", g.Attr<bool>("align_corners")},
                                {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
  return absl::OkStatus();
}

TANDEM_OP("ResizeBilinear")
    .Inputs("images:T, size:int32")
    .Outputs("resized_images:float32")
    .Attrs(
        "T:type{int8,uint8,int16,uint16,int32,int64,bfloat16,float16,float32,float64}; "
        "align_corners:bool=False; half_pixel_centers:bool=False")
    .HostMemory({"size"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Gradient(ResizeBilinearGradient)
    .Cpu(ByType<ResizeBilinearKernel, float, double, Float16, Bfloat16, int8_t, uint8_t, int16_t,
                uint16_t, int32_t, int64_t>("T"));

TANDEM_OP("ResizeBilinearGrad")
    .Inputs("grads:float32, original_image:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,bfloat16,float16,float64}; align_corners:bool=False; "
        "half_pixel_centers:bool=False")
    .Shape([](ShapeContext& c) { return c.SetOutput(0, c.input(1)); })
    .NotDifferentiable()
    .Cpu(ByType<ResizeBilinearGradKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
