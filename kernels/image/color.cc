// RGBToHSV, HSVToRGB, AdjustHue and AdjustSaturation: colors, three numbers in the last dimension.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/image/hsv.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

constexpr double kCost = 8;  // Of a pixel, in nanoseconds.

absl::Status CheckColors(const Shape& shape, int min_rank) {
  if (shape.rank() >= min_rank && shape.dim(shape.rank() - 1) == 3) return absl::OkStatus();
  return errors::InvalidArgument("images of shape ", shape.DebugString(),
                                 " must have 3 channels, last, and rank ", min_rank, " at least");
}

// Runs f(three numbers to change) for each pixel.
template <typename T, typename F>
absl::Status ForEachPixel(KernelContext& c, F f) {
  const Shape shape = c.input(0).shape();
  const T* const from = c.input(0).Elements<T>().data();
  TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, shape));
  T* const to = output->MutableElements<T>().data();
  c.parallel().For(shape.num_elements() / 3, kCost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ComputeType<T> color[3];
      ToCompute(from + 3 * i, color, 3);
      f(color);
      FromCompute(color, to + 3 * i, 3);
    }
  });
  return absl::OkStatus();
}

template <typename T>
class RgbToHsvKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckColors(c.input(0).shape(), 1));
    return ForEachPixel<T>(c, [](ComputeType<T>* color) { RgbToHsv(color, color); });
  }
};
template <typename T>
class HsvToRgbKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckColors(c.input(0).shape(), 1));
    return ForEachPixel<T>(c, [](ComputeType<T>* color) { HsvToRgb(color, color); });
  }
};

absl::StatusOr<float> ScalarArgument(const Tensor& value, absl::string_view name) {
  if (value.shape().IsScalar()) return value.Elements<float>()[0];
  return errors::InvalidArgument(name, " must be a scalar, not of shape ",
                                 value.shape().DebugString());
}

template <typename T>
class AdjustHueKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckColors(c.input(0).shape(), 3));
    TANDEM_ASSIGN_OR_RETURN(const float delta, ScalarArgument(c.input(1), "delta"));
    return ForEachPixel<T>(c, [delta](float* color) {
      RgbToHsv(color, color);
      const float hue = color[0] + delta;
      color[0] = hue - std::floor(hue);
      HsvToRgb(color, color);
    });
  }
};
template <typename T>
class AdjustSaturationKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckColors(c.input(0).shape(), 3));
    TANDEM_ASSIGN_OR_RETURN(const float scale, ScalarArgument(c.input(1), "scale"));
    return ForEachPixel<T>(c, [scale](float* color) {
      RgbToHsv(color, color);
      color[1] = std::min(1.0f, std::max(0.0f, color[1] * scale));
      HsvToRgb(color, color);
    });
  }
};

absl::Status ColorShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  const PartialShape& images = c.input(0);
  if (!images.has_rank()) return UnchangedShape(c);
  const int64_t channels = images.dim(images.rank() - 1);
  if (channels >= 0 && channels != 3) {
    return errors::InvalidArgument("images of shape ", images.DebugString(),
                                   " must have 3 channels, last");
  }
  PartialShape output = images;
  output.SetDim(images.rank() - 1, 3);
  return c.SetOutput(0, std::move(output));
}
absl::Status AdjustShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 3));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  return UnchangedShape(c);
}

