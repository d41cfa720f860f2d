#include "runtime/device/cuda/gpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/cuda/gpu_completions.h"
#include "runtime/device/cuda/gpu_memory.h"
#include "runtime/device/cuda/gpu_stream_queue.h"
#include "runtime/device/incarnation.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/threads/inner_loop.h"

namespace tandem {
namespace {

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' && absl::string_view(value) != "0";
}

class GpuDevice final : public Device {
 public:
  GpuDevice(std::string name, int ordinal, std::shared_ptr<GpuStreamQueue> queue,
            RefPtr<GpuMemory> memory, RefPtr<PinnedMemory> pinned)
      : queue_(std::move(queue)),
        memory_(std::move(memory)),
        pinned_(std::move(pinned)),
        incarnation_(RandomIncarnation()),
        completions_(absl::StrCat("gpu:", ordinal), queue_) {
    kernel_device_.name = std::move(name);
    kernel_device_.type = kCuda;
    kernel_device_.ordinal = ordinal;
    kernel_device_.allocator = memory_.get();
    kernel_device_.parallel = InnerLoopRunner();
    kernel_device_.gpu = queue_.get();
  }

  ~GpuDevice() override {
    MutexLock lock(arriving_mu_);
    while (!arriving_.empty()) {
      // A context that cannot wait any more runs nothing any more.
      (void)queue_->context().Synchronize(arriving_.front().end);
      queue_->GiveBack(arriving_.front().end);
      arriving_.pop_front();
    }
    queue_->Close();
  }

  const KernelDevice& kernel_device() const override { return kernel_device_; }
  uint64_t incarnation() const override { return incarnation_; }
  int64_t memory_limit() const override { return memory_->limit(); }
  bool is_queued() const override { return true; }

  void Enqueue(Kernel& kernel, KernelContext& context, Done done) override {
    absl::Status status;
    {
      MutexLock lock(order_mu_);
      const ScopedInnerParallelism one_thread(1);
      status = queue_->context().MakeCurrent();
      if (status.ok()) status = CatchOutOfMemory([&] { return kernel.Compute(context); });
    }
    for (int i = 0; i < context.num_outputs() && status.ok(); ++i) {
      status = PutInItsMemory(context.params(), i);
    }
    done(std::move(status));
  }

  void CopyToDevice(Tensor source, Copied copied) override { copied(Arrive(std::move(source))); }

  void CopyToHost(Tensor source, Copied copied) override {
    if (!GpuMemory::Holds(source)) {
      // An object of the host, or nothing at all.
      copied(std::move(source));
      return;
    }
    absl::StatusOr<Tensor> copy = StartLeaving(source);
    if (!copy.ok()) {
      copied(copy.status());
      return;
    }
    // The source stays until the copy is over: its memory may belong to another stream next.
    completions_.After(queue_->copy_out(),
                       [source = std::move(source), copy = *std::move(copy),
                        copied = std::move(copied)](absl::Status status) mutable {
                         source = Tensor();
                         if (status.ok()) {
                           copied(std::move(copy));
                         } else {
                           copied(std::move(status));
                         }
                       });
  }

  void AfterQueue(Done done) override { completions_.After(queue_->compute(), std::move(done)); }

 private:
  // Copies in that may not be over, with the memory that they read.
  struct Arriving {
    GpuEvent end;
    Tensor source;
  };

  // The copy of a tensor of the host on the device, for what the compute stream is given from now
  // on.
  absl::StatusOr<Tensor> Arrive(Tensor source) {
    if (!IsTriviallyCopyable(source.dtype()) || GpuMemory::Holds(source)) return source;
    const size_t bytes = source.num_bytes();
    TANDEM_ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, memory_->AllocateArrival(bytes));
    void* const to = buffer->data();
    Tensor arrived = Tensor::FromBuffer(source.dtype(), source.shape(), std::move(buffer), to);
    if (bytes == 0) return arrived;
    if (!PinnedMemory::Holds(source)) {
      TANDEM_ASSIGN_OR_RETURN(Tensor pinned,
                              Tensor::Create(source.dtype(), source.shape(), pinned_.get()));
      std::memcpy(pinned.mutable_data(), source.data(), bytes);
      source = std::move(pinned);
    }
    GpuContext& context = queue_->context();
    MutexLock lock(arriving_mu_);
    TANDEM_RETURN_IF_ERROR(DropArrivedLocked());
    TANDEM_RETURN_IF_ERROR(context.CopyToDevice(to, source.data(), bytes, queue_->copy_in()));
    TANDEM_ASSIGN_OR_RETURN(const GpuEvent end, queue_->Mark(queue_->copy_in()));
    arriving_.push_back({end, std::move(source)});
    TANDEM_RETURN_IF_ERROR(context.Wait(queue_->compute(), end));
    return arrived;
  }

