// ScaleAndTranslate and ScaleAndTranslateGrad: images resized by a kernel of one's choice, as
// tf.image.resize does for Lanczos, Gaussian and Mitchell-Netravali filters and for antialiasing.
//
// Place i of the result looks at (i + 0.5 - translation) / scale in the image, where pixel j has
// its center at j + 0.5. All pixels within the kernel's radius count, by its value at their
// distance; weights are divided by their sum. With antialias the kernel is as much wider as the
// result is smaller. A place outside of the image is 0. The dimensions are resized one after the
// other. In float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
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

struct Filter {
  float radius;
  float (*value)(float distance, float radius);  // For distances that are not negative.
};

float Lanczos(float x, float radius) {
  const auto pi = static_cast<float>(M_PI);
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * std::sin(pi * x) * std::sin(pi * x / radius) / (pi * pi * x * x);
}
float Gaussian(float x, float radius) {
  const float sigma = radius / 3;
  return x >= radius ? 0 : std::exp(-x * x / (2 * sigma * sigma));
}
float Box(float x, float) { return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0; }
float Triangle(float x, float) { return x < 1 ? 1 - x : 0; }
float KeysCubic(float x, float) {
  if (x >= 2) return 0;
  if (x >= 1) return ((-0.5f * x + 2.5f) * x - 4) * x + 2;
  return (1.5f * x - 2.5f) * x * x + 1;
}
float MitchellCubic(float x, float) {
  if (x >= 2) return 0;
  if (x >= 1) return (((-7.0f / 18) * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
  return ((7.0f / 6) * x - 2) * x * x + 8.0f / 9;
}

absl::StatusOr<Filter> ParseFilter(const std::string& name) {
  if (name == "lanczos1") return Filter{1, Lanczos};
  if (name == "lanczos3") return Filter{3, Lanczos};
  if (name == "lanczos5") return Filter{5, Lanczos};
  if (name == "gaussian") return Filter{1.5f, Gaussian};
  if (name == "box") return Filter{1, Box};
  if (name == "triangle") return Filter{1, Triangle};
  if (name == "keyscubic") return Filter{2, KeysCubic};
  if (name == "mitchellcubic") return Filter{2, MitchellCubic};
  return errors::InvalidArgument("kernel_type is '", name,
                                 "'; known are lanczos1, lanczos3, lanczos5, gaussian, box, "
                                 "triangle, keyscubic and mitchellcubic");
}

// The pixels along one dimension that a place of the result is made of.
struct Blend {
  int64_t begin = 0;
  std::vector<float> weights;
};

std::vector<Blend> Blends(const Filter& filter, bool antialias, int64_t input, int64_t output,
                          float scale, float translation) {
  const float inverse = 1 / scale;
  const float wider = antialias ? std::max(inverse, 1.0f) : 1.0f;
  const float reach = filter.radius * wider;
  const auto last = static_cast<float>(input - 1);
  std::vector<Blend> blends(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float at = (static_cast<float>(i) + 0.5f) * inverse - inverse * translation;
    if (!(at >= 0 && at <= static_cast<float>(input))) continue;
    const float begin = std::min(std::max(std::ceil(at - reach - 0.5f), 0.0f), last);
    const float end = std::min(std::max(std::floor(at + reach - 0.5f), 0.0f), last) + 1;
    Blend& blend = blends[static_cast<size_t>(i)];
    blend.begin = static_cast<int64_t>(begin);
    float sum = 0;
    for (int64_t j = blend.begin; j < static_cast<int64_t>(end); ++j) {
      const float distance = std::abs(static_cast<float>(j) + 0.5f - at) / wider;
      blend.weights.push_back(filter.value(distance, filter.radius));
      sum += blend.weights.back();
    }
    if (std::abs(sum) >= 1000 * std::numeric_limits<float>::min()) {
      for (float& weight : blend.weights) weight /= sum;
    }
  }
  return blends;
}

struct Transform {
  std::vector<Blend> rows;
  std::vector<Blend> columns;
};

class TransformKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(filter_, ParseFilter(init.Attr<std::string>("kernel_type")));
    antialias_ = init.Attr<bool>("antialias");
    return absl::OkStatus();
  }

 protected:
  // From the inputs `scale` and `translation`, each two numbers.
  absl::StatusOr<Transform> Make(const Resize& r, const Tensor& scale,
                                 const Tensor& translation) const {
    for (const Tensor* two : {&scale, &translation}) {
      if (two->shape() != Shape({2})) {
        return errors::InvalidArgument("scale and translation must have 2 elements, not shapes ",
                                       scale.shape().DebugString(), " and ",
                                       translation.shape().DebugString());
      }
    }
    const absl::Span<const float> by = scale.Elements<float>();
    const absl::Span<const float> move = translation.Elements<float>();
    // Also what is no number. A smaller scale would let the kernel reach over all of any image.
    if (!(by[0] > 1e-9f) || !(by[1] > 1e-9f) || !std::isfinite(by[0]) || !std::isfinite(by[1])) {
      return errors::InvalidArgument("scale [", by[0], ",", by[1], "] must be positive");
    }
    return Transform{Blends(filter_, antialias_, r.in_height, r.out_height, by[0], move[0]),
                     Blends(filter_, antialias_, r.in_width, r.out_width, by[1], move[1])};
  }

  Filter filter_ = {};
  bool antialias_ = true;
};

