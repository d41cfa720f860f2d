#include "runtime/device/conformance/device_calls.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/op/registry.h"

namespace tandem::testing {
namespace {

absl::Time Deadline() { return absl::Now() + absl::Minutes(1); }

absl::Status TooLate(const Device& device) {
  return errors::DeadlineExceeded("device ", device.name(), " was not done after a minute");
}

// What a call and its callback share: the callback may come after the caller gave up.
struct Copying {
  absl::StatusOr<Tensor> copy = errors::Internal("not set");
  Event done;
};

absl::StatusOr<Tensor> Copy(Device& device, void (Device::*method)(Tensor, Device::Copied),
                            Tensor source) {
  const auto state = std::make_shared<Copying>();
  (device.*method)(std::move(source), [state](absl::StatusOr<Tensor> copy) {
    state->copy = std::move(copy);
    state->done.Set();
  });
  if (!state->done.Wait(Deadline())) return TooLate(device);
  return std::move(state->copy);
}

}  // namespace

KernelCall::KernelCall(Device& device, Kernel& kernel, std::vector<Input> inputs,
                       std::vector<DataType> output_types, uint64_t host_outputs)
    : device_(device),
      kernel_(kernel),
      output_types_(std::move(output_types)),
      inputs_(new Slot[inputs.size()]),
      outputs_(new Slot[output_types_.size()]) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Slot& slot = inputs_[i];
    slot.value = std::move(inputs[i].value);
    slot.reference = std::move(inputs[i].reference);
    slot.state = slot.reference ? Slot::State::kReference : Slot::State::kValue;
    slot.uses.store(inputs[i].uses, std::memory_order_relaxed);
    input_pointers_.push_back(&slot);
  }
  step_.step_id = 1;
  step_.cancellation = &cancellation_;
  KernelContext::Params params;
  params.node_name = "tested";
  params.device = &device.kernel_device();
  params.step = &step_;
  params.inputs = input_pointers_;
  params.outputs = outputs_.get();
  params.output_types = output_types_;
  params.host_outputs = host_outputs;
  context_ = KernelContext(params);
}

KernelCall::~KernelCall() {
  if (started_) done_.Wait();  // The device still points here.
}

void KernelCall::Start() {
  started_ = true;
  auto done = [this](absl::Status status) {
    // As the executor: inputs go before anybody learns of the outputs.
    for (Slot* slot : input_pointers_) {
      if (slot->uses.load(std::memory_order_acquire) == 1) slot->value = Tensor();
    }
    status_ = std::move(status);
    done_.Set();
  };
  if (device_.is_queued()) {
    device_.Enqueue(kernel_, context_, std::move(done));
  } else {
    done(kernel_.Compute(context_));
  }
}

absl::Status KernelCall::Wait() { return done_.Wait(Deadline()) ? status_ : TooLate(device_); }

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelOn(const Device& device, const std::string& op,
                                                     const AttrMap& attrs) {
  TANDEM_ASSIGN_OR_RETURN(const OpDef* def, OpRegistry::Global().Get(op));
  TANDEM_ASSIGN_OR_RETURN(const KernelDef* kernel,
                          OpRegistry::Global().FindKernel(*def, device.type(), attrs));
  KernelInit init({"tested", def, &attrs, {}, {}, &device.kernel_device(), nullptr});
  return kernel->factory(init);
}

absl::StatusOr<Tensor> ToDevice(Device& device, Tensor source) {
  return Copy(device, &Device::CopyToDevice, std::move(source));
}

absl::StatusOr<Tensor> ToHost(Device& device, Tensor source) {
  return Copy(device, &Device::CopyToHost, std::move(source));
}

absl::Status Drain(Device& device) {
  const auto done = std::make_shared<Event>();
  device.AfterQueue([done](absl::Status) { done->Set(); });
  return done->Wait(Deadline()) ? absl::OkStatus() : TooLate(device);
}

}  // namespace tandem::testing
