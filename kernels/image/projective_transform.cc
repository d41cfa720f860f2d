// ImageProjectiveTransformV2 and V3: images turned, moved, sheared and seen in perspective.
//
// A transform is eight numbers a0 to a7. Pixel (x, y) of the result is taken from the image at
//   ((a0 x + a1 y + a2) / k, (a3 x + a4 y + a5) / k),  k = a6 x + a7 y + 1.
// What lies outside of the image is a constant, or is filled up by the mode's rule.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/image/resize.h"

namespace tandem {
namespace {

enum class Fill { kConstant, kReflect, kWrap, kNearest };

absl::StatusOr<Fill> ParseFill(const std::string& mode) {
  if (mode == "CONSTANT") return Fill::kConstant;
  if (mode == "REFLECT") return Fill::kReflect;
  if (mode == "WRAP") return Fill::kWrap;
  if (mode == "NEAREST") return Fill::kNearest;
  return errors::InvalidArgument("fill_mode is '", mode,
                                 "'; known are CONSTANT, REFLECT, WRAP and NEAREST");
}

// A coordinate brought to [0, size - 1], but for constants.
float Inside(Fill fill, float at, int64_t size) {
  const auto length = static_cast<float>(size);
  const float last = length - 1;
  switch (fill) {
    case Fill::kConstant:
      return at;
    case Fill::kReflect:  // dcba|abcd|dcba
      if (at < 0) {
        if (size <= 1) return 0;
        const float period = 2 * length;
        if (at < period) at += period * std::trunc(-at / period);
        at = at < -length ? at + period : -at - 1;
      } else if (at > last) {
        if (size <= 1) return 0;
        const float period = 2 * length;
        at -= period * std::trunc(at / period);
        if (at >= length) at = period - at - 1;
      }
      break;
    case Fill::kWrap:  // abcd|abcd|abcd
      if (at < 0) {
        if (size <= 1) return 0;
        at += length * (std::trunc(-at / last) + 1);
      } else if (at > last) {
        if (size <= 1) return 0;
        at -= length * std::trunc(at / last);
      }
      break;
    case Fill::kNearest:
      break;
  }
  return std::fmin(std::fmax(at, 0), last);
}

template <typename T>
T FromFloat(float x) {
  if constexpr (std::is_integral_v<T>) {
    // A conversion of what does not fit would be undefined.
    const double low = static_cast<double>(std::numeric_limits<T>::lowest());
    const double high = static_cast<double>(std::numeric_limits<T>::max());
    const auto value = static_cast<double>(x);
    if (!(value > low)) return std::numeric_limits<T>::lowest();
    if (value >= high) return std::numeric_limits<T>::max();
  }
  return T(x);
}

template <typename T>
class ProjectiveTransformKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const std::string& interpolation = init.Attr<std::string>("interpolation");
    if (interpolation != "NEAREST" && interpolation != "BILINEAR") {
      return errors::InvalidArgument("interpolation is '", interpolation,
                                     "'; known are NEAREST and BILINEAR");
    }
    bilinear_ = interpolation == "BILINEAR";
    TANDEM_ASSIGN_OR_RETURN(fill_, ParseFill(init.Attr<std::string>("fill_mode")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    const Shape& in = images.shape();
    const Shape& transforms = c.input(1).shape();
    if (in.rank() != 4) {
      return errors::InvalidArgument("images must have rank 4, not shape ", in.DebugString());
    }
    if (!transforms.IsMatrix() || transforms.dim(1) != 8 ||
        (transforms.dim(0) != in.dim(0) && transforms.dim(0) != 1)) {
      return errors::InvalidArgument("transforms of shape ", transforms.DebugString(), " must be [",
                                     in.dim(0), ",8], or [1,8]");
    }
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(2), "output_shape"));
    float outside = 0;
    if (c.num_inputs() > 3) {
      if (!c.input(3).shape().IsScalar()) {
        return errors::InvalidArgument("fill_value must be a scalar, not of shape ",
                                       c.input(3).shape().DebugString());
      }
      outside = c.input(3).Elements<float>()[0];
    }
    TANDEM_ASSIGN_OR_RETURN(Shape shape,
                            Shape::FromDims({in.dim(0), size.height, size.width, in.dim(3)}));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();
    Images from = {images.Elements<T>().data(), in.dim(1), in.dim(2), in.dim(3),
                   FromFloat<T>(outside)};
    const float* const all = c.input(1).Elements<float>().data();
    T* const to = output->MutableElements<T>().data();
    const int64_t row_size = size.width * in.dim(3);
    c.parallel().For(in.dim(0) * size.height, 5.0 * static_cast<double>(row_size),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         const int64_t n = i / size.height;
                         const float* const transform = all + (transforms.dim(0) == 1 ? 0 : 8 * n);
                         TransformRow(from, n, transform, i % size.height, size.width,
                                      to + i * row_size);
                       }
                     });
    return absl::OkStatus();
  }

 private:
  struct Images {
    const T* data;
    int64_t height, width, channels;
    T outside;

    T At(int64_t n, int64_t y, int64_t x, int64_t channel) const {
      if (y < 0 || x < 0 || y >= height || x >= width) return outside;
      return data[((n * height + y) * width + x) * channels + channel];
    }
  };

  void TransformRow(const Images& from, int64_t n, const float* a, int64_t row, int64_t width,
                    T* to) const {
    const auto y = static_cast<float>(row);
    for (int64_t j = 0; j < width; ++j, to += from.channels) {
      const auto x = static_cast<float>(j);
      const float k = a[6] * x + a[7] * y + 1;
      const float in_x = Inside(fill_, (a[0] * x + a[1] * y + a[2]) / k, from.width);
      const float in_y = Inside(fill_, (a[3] * x + a[4] * y + a[5]) / k, from.height);
      // Also what is no number.
      constexpr float kFar = 1e9f;
      if (k == 0 || !(std::abs(in_x) < kFar) || !(std::abs(in_y) < kFar)) {
        std::fill_n(to, from.channels, from.outside);
      } else if (bilinear_) {
        Blend(from, n, in_y, in_x, to);
      } else {
        const auto nearest_y = static_cast<int64_t>(std::round(in_y));
        const auto nearest_x = static_cast<int64_t>(std::round(in_x));
        for (int64_t c = 0; c < from.channels; ++c) to[c] = from.At(n, nearest_y, nearest_x, c);
      }
    }
  }

  static void Blend(const Images& from, int64_t n, float y, float x, T* to) {
    const float top = std::floor(y);
    const float left = std::floor(x);
    const float down = y - top;
    const float across = x - left;
    const auto row = static_cast<int64_t>(top);
    const auto column = static_cast<int64_t>(left);
    for (int64_t c = 0; c < from.channels; ++c) {
      const auto value = [&](int64_t i, int64_t j) {
        return static_cast<float>(from.At(n, row + i, column + j, c));
      };
      const float above = (1 - across) * value(0, 0) + across * value(0, 1);
      const float below = (1 - across) * value(1, 0) + across * value(1, 1);
      to[c] = FromFloat<T>((1 - down) * above + down * below);
    }
  }

  bool bilinear_ = false;
  Fill fill_ = Fill::kConstant;
};

