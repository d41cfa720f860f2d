// The ops that the conformance suite runs, with their CPU kernels, which SIM shares. A device with
// kernels of its own registers them for these ops in a file beside this one.
//
// All numbers are int32, and wrap.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

int32_t Wrap(uint32_t value) { return static_cast<int32_t>(value); }

// y = x + 1, in place where x is not needed any more.
absl::Status AddOne(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
  const auto from = c.input(0).Elements<int32_t>();
  const auto to = y->MutableElements<int32_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = Wrap(static_cast<uint32_t>(from[i]) + 1);
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceAddOne")
    .Inputs("x:int32")
    .Outputs("y:int32")
    .Shape(UnknownShape)
    .Cpu(Function(AddOne));

// y = x * factor, where the factor lies in host memory.
absl::Status Scale(KernelContext& c) {
  const uint32_t factor = static_cast<uint32_t>(c.input(1).ScalarValue<int32_t>());
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, c.input(0).shape()));
  const auto from = c.input(0).Elements<int32_t>();
  const auto to = y->MutableElements<int32_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = Wrap(static_cast<uint32_t>(from[i]) * factor);
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceScale")
    .Inputs("x:int32, factor:int32")
    .Outputs("y:int32")
    .HostMemory({"factor"})
    .Shape(UnknownShape)
    .Cpu(Function(Scale));

// The input without its first row, sharing its memory.
absl::Status Tail(KernelContext& c) {
  const Tensor& x = c.input(0);
  if (x.shape().rank() < 1 || x.shape().dim(0) < 1) {
    return errors::InvalidArgument("x must have a first row, but has the shape ",
                                   x.shape().DebugString());
  }
  c.SetOutput(0, x.Slice(1, x.shape().dim(0)));
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceTail")
    .Inputs("x:int32")
    .Outputs("y:int32")
    .Shape(UnknownShape)
    .Cpu(Function(Tail));

// The number of elements, in host memory, and the same in words.
absl::Status Size(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * size, c.AllocateOutput(0, {}));
  size->MutableElements<int32_t>()[0] = static_cast<int32_t>(c.input(0).num_elements());
  TANDEM_ASSIGN_OR_RETURN(Tensor * text, c.AllocateOutput(1, {}));
  text->MutableElements<std::string>()[0] = absl::StrCat(c.input(0).num_elements(), " elements");
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceSize")
    .Inputs("x:int32")
    .Outputs("size:int32, text:string")
    .HostMemory({"size"})
    .Shape(UnknownShape)
    .Cpu(Function(Size));

// A tensor of as many zeros as the input says.
absl::Status Fill(KernelContext& c) {
  const int64_t count = c.input(0).ScalarValue<int64_t>();
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, {count}));
  for (int32_t& element : y->MutableElements<int32_t>()) element = 0;
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceFill")
    .Inputs("count:int64")
    .Outputs("y:int32")
    .HostMemory({"count"})
    .Shape(UnknownShape)
    .Cpu(Function(Fill));

// variable = value, sharing its memory.
absl::Status Assign(KernelContext& c) {
  Variable& variable = c.reference(0);
  MutexLock lock(variable.mu());
  variable.value() = c.TakeInput(1);
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceAssign")
    .Inputs("variable:ref int32, value:int32")
    .Stateful()
    .Shape(UnknownShape)
    .Cpu(Function(Assign));

// variable = 2 * variable + value: its result depends on the order of calls.
absl::Status Append(KernelContext& c) {
  Variable& variable = c.reference(0);
  MutexLock lock(variable.mu());
  Tensor& value = variable.value();
  if (!value.OwnsBufferAlone()) {
    // Whoever read the variable keeps what was read.
    TANDEM_ASSIGN_OR_RETURN(Tensor fresh, c.AllocateTemporary(kInt32, value.shape()));
    const auto from = value.Elements<int32_t>();
    std::copy(from.begin(), from.end(), fresh.MutableElements<int32_t>().begin());
    value = std::move(fresh);
  }
  const uint32_t added = static_cast<uint32_t>(c.input(1).ScalarValue<int32_t>());
  for (int32_t& element : value.MutableElements<int32_t>()) {
    element = Wrap(2 * static_cast<uint32_t>(element) + added);
  }
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceAppend")
    .Inputs("variable:ref int32, value:int32")
    .HostMemory({"value"})
    .Stateful()
    .Shape(UnknownShape)
    .Cpu(Function(Append));

// The variable's value, sharing its memory.
absl::Status Read(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor value, c.reference(0).Read(c.node_name()));
  c.SetOutput(0, std::move(value));
  return absl::OkStatus();
}
TANDEM_OP("_ConformanceRead")
    .Inputs("variable:ref int32")
    .Outputs("value:int32")
    .Stateful()
    .Shape(UnknownShape)
    .Cpu(Function(Read));

}  // namespace
}  // namespace tandem
