#include "runtime/device/cuda/gpu_stream_queue.h"

#include <utility>

#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem {

absl::StatusOr<std::shared_ptr<GpuStreamQueue>> GpuStreamQueue::Create(
    std::string name, std::shared_ptr<GpuContext> context, bool blocking) {
  std::shared_ptr<GpuStreamQueue> queue(
      new GpuStreamQueue(std::move(name), std::move(context), blocking));
  for (GpuStream* stream : {&queue->compute_, &queue->copy_in_, &queue->copy_out_}) {
    TANDEM_ASSIGN_OR_RETURN(*stream, queue->context_->CreateStream());
  }
  return queue;
}

GpuStreamQueue::~GpuStreamQueue() {
  Close();
  for (GpuStream stream : {compute_, copy_in_, copy_out_}) {
    if (stream != nullptr) context_->DestroyStream(stream);
  }
  MutexLock lock(events_mu_);
  for (GpuEvent event : events_) context_->DestroyEvent(event);
}

absl::Status GpuStreamQueue::Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                                    absl::Span<const GpuArgument> arguments) {
  TANDEM_RETURN_IF_ERROR(context_->Launch(function, grid, arguments, compute_));
  return AfterLaunch();
}

absl::Status GpuStreamQueue::Fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(context_->Fill(to, value, bytes, compute_));
  return AfterLaunch();
}

absl::Status GpuStreamQueue::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(context_->CopyOnDevice(to, from, bytes, compute_));
  return AfterLaunch();
}

absl::Status GpuStreamQueue::AfterLaunch() {
  if (!blocking_) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const GpuEvent end, Mark(compute_));
  const absl::Status status = context_->Synchronize(end);
  GiveBack(end);
  return status;
}

absl::StatusOr<GpuEvent> GpuStreamQueue::Mark(GpuStream stream) {
  GpuEvent event = nullptr;
  {
    MutexLock lock(events_mu_);
    if (!events_.empty()) {
      event = events_.back();
      events_.pop_back();
    }
  }
  if (event == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(event, context_->CreateEvent());
  }
  const absl::Status status = context_->Record(event, stream);
  if (!status.ok()) {
    GiveBack(event);
    return status;
  }
  return event;
}

void GpuStreamQueue::GiveBack(GpuEvent event) {
  MutexLock lock(events_mu_);
  events_.push_back(event);
}

void GpuStreamQueue::Close() {
  if (closed_) return;
  closed_ = true;
  WaitForAll();
  DropAttached();
}

void GpuStreamQueue::WaitForAll() {
  for (GpuStream stream : {copy_in_, compute_, copy_out_}) {
    if (stream == nullptr) continue;
    const absl::StatusOr<GpuEvent> end = Mark(stream);
    const absl::Status status = end.ok() ? context_->Synchronize(*end) : end.status();
    if (end.ok()) GiveBack(*end);
    if (!status.ok()) {
      TANDEM_LOG(Warning) << "device " << name_ << " ends after an error: " << status.message();
      return;
    }
  }
}

}  // namespace tandem
