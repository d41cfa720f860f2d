// Ops without outputs: NoOp and ControlTrigger, which only order others, and Assert.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status DoNothing(KernelContext&) { return absl::OkStatus(); }

absl::Status AssertShape(ShapeContext& c) { return c.RequireRank(0, 0); }

// Assert: fails the step with its other inputs in the message when the first one is false.
class AssertKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    summarize_ = init.Attr<int64_t>("summarize");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& condition = c.input(0);
    if (!condition.shape().IsScalar()) {
      return errors::InvalidArgument("the condition of an assertion has shape ",
                                     condition.shape().DebugString(), "; a scalar is wanted");
    }
    if (condition.ScalarValue<bool>()) return absl::OkStatus();
    std::string message = "assertion failed:";
    for (int i = 1; i < c.num_inputs(); ++i)
      absl::StrAppend(&message, " [", Summary(c.input(i)), "]");
    return errors::InvalidArgument(message);
  }

 private:
  // A string without quotes, so that a message reads as one; of others type, shape and first
  // values.
  std::string Summary(const Tensor& value) const {
    if (value.dtype() == kString && value.shape().IsScalar())
      return value.ScalarValue<std::string>();
    // Nothing or a negative number: all of them, within reason.
    constexpr int64_t kMost = 1000;
    const int64_t count = summarize_ > 0 && summarize_ < kMost ? summarize_ : kMost;
    return value.DebugString(static_cast<int>(count));
  }

  int64_t summarize_ = 3;
};

TANDEM_OP("NoOp").Cheap().Shape(NoOutputs).Cpu(Function(DoNothing));

TANDEM_OP("ControlTrigger").Cheap().Shape(NoOutputs).Cpu(Function(DoNothing));

TANDEM_OP("Assert")
    .Inputs("condition:bool, data:T")
    .Attrs("T:list(type)>=1; summarize:int=3")
    .Stateful()
    .Shape(AssertShape)
    .NotDifferentiable()
    .HostMemory({"condition", "data"})
    .Cpu(Make<AssertKernel>());

}  // namespace
}  // namespace tandem
