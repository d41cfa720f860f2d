// Bucketize: between which of some boundaries each number lies.
#include <algorithm>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem::counting {
namespace {

template <typename T>
class BucketizeKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    boundaries_ = init.Attr<std::vector<float>>("boundaries");
    for (size_t i = 1; i < boundaries_.size(); ++i) {
      if (!(boundaries_[i] < boundaries_[i - 1])) continue;
      return errors::InvalidArgument("boundaries must be sorted; number ", i, ", ", boundaries_[i],
                                     ", is below the one before it, ", boundaries_[i - 1]);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, input.shape()));
    const auto values = input.Elements<T>();
    const auto buckets = output->MutableElements<int32_t>();
    constexpr double kNanosecondsPerValue = 10;
    c.parallel().For(input.num_elements(), kNanosecondsPerValue, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        // Whole numbers are compared as floats, as C++ does and so does TensorFlow.
        const auto above =
            std::upper_bound(boundaries_.begin(), boundaries_.end(), values[i],
                             [](T value, float boundary) { return Comparable(value) < boundary; });
        buckets[i] = static_cast<int32_t>(above - boundaries_.begin());
      }
    });
    return absl::OkStatus();
  }

 private:
  static auto Comparable(T value) {
    if constexpr (std::is_same_v<T, double>) {
      return value;
    } else {
      return static_cast<float>(value);
    }
  }

  std::vector<float> boundaries_;
};

TANDEM_OP("Bucketize")
    .Inputs("input:T")
    .Outputs("output:int32")
    .Attrs("T:type{int32,int64,float32,float64}; boundaries:list(float)")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(ByType<BucketizeKernel, int32_t, int64_t, float, double>("T"));

}  // namespace
}  // namespace tandem::counting