// TensorFlow's gradient: the output's, transformed back. It is the true one where every pixel of
// the result is one of the image; where pixels are blended, or left out, it is near to it.
absl::Status ProjectiveTransformGradient(GradientContext& g) {
  const Output transforms = g.input(1);
  const auto index = [&](std::initializer_list<int32_t> i) {
    return g.Constant(Tensor::Vector<int32_t>(i));
  };
  // Column i of the transforms, [n, 1].
  const auto a = [&](int32_t i) {
    return g.Call("Slice", {transforms, index({0, i}), index({-1, 1})});
  };
  const auto minor = [&](Output p, Output q, Output r, Output s) {
    return g.Call("Sub", {g.Call("Mul", {p, q}), g.Call("Mul", {r, s})});
  };
  const Output a0 = a(0), a1 = a(1), a2 = a(2), a3 = a(3), a4 = a(4), a5 = a(5), a6 = a(6),
               a7 = a(7);
  // The inverse of the 3 x 3 matrix whose last element is 1, scaled so that its last is 1, too.
  const auto less = [&](Output p, Output q, Output r) {
    return g.Call("Sub", {p, g.Call("Mul", {q, r})});
  };
  const std::vector<Output> adjoint = {less(a4, a5, a7),                   // a4 - a5 a7
                                       g.Call("Neg", {less(a1, a2, a7)}),  // a2 a7 - a1
                                       minor(a1, a5, a2, a4),              // a1 a5 - a2 a4
                                       g.Call("Neg", {less(a3, a5, a6)}),  // a5 a6 - a3
                                       less(a0, a2, a6),                   // a0 - a2 a6
                                       minor(a2, a3, a0, a5),              // a2 a3 - a0 a5
                                       minor(a3, a7, a4, a6),              // a3 a7 - a4 a6
                                       minor(a1, a6, a0, a7)};             // a1 a6 - a0 a7
  std::vector<Output> columns = adjoint;
  columns.push_back(g.Scalar(kInt32, 1));
  const Output inverse =
      g.Call("RealDiv", {g.Call("ConcatV2", std::move(columns)), minor(a0, a4, a1, a3)});
  const Output size =
      g.Call("StridedSlice", {g.Call("Shape", {g.input(0)}), index({1}), index({3}), index({1})});
  std::vector<Output> inputs = {g.OutputGradient(0), inverse, size};
  if (g.num_inputs() > 3) inputs.push_back(g.Scalar(kFloat32, 0));
  g.SetInputGradient(0, g.Call(g.node().type(), std::move(inputs),
                               {{"interpolation", g.Attr<std::string>("interpolation")},
                                {"fill_mode", g.Attr<std::string>("fill_mode")}}));
  return absl::OkStatus();
}

constexpr char kAttrs[] =
    "dtype:type{uint8,int32,int64,float16,bfloat16,float32,float64}; interpolation:string; "
    "fill_mode:string=CONSTANT";

KernelDef ForTypes() {
  return ByType<ProjectiveTransformKernel, float, double, Float16, Bfloat16, uint8_t, int32_t,
                int64_t>("dtype");
}

TANDEM_OP("ImageProjectiveTransformV2")
    .Inputs("images:dtype, transforms:float32, output_shape:int32")
    .Outputs("transformed_images:dtype")
    .Attrs(kAttrs)
    .HostMemory({"output_shape"})
    .Shape([](ShapeContext& c) { return ResizeShape(c, 0, 2); })
    .Gradient(ProjectiveTransformGradient)
    .Cpu(ForTypes());

TANDEM_OP("ImageProjectiveTransformV3")
    .Inputs("images:dtype, transforms:float32, output_shape:int32, fill_value:float32")
    .Outputs("transformed_images:dtype")
    .Attrs(kAttrs)
    .HostMemory({"output_shape", "fill_value"})
    .Shape([](ShapeContext& c) { return ResizeShape(c, 0, 2); })
    .Gradient(ProjectiveTransformGradient)
    .Cpu(ForTypes());

}  // namespace
}  // namespace tandem
