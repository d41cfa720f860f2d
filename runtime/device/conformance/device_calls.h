// Calls a device as the executor does, and waits for it: what tests of devices are written with.
#ifndef TANDEM_RUNTIME_DEVICE_CONFORMANCE_DEVICE_CALLS_H_
#define TANDEM_RUNTIME_DEVICE_CONFORMANCE_DEVICE_CALLS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "runtime/device/device.h"

namespace tandem::testing {

// What goes into a kernel: a value or a reference.
struct Input {
  Tensor value;
  // As in a plan: 1 says that this kernel is the value's last consumer, which may then take or
  // overwrite it if nobody else holds its buffer.
  int uses = 2;
  RefPtr<Variable> reference;

  static Input Shared(Tensor value) { return {std::move(value), 2, nullptr}; }
  static Input LastUse(Tensor value) { return {std::move(value), 1, nullptr}; }
  static Input Reference(RefPtr<Variable> variable) { return {Tensor(), 1, std::move(variable)}; }
};

// A list of inputs. A list in braces is copied, so that each value has a second owner until the end
// of the whole expression, and no kernel can take it.
template <typename... Args>
std::vector<Input> InputList(Args... inputs) {
  std::vector<Input> list;
  (list.push_back(std::move(inputs)), ...);
  return list;
}

// One run of a kernel; lives until it is done.
class KernelCall {
 public:
  // `host_outputs` as in KernelContext::Params.
  KernelCall(Device& device, Kernel& kernel, std::vector<Input> inputs,
             std::vector<DataType> output_types, uint64_t host_outputs = 0);
  // Waits until the call is done, if it was started.
  ~KernelCall();

  // On the queue of a queued device, else at once.
  void Start();
  // DeadlineExceeded after a minute.
  absl::Status Wait();
  absl::Status Run() {
    Start();
    return Wait();
  }

  // What the kernel put out; the input slots are as the executor leaves them. REQUIRES: Wait was
  // OK.
  const Tensor& output(int i) const { return outputs_[static_cast<size_t>(i)].value; }
  // Moves the output out, so that its buffer has one owner less.
  Tensor TakeOutput(int i) { return std::move(outputs_[static_cast<size_t>(i)].value); }

 private:
  Device& device_;
  Kernel& kernel_;
  const std::vector<DataType> output_types_;
  CancellationManager cancellation_;
  StepContext step_;
  std::unique_ptr<Slot[]> inputs_;
  std::unique_ptr<Slot[]> outputs_;
  std::vector<Slot*> input_pointers_;
  KernelContext context_;
  bool started_ = false;
  absl::Status status_;
  Event done_;
};

// A kernel for an op whose attributes are `attrs`, as the executor makes it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOn(const Device& device, const std::string& op,
                                                     const AttrMap& attrs = {});

// Copies, and waits; DeadlineExceeded after a minute.
absl::StatusOr<Tensor> ToDevice(Device& device, Tensor source);
absl::StatusOr<Tensor> ToHost(Device& device, Tensor source);
// Waits until all that was queued is done.
absl::Status Drain(Device& device);

}  // namespace tandem::testing

#endif  // TANDEM_RUNTIME_DEVICE_CONFORMANCE_DEVICE_CALLS_H_
