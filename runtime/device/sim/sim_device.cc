#include "runtime/device/sim/sim_device.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/device/incarnation.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/device/sim/sim_memory.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/thread_pool.h"

namespace tandem {
namespace {

// The slots that a kernel on the queue is given for its inputs: as the plan's, with the addresses
// of the device. Used by the queue's thread alone, again and again.
class InsideInputs {
 public:
  // REQUIRES: the thread has access to the device's memory.
  absl::Span<Slot* const> Fill(absl::Span<Slot* const> inputs) {
    if (inputs.size() > capacity_) {
      capacity_ = std::max(inputs.size(), 2 * capacity_);
      slots_.reset(new Slot[capacity_]);
      pointers_.resize(capacity_);
      for (size_t i = 0; i < capacity_; ++i) pointers_[i] = &slots_[i];
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      Slot& from = *inputs[i];
      Slot& to = slots_[i];
      const int32_t uses = from.uses.load(std::memory_order_acquire);
      // A value that nobody else will read moves, so that its buffer has no more owners here than
      // it has outside, and the kernel may overwrite it under the same conditions as on a CPU.
      if (uses == 1) {
        to.value = std::move(from.value);
      } else {
        to.value = from.value;
      }
      to.value.Localize();
      to.reference = from.reference;
      to.state = from.state;
      to.uses.store(uses, std::memory_order_relaxed);
    }
    used_ = inputs.size();
    return absl::MakeConstSpan(pointers_.data(), used_);
  }

  void Clear() {
    for (size_t i = 0; i < used_; ++i) {
      slots_[i].value = Tensor();
      slots_[i].reference.reset();
      slots_[i].state = Slot::State::kEmpty;
    }
    used_ = 0;
  }

 private:
  size_t capacity_ = 0;
  size_t used_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::vector<Slot*> pointers_;
};

class SimDevice final : public Device {
 public:
  SimDevice(std::string name, int ordinal, RefPtr<SimMemory> memory)
      : memory_(std::move(memory)),
        incarnation_(RandomIncarnation()),
        queue_(absl::StrCat("sim:", ordinal), /*max_running=*/1) {
    kernel_device_.name = std::move(name);
    kernel_device_.type = kSim;
    kernel_device_.ordinal = ordinal;
    kernel_device_.allocator = memory_.get();
    kernel_device_.parallel = InnerLoopRunner();
  }

  const KernelDevice& kernel_device() const override { return kernel_device_; }
  uint64_t incarnation() const override { return incarnation_; }
  int64_t memory_limit() const override { return memory_->limit(); }
  bool is_queued() const override { return true; }

  void Enqueue(Kernel& kernel, KernelContext& context, Done done) override {
    queue_.Schedule([this, &kernel, &context, done = std::move(done)]() mutable {
      absl::Status status = Run(kernel, context);
      done(std::move(status));
    });
  }
  void CopyToDevice(Tensor source, Copied copied) override {
    EnqueueCopy(std::move(source), memory_.get(), std::move(copied));
  }
  void CopyToHost(Tensor source, Copied copied) override {
    EnqueueCopy(std::move(source), HostAllocator(), std::move(copied));
  }
  void AfterQueue(Done done) override {
    queue_.Schedule([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }

 private:
  // The methods below run on the queue.

  absl::Status Run(Kernel& kernel, KernelContext& context) {
    KernelContext::Params params = context.params();
    absl::Status status;
    {
      const SimMemory::Access access(*memory_);
      const ScopedInnerParallelism one_thread(1);
      params.inputs = inputs_.Fill(params.inputs);
      KernelContext inside(params);
      status = CatchOutOfMemory([&] { return kernel.Compute(inside); });
      // Before anybody learns of the outputs: one of them may be an input's buffer.
      inputs_.Clear();
      for (int i = 0; i < inside.num_outputs() && status.ok(); ++i) {
        status = PutInItsMemory(params, i);
      }
    }
    for (int i = 0; i < context.num_outputs(); ++i) params.outputs[i].value.Localize();
    return status;
  }

  // Moves output `i` to the memory where its consumers look for it, if the kernel put it elsewhere.
  absl::Status PutInItsMemory(const KernelContext::Params& params, int i) {
    Slot& slot = params.outputs[i];
    if (slot.state != Slot::State::kValue || !IsTriviallyCopyable(slot.value.dtype())) {
      return absl::OkStatus();
    }
    const bool to_host = (params.host_outputs >> std::min(i, 63)) & 1;
    if (memory_->Holds(slot.value) != to_host) return absl::OkStatus();
    Allocator* const to = to_host ? HostAllocator() : memory_.get();
    TANDEM_ASSIGN_OR_RETURN(slot.value, CopyInto(slot.value, to));
    return absl::OkStatus();
  }

  void EnqueueCopy(Tensor source, Allocator* to, Copied copied) {
    queue_.Schedule([this, source = std::move(source), to, copied = std::move(copied)]() mutable {
      absl::StatusOr<Tensor> copy = CopyNow(std::move(source), to);
      if (copy.ok()) copy->Localize();
      copied(std::move(copy));
    });
  }

  absl::StatusOr<Tensor> CopyNow(Tensor source, Allocator* to) {
    // Objects of the host are the same on both sides.
    if (!IsTriviallyCopyable(source.dtype())) return source;
    const SimMemory::Access access(*memory_);
    source.Localize();
    return CopyInto(source, to);
  }

  static absl::StatusOr<Tensor> CopyInto(const Tensor& source, Allocator* to) {
    TANDEM_ASSIGN_OR_RETURN(Tensor copy, Tensor::Create(source.dtype(), source.shape(), to));
    if (source.num_bytes() > 0) std::memcpy(copy.mutable_data(), source.data(), source.num_bytes());
    return copy;
  }

  const RefPtr<SimMemory> memory_;
  const uint64_t incarnation_;
  KernelDevice kernel_device_;
  InsideInputs inputs_;

  // The last member: what is still queued when the device ends uses the others.
  ThreadPool queue_;
};

const DeviceRegistration registration(kSim, [](const std::string& name, int ordinal) {
  return MakeSimDevice(name, ordinal);
});

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeSimDevice(const std::string& name, int ordinal,
                                                      const SimOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<SimMemory> memory, SimMemory::Create(name, options.memory_limit));
  return std::unique_ptr<Device>(new SimDevice(name, ordinal, std::move(memory)));
}

}  // namespace tandem
