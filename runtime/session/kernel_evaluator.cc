#include "runtime/session/kernel_evaluator.h"

#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

// Host memory in pieces of a limited size. Buffers are the host allocator's own, so that they may
// outlive this.
class LimitedAllocator final : public Allocator {
 public:
  explicit LimitedAllocator(size_t max_bytes) : max_bytes_(max_bytes) {}

  std::string name() const override { return HostAllocator()->name(); }
  RefPtr<Buffer> Allocate(size_t bytes) override {
    return bytes <= max_bytes_ ? HostAllocator()->Allocate(bytes) : RefPtr<Buffer>();
  }
  AllocatorStats stats() const override { return HostAllocator()->stats(); }

 private:
  const size_t max_bytes_;
};

}  // namespace

KernelEvaluator::KernelEvaluator(const DeviceSet& devices, int inner_parallelism)
    : devices_(devices),
      threads_(ReserveParallelism(inner_parallelism > 0 ? inner_parallelism
                                                        : RunTokens::Process().capacity())) {}

absl::StatusOr<std::vector<Tensor>> KernelEvaluator::Evaluate(const Request& request) {
  const Device* const place = devices_.Find(request.device);
  if (place == nullptr || place->is_queued()) {
    return errors::Unimplemented("'", request.device, "' is no host device of this task");
  }
  LimitedAllocator allocator(request.max_bytes);
  ResourceManager resources;
  KernelDevice device = place->kernel_device();
  device.allocator = &allocator;
  device.resources = &resources;
  device.files = devices_.files().get();

  TANDEM_ASSIGN_OR_RETURN(const KernelDef* def, OpRegistry::Global().FindKernel(
                                                    *request.op, device.type, *request.attrs));
  KernelInit init({request.node_name, request.op, request.attrs, request.input_types,
                   request.output_types, &device, request.functions});
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, def->factory(init));
  if (kernel->AsAsync() != nullptr) {
    return errors::Unimplemented("the kernel of ", request.op->name, " may wait");
  }

  const std::unique_ptr<Slot[]> inputs(new Slot[request.inputs.size()]);
  const std::unique_ptr<Slot[]> outputs(new Slot[request.output_types.size()]);
  std::vector<Slot*> pointers;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    inputs[i].value = request.inputs[i];
    inputs[i].state = Slot::State::kValue;
    inputs[i].uses.store(2, std::memory_order_relaxed);  // The graph keeps them: not to be taken.
    pointers.push_back(&inputs[i]);
  }
  CancellationManager cancellation;
  ResourceManager step_resources;
  StepContext step;
  step.cancellation = &cancellation;
  step.step_resources = &step_resources;
  KernelContext context({request.node_name, &device, &step, pointers, outputs.get(),
                         request.output_types, /*host_outputs=*/0, /*frame_iteration=*/0});
  const ScopedRunToken token;
  const ScopedInnerParallelism threads(threads_);
  TANDEM_RETURN_IF_ERROR(CatchOutOfMemory([&] { return kernel->Compute(context); }));

  std::vector<Tensor> results;
  for (size_t i = 0; i < request.output_types.size(); ++i) {
    if (outputs[i].state != Slot::State::kValue) {
      return errors::Unimplemented("output ", i, " of ", request.op->name, " is no value");
    }
    if (outputs[i].value.num_bytes() > request.max_bytes) {
      return errors::ResourceExhausted("output ", i, " of ", request.op->name, " takes ",
                                       outputs[i].value.num_bytes(), " bytes; ", request.max_bytes,
                                       " are allowed");
    }
    results.push_back(std::move(outputs[i].value));
  }
  return results;
}

}  // namespace tandem