// With M and m the largest and smallest of r, g and b: value is M, saturation (M - m) / M, hue
// (g - b) / 6 (M - m) where r is the largest, and alike for the others. So all derivatives are
// those with respect to M and m, which go to the channels that these are, and for the hue also
// those with respect to the two others.
absl::Status RgbToHsvGradient(GradientContext& g) {
  const DataType type = RemoveReference(g.input(0).dtype());
  const auto call = [&](const char* op, Output a, Output b) { return g.Call(op, {a, b}); };
  const auto channels = [&](Output colors) {
    return g.CallMulti("Unpack", {colors}, {{"num", 3}, {"axis", -1}});
  };
  const std::vector<Output> rgb = channels(g.input(0));
  const std::vector<Output> d = channels(g.OutputGradient(0));
  if (rgb.size() != 3 || d.size() != 3) return g.status();
  const Output most = call("Maximum", rgb[0], call("Maximum", rgb[1], rgb[2]));
  const Output least = call("Minimum", rgb[0], call("Minimum", rgb[1], rgb[2]));
  const Output range = call("Sub", most, least);
  const Output one = g.Scalar(type, 1);

  // 1 for the first channel that is `which`, 0 for the others.
  const auto masks = [&](Output which) {
    const auto equal = [&](Output channel) {
      return g.Call("Cast", {call("Equal", channel, which)}, {{"DstT", type}});
    };
    const Output first = equal(rgb[0]);
    const Output second = call("Mul", equal(rgb[1]), call("Sub", one, first));
    return std::vector<Output>{first, second, call("Sub", call("Sub", one, first), second)};
  };
  const std::vector<Output> is_most = masks(most);
  const std::vector<Output> is_least = masks(least);

  // d hue / 6 (M - m), and hue as far as it depends on the difference of two channels.
  const Output by_range = call("DivNoNan", call("DivNoNan", d[0], range), g.Scalar(type, 6));
  Output difference = call("Mul", is_most[0], call("Sub", rgb[1], rgb[2]));
  difference = call("AddV2", difference, call("Mul", is_most[1], call("Sub", rgb[2], rgb[0])));
  difference = call("AddV2", difference, call("Mul", is_most[2], call("Sub", rgb[0], rgb[1])));
  const Output hue_by_range = call("Mul", by_range, call("DivNoNan", difference, range));
  const Output saturation_by_least = call("DivNoNan", d[1], most);
  const Output saturation_by_most = call("Mul", saturation_by_least, call("DivNoNan", least, most));
  const Output to_most = call("Sub", call("AddV2", d[2], saturation_by_most), hue_by_range);
  const Output to_least = call("Sub", hue_by_range, saturation_by_least);

  std::vector<Output> result;
  for (size_t i = 0; i < 3; ++i) {
    // In the hue a channel follows with + where the one before it is the largest, else with -.
    const Output sign = call("Sub", is_most[(i + 2) % 3], is_most[(i + 1) % 3]);
    Output sum = call("Mul", is_most[i], to_most);
    sum = call("AddV2", sum, call("Mul", is_least[i], to_least));
    result.push_back(call("AddV2", sum, call("Mul", sign, by_range)));
  }
  g.SetInputGradient(0, g.Call("Pack", std::move(result), {{"axis", -1}}));
  return absl::OkStatus();
}

TANDEM_OP("RGBToHSV")
    .Inputs("images:T")
    .Outputs("output:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}=float32")
    .Shape(ColorShape)
    .Gradient(RgbToHsvGradient)
    .Cpu(ByType<RgbToHsvKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("HSVToRGB")
    .Inputs("images:T")
    .Outputs("output:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}=float32")
    .Shape(ColorShape)
    .NotDifferentiable()
    .Cpu(ByType<HsvToRgbKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("AdjustHue")
    .Inputs("images:T, delta:float32")
    .Outputs("output:T")
    .Attrs("T:type{float16,float32}=float32")
    .HostMemory({"delta"})
    .Shape(AdjustShape)
    .Cpu(ByType<AdjustHueKernel, float, Float16>("T"));

TANDEM_OP("AdjustSaturation")
    .Inputs("images:T, scale:float32")
    .Outputs("output:T")
    .Attrs("T:type{float16,float32}=float32")
    .HostMemory({"scale"})
    .Shape(AdjustShape)
    .Cpu(ByType<AdjustSaturationKernel, float, Float16>("T"));

}  // namespace
}  // namespace tandem
