// AdjustContrastv2: each channel of each image is moved away from its mean, or towards it, by a
// factor. Images are the last three dimensions.
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

template <typename T>
class AdjustContrastKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape shape = c.input(0).shape();
    const Tensor& factor = c.input(1);
    if (shape.rank() < 3) {
      return errors::InvalidArgument("images must have rank 3 or more, not shape ",
                                     shape.DebugString());
    }
    if (!factor.shape().IsScalar()) {
      return errors::InvalidArgument("contrast_factor must be a scalar, not of shape ",
                                     factor.shape().DebugString());
    }
    const float by = factor.Elements<float>()[0];
    const int64_t channels = shape.dim(shape.rank() - 1);
    const int64_t pixels = shape.dim(shape.rank() - 3) * shape.dim(shape.rank() - 2);
    const T* const all = c.input(0).Elements<T>().data();
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    T* const to = output->MutableElements<T>().data();
    const int64_t size = pixels * channels;
    c.parallel().For(shape.num_elements() / size, 2.0 * static_cast<double>(size),
                     [&](int64_t begin, int64_t end) {
                       std::vector<double> means(static_cast<size_t>(channels));
                       for (int64_t i = begin; i < end; ++i) {
                         const T* const from = all + i * size;
                         means.assign(means.size(), 0);
                         for (int64_t p = 0; p < pixels; ++p) {
                           for (int64_t k = 0; k < channels; ++k) {
                             means[static_cast<size_t>(k)] +=
                                 static_cast<float>(from[p * channels + k]);
                           }
                         }
                         for (double& mean : means) mean /= static_cast<double>(pixels);
                         for (int64_t p = 0; p < pixels; ++p) {
                           for (int64_t k = 0; k < channels; ++k) {
                             const auto mean = static_cast<float>(means[static_cast<size_t>(k)]);
                             const auto x = static_cast<float>(from[p * channels + k]);
                             to[i * size + p * channels + k] = T((x - mean) * by + mean);
                           }
                         }
                       }
                     });
    return absl::OkStatus();
  }
};

TANDEM_OP("AdjustContrastv2")
    .Inputs("images:T, contrast_factor:float32")
    .Outputs("output:T")
    .Attrs("T:type{float16,float32}=float32")
    .HostMemory({"contrast_factor"})
    .Shape([](ShapeContext& c) {
      TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 3));
      TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
      return UnchangedShape(c);
    })
    .Cpu(ByType<AdjustContrastKernel, float, Float16>("T"));

}  // namespace
}  // namespace tandem