  absl::Status DropArrivedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(arriving_mu_) {
    while (!arriving_.empty()) {
      TANDEM_ASSIGN_OR_RETURN(const bool passed, queue_->context().Passed(arriving_.front().end));
      if (!passed) break;
      queue_->GiveBack(arriving_.front().end);
      arriving_.pop_front();
    }
    return absl::OkStatus();
  }

  // Puts the copy of a tensor of the device on the copy-out stream; the result holds nothing yet.
  absl::StatusOr<Tensor> StartLeaving(const Tensor& source) {
    TANDEM_ASSIGN_OR_RETURN(Tensor copy,
                            Tensor::Create(source.dtype(), source.shape(), pinned_.get()));
    if (source.num_bytes() == 0) return copy;
    GpuContext& context = queue_->context();
    TANDEM_ASSIGN_OR_RETURN(const GpuEvent computed, queue_->Mark(queue_->compute()));
    absl::Status status = context.Wait(queue_->copy_out(), computed);
    queue_->GiveBack(computed);
    TANDEM_RETURN_IF_ERROR(status);
    TANDEM_RETURN_IF_ERROR(context.CopyToHost(copy.mutable_data(), source.data(),
                                              source.num_bytes(), queue_->copy_out()));
    return copy;
  }

  // Copies output `i` to the device if the kernel left it on the host.
  absl::Status PutInItsMemory(const KernelContext::Params& params, int i) {
    Slot& slot = params.outputs[i];
    if (slot.state != Slot::State::kValue || !IsTriviallyCopyable(slot.value.dtype())) {
      return absl::OkStatus();
    }
    const bool to_host = (params.host_outputs >> std::min(i, 63)) & 1;
    const bool on_device = GpuMemory::Holds(slot.value);
    if (to_host && on_device) {
      // A wait, and no kernel may ask for one here.
      return errors::Internal("output ", i, " belongs in the host's memory and lies on the device");
    }
    if (to_host || on_device) return absl::OkStatus();
    TANDEM_ASSIGN_OR_RETURN(slot.value, Arrive(std::move(slot.value)));
    return absl::OkStatus();
  }

  const std::shared_ptr<GpuStreamQueue> queue_;
  const RefPtr<GpuMemory> memory_;
  const RefPtr<PinnedMemory> pinned_;
  const uint64_t incarnation_;
  KernelDevice kernel_device_;

  Mutex order_mu_;  // Held while a kernel puts its work on the queue.
  Mutex arriving_mu_;
  std::deque<Arriving> arriving_ ABSL_GUARDED_BY(arriving_mu_);

  // The last member: its callbacks use the others.
  GpuCompletions completions_;
};

GpuPlatform* platform_for_tests = nullptr;

const DeviceRegistration registration(kCuda,
                                      [](const std::string& name,
                                         int ordinal) -> absl::StatusOr<std::unique_ptr<Device>> {
                                        GpuPlatform* platform = platform_for_tests;
                                        if (platform == nullptr) {
                                          TANDEM_ASSIGN_OR_RETURN(platform, CudaPlatform());
                                        }
                                        return MakeGpuDevice(*platform, name, ordinal);
                                      });

}  // namespace

void SetGpuPlatform(GpuPlatform* platform) { platform_for_tests = platform; }

absl::StatusOr<std::unique_ptr<Device>> MakeGpuDevice(GpuPlatform& platform,
                                                      const std::string& name, int ordinal,
                                                      const GpuOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<GpuContext> context, platform.Open(ordinal));
  const int64_t limit =
      options.memory_limit > 0 ? options.memory_limit : context->properties().memory;
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<GpuStreamQueue> queue,
                          GpuStreamQueue::Create(name, context, IsSet("TANDEM_GPU_BLOCKING")));
  auto memory = MakeRef<GpuMemory>(name, queue, limit);
  auto pinned = MakeRef<PinnedMemory>(absl::StrCat(name, "'s pinned memory"), context);
  return std::unique_ptr<Device>(
      new GpuDevice(name, ordinal, std::move(queue), std::move(memory), std::move(pinned)));
}

}  // namespace tandem
