// GpuStreamQueue: the compute stream of a GPU, and the other streams that work beside it.
//
//   compute    kernels, in the order in which they are put there
//   copy_in    from pinned memory of the host; the compute stream waits for each copy
//   copy_out   to pinned memory of the host; waits for the compute stream's work so far
//
// Threads: any, but GpuQueue's methods as it says.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_GPU_STREAM_QUEUE_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_GPU_STREAM_QUEUE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "runtime/device/cuda/gpu_context.h"

namespace tandem {

class GpuStreamQueue final : public GpuQueue {
 public:
  // `name` is the device's, for messages. With `blocking` each launch waits until it is carried
  // out, so that an error of a kernel is that of its op.
  static absl::StatusOr<std::shared_ptr<GpuStreamQueue>> Create(std::string name,
                                                                std::shared_ptr<GpuContext> context,
                                                                bool blocking);
  // Waits for what runs.
  ~GpuStreamQueue() override;

  GpuContext& context() { return *context_; }
  GpuStream compute() const { return compute_; }
  GpuStream copy_in() const { return copy_in_; }
  GpuStream copy_out() const { return copy_out_; }

  const GpuProperties& properties() const override { return context_->properties(); }
  void* stream() const override { return compute_; }
  absl::Status Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                      absl::Span<const GpuArgument> arguments) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;

  // An event at the end of what `stream` has been given so far. It belongs to the caller, who gives
  // it back when nobody asks for it any more.
  absl::StatusOr<GpuEvent> Mark(GpuStream stream);
  void GiveBack(GpuEvent event);

  // Waits for all work, and drops what libraries keep for this queue. REQUIRES: nobody puts work
  // on it any more.
  void Close();

 private:
  GpuStreamQueue(std::string name, std::shared_ptr<GpuContext> context, bool blocking)
      : name_(std::move(name)), context_(std::move(context)), blocking_(blocking) {}
  // When blocking: waits.
  absl::Status AfterLaunch();
  void WaitForAll();

  const std::string name_;
  const std::shared_ptr<GpuContext> context_;
  const bool blocking_;
  GpuStream compute_ = nullptr;
  GpuStream copy_in_ = nullptr;
  GpuStream copy_out_ = nullptr;
  bool closed_ = false;

  Mutex events_mu_;
  std::vector<GpuEvent> events_ ABSL_GUARDED_BY(events_mu_);  // Not in use.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_GPU_STREAM_QUEUE_H_
