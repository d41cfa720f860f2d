#include "runtime/device/cuda/gpu_completions.h"

#include <utility>

#include "core/base/status.h"
#include "runtime/threads/start_thread.h"

namespace tandem {

GpuCompletions::GpuCompletions(std::string name, std::shared_ptr<GpuStreamQueue> queue)
    : name_(std::move(name)), queue_(std::move(queue)) {}

GpuCompletions::~GpuCompletions() {
  std::thread thread;
  {
    MutexLock lock(mu_);
    ending_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void GpuCompletions::After(GpuStream stream, Done done) {
  absl::StatusOr<GpuEvent> event = GpuEvent{nullptr};
  {
    // Marked under the lock, so that events lie in the queue as they do on a stream.
    MutexLock lock(mu_);
    if (!thread_.joinable()) thread_ = StartThread(name_, [this] { Run(); });
    if (!thread_.joinable()) {
      event = errors::ResourceExhausted("the system grants no thread that waits for the GPU");
    } else {
      event = queue_->Mark(stream);
    }
    if (event.ok()) {
      waiting_.push_back({*event, std::move(done)});
      changed_.NotifyAll();
      return;
    }
  }
  done(event.status());
}

void GpuCompletions::Run() {
  while (true) {
    Waiting next;
    {
      MutexLock lock(mu_);
      while (waiting_.empty() && !ending_) changed_.Wait(mu_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    absl::Status status = queue_->context().Synchronize(next.event);
    queue_->GiveBack(next.event);
    next.done(std::move(status));
  }
}

}  // namespace tandem
