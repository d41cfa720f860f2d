// ResizeBicubic and ResizeBicubicGrad: a pixel of the result is made of 4 x 4 of the image, by the
// convolution kernel of Keys (1981). Its parameter is -0.75, or -0.5 with half pixel centers; in
// that case pixels beyond the border do not count, else the border's own count for them. Weights
// are those of 1024 steps between two pixels. The result is float32 whatever the images are.
#include <algorithm>
#include <array>
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

namespace tandem {
namespace {

constexpr int kSteps = 1024;

// The rows (or columns) that a row of the result is made of.
struct Taps {
  std::array<int64_t, 4> at;
  std::array<float, 4> weight;
};

// The kernel's value at a distance of up to 1, and at 1 more than `x`.
float Near(float a, float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
float Far(float a, float x) {
  x += 1;
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

std::vector<Taps> Places(const ResizeAttrs& attrs, int64_t input, int64_t output, float scale) {
  const float a = attrs.half_pixel_centers ? -0.5f : -0.75f;
  std::vector<Taps> places(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float place = attrs.Coordinate(i, scale);
    const float floor = std::floor(place);
    const auto before = static_cast<int64_t>(floor);
    const auto step = static_cast<float>(std::lrint((place - floor) * kSteps)) / kSteps;
    Taps& taps = places[static_cast<size_t>(i)];
    taps.weight = {Far(a, step), Near(a, step), Near(a, 1 - step), Far(a, 1 - step)};
    float sum = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int64_t wanted = before - 1 + static_cast<int64_t>(k);
      taps.at[k] = std::min(std::max<int64_t>(wanted, 0), input - 1);
      if (attrs.half_pixel_centers && taps.at[k] != wanted) taps.weight[k] = 0;
      sum += taps.weight[k];
    }
    if (attrs.half_pixel_centers && sum != 0) {
      for (float& weight : taps.weight) weight /= sum;
    }
  }
  return places;
}

class BicubicKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ResizeAttrs::Of(init.attrs()));
    return absl::OkStatus();
  }

 protected:
  ResizeAttrs attrs_;
};

template <typename T>
class ResizeBicubicKernel : public BicubicKernel {
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
    const double cost = 2.0 * static_cast<double>(row_size + r.in_width * r.channels);
    c.parallel().For(r.batch * r.out_height, cost, [&](int64_t begin, int64_t end) {
      std::vector<float> blended(static_cast<size_t>(r.in_width * r.channels));
      for (int64_t i = begin; i < end; ++i) {
        Blend(r, x + i / r.out_height * r.InputImage(), rows[static_cast<size_t>(i % r.out_height)],
              blended.data());
        ResizeRow(r, blended.data(), columns, y + i * row_size);
      }
    });
    return absl::OkStatus();
  }

 private:
  static void Blend(const Resize& r, const T* image, const Taps& taps, float* to) {
    const int64_t n = r.in_width * r.channels;
    const T* rows[4];
    for (size_t k = 0; k < 4; ++k) rows[k] = image + taps.at[k] * n;
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<float>(rows[0][i]) * taps.weight[0] +
              static_cast<float>(rows[1][i]) * taps.weight[1] +
              static_cast<float>(rows[2][i]) * taps.weight[2] +
              static_cast<float>(rows[3][i]) * taps.weight[3];
    }
  }
  static void ResizeRow(const Resize& r, const float* row, const std::vector<Taps>& columns,
                        float* to) {
    for (const Taps& taps : columns) {
      for (int64_t k = 0; k < r.channels; ++k) {
        to[k] = 0;
        for (size_t j = 0; j < 4; ++j) to[k] += row[taps.at[j] * r.channels + k] * taps.weight[j];
      }
      to += r.channels;
    }
  }
};

template <typename T>
class ResizeBicubicGradKernel : public BicubicKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape& resized = c.input(0).shape();
    const Shape& original = c.input(1).shape();
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
    const auto rows = Places(attrs_, r.in_height, r.out_height, r.height_scale);
    const auto columns = Places(attrs_, r.in_width, r.out_width, r.width_scale);
    const float* const dy = c.input(0).Elements<float>().data();
    T* const dx = output->MutableElements<T>().data();
    c.parallel().For(
        r.batch, 10.0 * static_cast<double>(r.OutputImage()), [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            Spread(r, rows, columns, dy + n * r.OutputImage(), dx + n * r.InputImage());
          }
        });
    return absl::OkStatus();
  }

 private:
  static void Spread(const Resize& r, const std::vector<Taps>& rows,
                     const std::vector<Taps>& columns, const float* dy, T* image) {
    std::fill_n(image, r.InputImage(), T(0));
    for (const Taps& row : rows) {
      for (const Taps& column : columns) {
        for (size_t i = 0; i < 4; ++i) {
          for (size_t j = 0; j < 4; ++j) {
            const T weight = static_cast<T>(row.weight[i] * column.weight[j]);
            T* const to = image + (row.at[i] * r.in_width + column.at[j]) * r.channels;
            for (int64_t k = 0; k < r.channels; ++k) to[k] += static_cast<T>(dy[k]) * weight;
          }
        }
        dy += r.channels;
      }
    }
  }
};

absl::Status ResizeBicubicGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ResizeBicubicGrad", {g.OutputGradient(0), g.input(0)},
                               {{"align_corners", g.Attr<bool>("align_corners")},
                                {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
  return absl::OkStatus();
}

TANDEM_OP("ResizeBicubic")
    .Inputs("images:T, size:int32")
    .Outputs("resized_images:float32")
    .Attrs(
        "T:type{int8,uint8,int16,uint16,int32,int64,float16,float32,float64,bfloat16}; "
        "align_corners:bool=False; half_pixel_centers:bool=False")
    .HostMemory({"size"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Gradient(ResizeBicubicGradient)
    .Cpu(ByType<ResizeBicubicKernel, float, double, Float16, Bfloat16, int8_t, uint8_t, int16_t,
                uint16_t, int32_t, int64_t>("T"));

TANDEM_OP("ResizeBicubicGrad")
    .Inputs("grads:float32, original_image:T")
    .Outputs("output:T")
    .Attrs("T:type{float32,float64}; align_corners:bool=False; half_pixel_centers:bool=False")
    .Shape([](ShapeContext& c) { return c.SetOutput(0, c.input(1)); })
    .Cpu(ByType<ResizeBicubicGradKernel, float, double>("T"));

}  // namespace
}  // namespace tandem
