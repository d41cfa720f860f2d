// Stacks: what the gradients of TensorFlow 1's loops keep of each round. The loop pushes, the
// backward loop pops.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/data/step_object.h"

namespace tandem::data {
namespace {

// Threads: any.
class Stack final : public Resource {
 public:
  // A negative `max_size` means no limit.
  Stack(std::string name, DataType dtype, int64_t max_size)
      : name_(std::move(name)), dtype_(dtype), max_size_(max_size) {}

  absl::Status Push(Tensor value) {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckOpen());
    if (value.dtype() != dtype_) {
      return errors::InvalidArgument("the stack '", name_, "' is of ", DataTypeName(dtype_), "; a ",
                                     DataTypeName(value.dtype()), " is pushed");
    }
    if (max_size_ >= 0 && static_cast<int64_t>(values_.size()) >= max_size_) {
      return errors::InvalidArgument("the stack '", name_, "' is full: its max_size is ",
                                     max_size_);
    }
    values_.push_back(std::move(value));
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> Pop(DataType dtype) {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckOpen());
    if (dtype != dtype_) {
      return errors::InvalidArgument("the stack '", name_, "' is of ", DataTypeName(dtype_), "; a ",
                                     DataTypeName(dtype), " is popped");
    }
    if (values_.empty()) {
      return errors::InvalidArgument("there is nothing to pop: the stack '", name_, "' is empty");
    }
    Tensor value = std::move(values_.back());
    values_.pop_back();
    return value;
  }

  void Close() {
    std::vector<Tensor> values;  // Freed outside the lock.
    MutexLock lock(mu_);
    values.swap(values_);
    closed_ = true;
  }

  std::string DebugString() const override {
    return absl::StrCat("stack '", name_, "' of ", DataTypeName(dtype_));
  }

 private:
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!closed_) return absl::OkStatus();
    return errors::InvalidArgument("the stack '", name_, "' is closed already");
  }

  const std::string name_;
  const DataType dtype_;
  const int64_t max_size_;
  Mutex mu_;
  std::vector<Tensor> values_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

class StackKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("elem_type");
    name_ = init.Attr<std::string>("stack_name");
    if (name_.empty()) name_ = std::string(init.node_name());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& max_size = c.input(0);
    if (!max_size.shape().IsScalar()) {
      return errors::InvalidArgument("max_size must be a scalar; it has shape ",
                                     max_size.shape().DebugString());
    }
    c.SetOutput(0, StepHandle(c, name_, "tandem::Stack",
                              MakeRef<Stack>(name_, dtype_, max_size.ScalarValue<int32_t>())));
    return absl::OkStatus();
  }

 private:
  DataType dtype_ = DataType::kInvalid;
  std::string name_;
};

absl::Status Push(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, StepObjectInput<Stack>(c, "stack"));
  Tensor value = c.TakeInput(1);
  TANDEM_RETURN_IF_ERROR(stack->Push(value));
  c.SetOutput(0, std::move(value));
  return absl::OkStatus();
}

absl::Status Pop(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, StepObjectInput<Stack>(c, "stack"));
  TANDEM_ASSIGN_OR_RETURN(Tensor value, stack->Pop(c.output_dtype(0)));
  value.Localize();
  c.SetOutput(0, std::move(value));
  return absl::OkStatus();
}

absl::Status Close(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const RefPtr<Stack> stack, StepObjectInput<Stack>(c, "stack"));
  stack->Close();
  return absl::OkStatus();
}

absl::Status PushShape(ShapeContext& c) { return c.SetOutput(0, c.input(1)); }

TANDEM_OP("StackV2")
    .Inputs("max_size:int32")
    .Outputs("handle:resource")
    .Attrs("elem_type:type; stack_name:string=\"\"")
    .Stateful()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"max_size", "handle"})
    .Cpu(Make<StackKernel>());

TANDEM_OP("StackPushV2")
    .Inputs("handle:resource, elem:T")
    .Outputs("output:T")
    .Attrs("T:type; swap_memory:bool=False")
    .Stateful()
    .Cheap()
    .Shape(PushShape)
    .HostMemory({"handle"})
    .Cpu(Function(Push));

TANDEM_OP("StackPopV2")
    .Inputs("handle:resource")
    .Outputs("elem:elem_type")
    .Attrs("elem_type:type")
    .Stateful()
    .Cheap()
    .Shape(UnknownShape)
    .HostMemory({"handle"})
    .Cpu(Function(Pop));

TANDEM_OP("StackCloseV2")
    .Inputs("handle:resource")
    .Stateful()
    .Cheap()
    .Shape(NoOutputs)
    .HostMemory({"handle"})
    .Cpu(Function(Close));

}  // namespace
}  // namespace tandem::data
