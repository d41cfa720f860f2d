// ResizeNearestNeighbor and ResizeNearestNeighborGrad: a pixel of the result is one of the image.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
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

// For each row (or column) of the result, the one of the image that it is. Here half pixel centers
// are not moved back by half a pixel: the area that a center falls into is the nearest one.
std::vector<int64_t> Nearest(const ResizeAttrs& attrs, int64_t input, int64_t output, float scale) {
  std::vector<int64_t> nearest(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float at = (static_cast<float>(i) + (attrs.half_pixel_centers ? 0.5f : 0.0f)) * scale;
    const auto whole = static_cast<int64_t>(attrs.align_corners ? std::round(at) : std::floor(at));
    nearest[static_cast<size_t>(i)] = std::min(std::max<int64_t>(whole, 0), input - 1);
  }
  return nearest;
}

class NearestKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ResizeAttrs::Of(init.attrs()));
    return absl::OkStatus();
  }

 protected:
  ResizeAttrs attrs_;
};

template <typename T>
class ResizeNearestNeighborKernel : public NearestKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(1), "size"));
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make(attrs_, images.shape(), size.height, size.width));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, r.OutputShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const auto rows = Nearest(attrs_, r.in_height, r.out_height, r.height_scale);
    const auto columns = Nearest(attrs_, r.in_width, r.out_width, r.width_scale);
    const T* const x = images.Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    const int64_t row_size = r.out_width * r.channels;
    c.parallel().For(r.batch * r.out_height, static_cast<double>(row_size),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         const int64_t row = rows[static_cast<size_t>(i % r.out_height)];
                         const T* const from =
                             x + i / r.out_height * r.InputImage() + row * r.in_width * r.channels;
                         T* to = y + i * row_size;
                         for (const int64_t column : columns) {
                           to = std::copy_n(from + column * r.channels, r.channels, to);
                         }
                       }
                     });
    return absl::OkStatus();
  }
};

template <typename C>
C Plus(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
class ResizeNearestNeighborGradKernel : public NearestKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape& resized = c.input(0).shape();
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(1), "size"));
    if (resized.rank() != 4) {
      return errors::InvalidArgument("grads must have rank 4, not shape ", resized.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape original, Shape::FromDims({resized.dim(0), size.height,
                                                                   size.width, resized.dim(3)}));
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make(attrs_, original, resized.dim(1), resized.dim(2)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, original));
    if (output->num_elements() == 0) return absl::OkStatus();
    Tensor sums = *output;
    if (output->dtype() != DataTypeOf<C>()) {
      TANDEM_ASSIGN_OR_RETURN(sums, c.AllocateTemporary(DataTypeOf<C>(), original));
    }
    const auto rows = Nearest(attrs_, r.in_height, r.out_height, r.height_scale);
    const auto columns = Nearest(attrs_, r.in_width, r.out_width, r.width_scale);
    const T* const dy = c.input(0).Elements<T>().data();
    C* const dx = sums.MutableElements<C>().data();
    c.parallel().For(r.batch, static_cast<double>(r.OutputImage()),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = begin; n < end; ++n) {
                         const T* from = dy + n * r.OutputImage();
                         C* const image = dx + n * r.InputImage();
                         std::fill_n(image, r.InputImage(), C(0));
                         for (const int64_t row : rows) {
                           for (const int64_t column : columns) {
                             C* const to = image + (row * r.in_width + column) * r.channels;
                             for (int64_t k = 0; k < r.channels; ++k) {
                               to[k] = Plus(to[k], static_cast<C>(from[k]));
                             }
                             from += r.channels;
                           }
                         }
                       }
                     });
    if constexpr (!std::is_same_v<C, T>) FromFloat(sums, *output, c.parallel());
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;
};

absl::Status ResizeNearestNeighborGradient(GradientContext& g) {
  const auto index = [&](int32_t i) { return g.Constant(Tensor::Vector<int32_t>({i})); };
  const Output size =
      g.Call("StridedSlice", {g.Call("Shape", {g.input(0)}), index(1), index(3), index(1)});
  g.SetInputGradient(0, g.Call("ResizeNearestNeighborGrad", {g.OutputGradient(0), size},
                               {{"align_corners", g.Attr<bool>("align_corners")},
                                {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
  return absl::OkStatus();
}

TANDEM_OP("ResizeNearestNeighbor")
    .Inputs("images:T, size:int32")
    .Outputs("resized_images:T")
    .Attrs(
        "T:type{int8,uint8,int16,uint16,int32,int64,float16,float32,float64,bfloat16}; "
        "align_corners:bool=False; half_pixel_centers:bool=False")
    .HostMemory({"size"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Gradient(ResizeNearestNeighborGradient)
    .Cpu(ByType<ResizeNearestNeighborKernel, float, double, Float16, Bfloat16, int8_t, uint8_t,
                int16_t, uint16_t, int32_t, int64_t>("T"));

TANDEM_OP("ResizeNearestNeighborGrad")
    .Inputs("grads:T, size:int32")
    .Outputs("output:T")
    .Attrs(
        "T:type{uint8,int8,int32,float16,float32,float64,bfloat16}; align_corners:bool=False; "
        "half_pixel_centers:bool=False")
    .HostMemory({"size"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Cpu(ByType<ResizeNearestNeighborGradKernel, float, double, Float16, Bfloat16, uint8_t, int8_t,
                int32_t>("T"));

}  // namespace
}  // namespace tandem
