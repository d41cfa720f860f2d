#include "kernels/math/elementwise_gpu.h"

#include <array>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "kernels/common/broadcast.h"

namespace tandem::math {
namespace {

class UnaryOnGpu final : public Kernel {
 public:
  UnaryOnGpu(const GpuCode& code, std::string name)
      : name_(std::move(name)), function_{{&code, name_.c_str()}} {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, x.shape()));
    const int64_t n = y->num_elements();
    if (n == 0) return absl::OkStatus();
    GpuQueue& queue = GpuQueueOf(c.device());
    return queue.Run(function_, GridForElements(queue, n), c.input(0).data(), y->mutable_data(), n);
  }

 private:
  const std::string name_;
  const GpuUnaryFunction function_;
};

class BinaryOnGpu final : public Kernel {
 public:
  BinaryOnGpu(const GpuCode& code, std::string name, bool same_shape)
      : name_(std::move(name)), function_{{&code, name_.c_str()}}, same_shape_(same_shape) {}

  // For Equal and NotEqual: shapes that do not broadcast give one answer.
  void AnswersIncompatible(bool answer) {
    answers_incompatible_ = true;
    when_incompatible_ = answer;
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    const Tensor& y = c.input(1);
    if (same_shape_ && x.shape() != y.shape()) {
      return errors::InvalidArgument("the inputs have shapes ", x.shape().DebugString(), " and ",
                                     y.shape().DebugString(), "; they must be equal");
    }
    const absl::StatusOr<BroadcastPlan> made = BroadcastPlan::Make({&x.shape(), &y.shape()});
    if (!made.ok()) {
      if (!answers_incompatible_) return made.status();
      TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.AllocateOutput(0, Shape()));
      return GpuQueueOf(c.device()).Fill(z->mutable_data(), when_incompatible_ ? 1 : 0, 1);
    }
    const BroadcastPlan& plan = *made;
    if (plan.rank() > kRank) {
      return errors::Unimplemented("on a GPU inputs broadcast over at most ", kRank,
                                   " alternating dimensions, not as ", x.shape().DebugString(),
                                   " and ", y.shape().DebugString(), " do");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.ForwardOrAllocate({0, 1}, 0, plan.output_shape()));
    const int64_t n = plan.num_elements();
    if (n == 0) return absl::OkStatus();
    const std::array<int64_t, kRank> d = Padded(
        plan, [&](int i) { return plan.size(i); }, 1);
    const std::array<int64_t, kRank> a = Padded(
        plan, [&](int i) { return plan.stride(0, i); }, 0);
    const std::array<int64_t, kRank> b = Padded(
        plan, [&](int i) { return plan.stride(1, i); }, 0);
    GpuQueue& queue = GpuQueueOf(c.device());
    return queue.Run(function_, GridForElements(queue, n), c.input(0).data(), c.input(1).data(),
                     z->mutable_data(), n, d[1], d[2], d[3], a[0], a[1], a[2], a[3], b[0], b[1],
                     b[2], b[3]);
  }

 private:
  static constexpr int kRank = 4;

  // A number for each dimension, the outer ones that are not there with `missing`.
  template <typename F>
  static std::array<int64_t, kRank> Padded(const BroadcastPlan& plan, F number, int64_t missing) {
    std::array<int64_t, kRank> all;
    const int padding = kRank - plan.rank();
    for (int i = 0; i < kRank; ++i) {
      all[static_cast<size_t>(i)] = i < padding ? missing : number(i - padding);
    }
    return all;
  }

  const std::string name_;
  const GpuBinaryFunction function_;
  const bool same_shape_;
  bool answers_incompatible_ = false;
  bool when_incompatible_ = false;
};

template <typename Make>
KernelDef ForTypes(const std::string& name, std::vector<DataType> types, Make make) {
  KernelDef def;
  def.device = kCuda;
  def.types = {{"T", std::move(types)}};
  def.factory = [name, make](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return make(init, absl::StrCat(name, "_", DataTypeName(init.Attr<DataType>("T"))));
  };
  return def;
}

}  // namespace

KernelDef GpuUnaryKernel(const GpuCode& code, const std::string& name,
                         std::vector<DataType> types) {
  return ForTypes(name, std::move(types), [&code](KernelInit&, std::string function) {
    return std::make_unique<UnaryOnGpu>(code, std::move(function));
  });
}

KernelDef GpuBinaryKernel(const GpuCode& code, const std::string& name, std::vector<DataType> types,
                          bool same_shape) {
  return ForTypes(name, std::move(types), [&code, same_shape](KernelInit&, std::string function) {
    return std::make_unique<BinaryOnGpu>(code, std::move(function), same_shape);
  });
}

KernelDef GpuEqualityKernel(const GpuCode& code, const std::string& name,
                            std::vector<DataType> types, bool when_incompatible) {
  return ForTypes(name, std::move(types),
                  [&code, when_incompatible](KernelInit& init, std::string function) {
                    auto kernel = std::make_unique<BinaryOnGpu>(code, std::move(function), false);
                    if (!init.Attr<bool>("incompatible_shape_error")) {
                      kernel->AnswersIncompatible(when_incompatible);
                    }
                    return kernel;
                  });
}

}  // namespace tandem::math
