// GpuCompletions: calls back when the device has got as far as an event. One thread, which waits
// for one event after the other.
#ifndef TANDEM_RUNTIME_DEVICE_CUDA_GPU_COMPLETIONS_H_
#define TANDEM_RUNTIME_DEVICE_CUDA_GPU_COMPLETIONS_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "runtime/device/cuda/gpu_stream_queue.h"

namespace tandem {

class GpuCompletions {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  GpuCompletions(std::string name, std::shared_ptr<GpuStreamQueue> queue);
  // Waits for all that was asked for. REQUIRES: not called by a callback.
  ~GpuCompletions();

  // Runs `done` on the thread when `stream` has carried out what it was given so far, after the
  // callbacks that were asked for earlier. With an error when the device cannot say. Also before
  // this returns, then with an error.
  void After(GpuStream stream, Done done);

 private:
  struct Waiting {
    GpuEvent event;
    Done done;
  };
  void Run();

  const std::string name_;
  const std::shared_ptr<GpuStreamQueue> queue_;

  Mutex mu_;
  CondVar changed_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);  // Started by the first who waits.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_CUDA_GPU_COMPLETIONS_H_