template <typename T>
class ScaleAndTranslateKernel : public TransformKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(1), "size"));
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make({}, images.shape(), size.height, size.width));
    TANDEM_ASSIGN_OR_RETURN(const Transform transform, Make(r, c.input(2), c.input(3)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, r.OutputShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = images.Elements<T>().data();
    float* const y = output->MutableElements<float>().data();
    const int64_t row_size = r.in_width * r.channels;
    const double cost = 4.0 * static_cast<double>(row_size + r.out_width * r.channels);
    c.parallel().For(r.batch * r.out_height, cost, [&](int64_t begin, int64_t end) {
      std::vector<float> blended(static_cast<size_t>(row_size));
      for (int64_t i = begin; i < end; ++i) {
        const T* const image = x + i / r.out_height * r.InputImage();
        const Blend& row = transform.rows[static_cast<size_t>(i % r.out_height)];
        std::fill(blended.begin(), blended.end(), 0.0f);
        for (size_t k = 0; k < row.weights.size(); ++k) {
          const T* const from = image + (row.begin + static_cast<int64_t>(k)) * row_size;
          for (int64_t j = 0; j < row_size; ++j) {
            blended[static_cast<size_t>(j)] += static_cast<float>(from[j]) * row.weights[k];
          }
        }
        float* to = y + i * r.out_width * r.channels;
        for (const Blend& column : transform.columns) {
          std::fill_n(to, r.channels, 0.0f);
          for (size_t k = 0; k < column.weights.size(); ++k) {
            const float* const from =
                blended.data() + (column.begin + static_cast<int64_t>(k)) * r.channels;
            for (int64_t j = 0; j < r.channels; ++j) to[j] += from[j] * column.weights[k];
          }
          to += r.channels;
        }
      }
    });
    return absl::OkStatus();
  }
};

class ScaleAndTranslateGradKernel : public TransformKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape& resized = c.input(0).shape();
    const Shape& original = c.input(1).shape();
    if (resized.rank() != 4) {
      return errors::InvalidArgument("grads must have rank 4, not shape ", resized.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make({}, original, resized.dim(1), resized.dim(2)));
    if (resized != r.OutputShape()) {
      return errors::InvalidArgument("images of shape ", original.DebugString(),
                                     " cannot have been resized to grads of shape ",
                                     resized.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const Transform transform, Make(r, c.input(2), c.input(3)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, original));
    if (output->num_elements() == 0) return absl::OkStatus();
    const float* const dy = c.input(0).Elements<float>().data();
    float* const dx = output->MutableElements<float>().data();
    c.parallel().For(r.batch, 20.0 * static_cast<double>(r.OutputImage()),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t n = begin; n < end; ++n) {
                         Spread(r, transform, dy + n * r.OutputImage(), dx + n * r.InputImage());
                       }
                     });
    return absl::OkStatus();
  }

 private:
  static void Spread(const Resize& r, const Transform& transform, const float* dy, float* image) {
    std::fill_n(image, r.InputImage(), 0.0f);
    const int64_t row_size = r.in_width * r.channels;
    std::vector<float> spread(static_cast<size_t>(row_size));
    for (const Blend& row : transform.rows) {
      std::fill(spread.begin(), spread.end(), 0.0f);
      for (const Blend& column : transform.columns) {
        for (size_t k = 0; k < column.weights.size(); ++k) {
          float* const to = spread.data() + (column.begin + static_cast<int64_t>(k)) * r.channels;
          for (int64_t j = 0; j < r.channels; ++j) to[j] += dy[j] * column.weights[k];
        }
        dy += r.channels;
      }
      for (size_t k = 0; k < row.weights.size(); ++k) {
        float* const to = image + (row.begin + static_cast<int64_t>(k)) * row_size;
        for (int64_t j = 0; j < row_size; ++j) {
          to[j] += spread[static_cast<size_t>(j)] * row.weights[k];
        }
      }
    }
  }
};

absl::Status ScaleAndTranslateGradient(GradientContext& g) {
  // TensorFlow has it for float32 alone; the others go through it.
  const Output images = g.input(0);
  const DataType type = RemoveReference(images.dtype());
  const Output floats = type == kFloat32 ? images : g.Call("Cast", {images}, {{"DstT", kFloat32}});
  const Output gradient =
      g.Call("ScaleAndTranslateGrad", {g.OutputGradient(0), floats, g.input(2), g.input(3)},
             {{"kernel_type", g.Attr<std::string>("kernel_type")},
              {"antialias", g.Attr<bool>("antialias")}});
  g.SetInputGradient(0, type == kFloat32 ? gradient : g.Call("Cast", {gradient}, {{"DstT", type}}));
  return absl::OkStatus();
}

TANDEM_OP("ScaleAndTranslate")
    .Inputs("images:T, size:int32, scale:float32, translation:float32")
    .Outputs("resized_images:float32")
    .Attrs(
        "T:type{int8,uint8,int16,uint16,int32,int64,bfloat16,float16,float32,float64}; "
        "kernel_type:string=lanczos3; antialias:bool=True")
    .HostMemory({"size", "scale", "translation"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Gradient(ScaleAndTranslateGradient)
    .Cpu(ByType<ScaleAndTranslateKernel, float, double, Float16, Bfloat16, int8_t, uint8_t, int16_t,
                uint16_t, int32_t, int64_t>("T"));

TANDEM_OP("ScaleAndTranslateGrad")
    .Inputs("grads:T, original_image:T, scale:float32, translation:float32")
    .Outputs("output:T")
    .Attrs("T:type{float32}; kernel_type:string=lanczos3; antialias:bool=True")
    .HostMemory({"scale", "translation"})
    .Shape([](ShapeContext& c) { return c.SetOutput(0, c.input(1)); })
    .Cpu(Make<ScaleAndTranslateGradKernel>("T", {kFloat32}));

}  // namespace
}  // namespace tandem
