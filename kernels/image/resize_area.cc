// ResizeArea: a pixel of the result is the mean of the part of the image that it covers, where
// pixels at the edge of that part count by how much of them lies in it. The result is float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/image/resize.h"

namespace tandem {
namespace {

// The rows (or columns) that one of the result covers, with how much of each.
struct Part {
  int64_t begin;
  std::vector<float> covered;
};

std::vector<Part> Parts(int64_t input, int64_t output, float scale) {
  std::vector<Part> parts(static_cast<size_t>(output));
  for (int64_t i = 0; i < output; ++i) {
    const float from = static_cast<float>(i) * scale;
    const float to = static_cast<float>(i + 1) * scale;
    Part& part = parts[static_cast<size_t>(i)];
    // With aligned corners the last ones reach beyond the image; there its border counts.
    part.begin = std::min(static_cast<int64_t>(std::floor(from)), input - 1);
    for (int64_t k = static_cast<int64_t>(std::floor(from)); k < std::ceil(to); ++k) {
      const float covered =
          std::min(static_cast<float>(k + 1), to) - std::max(static_cast<float>(k), from);
      const auto at = static_cast<size_t>(std::min(k, input - 1) - part.begin);
      if (at >= part.covered.size()) part.covered.resize(at + 1, 0);
      part.covered[at] += covered;
    }
  }
  return parts;
}

template <typename T>
class ResizeAreaKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ResizeAttrs::Of(init.attrs()));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& images = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(c.input(1), "size"));
    TANDEM_ASSIGN_OR_RETURN(const Resize r,
                            Resize::Make(attrs_, images.shape(), size.height, size.width));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, r.OutputShape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const auto rows = Parts(r.in_height, r.out_height, r.height_scale);
    const auto columns = Parts(r.in_width, r.out_width, r.width_scale);
    const T* const x = images.Elements<T>().data();
    float* const y = output->MutableElements<float>().data();
    const int64_t row_size = r.out_width * r.channels;
    const double cost =
        static_cast<double>(r.InputImage()) / static_cast<double>(r.out_height) + 10;
    c.parallel().For(r.batch * r.out_height, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ResizeRow(r, x + i / r.out_height * r.InputImage(),
                  rows[static_cast<size_t>(i % r.out_height)], columns, y + i * row_size);
      }
    });
    return absl::OkStatus();
  }

 private:
  static void ResizeRow(const Resize& r, const T* image, const Part& row,
                        const std::vector<Part>& columns, float* to) {
    const float whole = r.height_scale * r.width_scale;
    for (const Part& column : columns) {
      std::fill_n(to, r.channels, 0.0f);
      for (size_t i = 0; i < row.covered.size(); ++i) {
        for (size_t j = 0; j < column.covered.size(); ++j) {
          const int64_t pixel = (row.begin + static_cast<int64_t>(i)) * r.in_width + column.begin +
                                static_cast<int64_t>(j);
          const T* const from = image + pixel * r.channels;
          const float weight = row.covered[i] * column.covered[j];
          for (int64_t k = 0; k < r.channels; ++k) to[k] += static_cast<float>(from[k]) * weight;
        }
      }
      for (int64_t k = 0; k < r.channels; ++k) to[k] /= whole;
      to += r.channels;
    }
  }

  ResizeAttrs attrs_;
};

TANDEM_OP("ResizeArea")
    .Inputs("images:T, size:int32")
    .Outputs("resized_images:float32")
    .Attrs(
        "T:type{int8,uint8,int16,uint16,int32,int64,float16,float32,float64,bfloat16}; "
        "align_corners:bool=False")
    .HostMemory({"size"})
    .Shape([](ShapeContext& c) { return ResizeShape(c); })
    .Cpu(ByType<ResizeAreaKernel, float, double, Float16, Bfloat16, int8_t, uint8_t, int16_t,
                uint16_t, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem
