// ControlThreads: where a server does what takes long but does not wait: reading and compiling
// graphs.
//
// gRPC calls handlers on a few threads, two on a small machine. A graph that is compiled there
// keeps calls from being answered, among them those by which other tasks learn that this one lives.
#ifndef TANDEM_RUNTIME_RPC_CONTROL_THREADS_H_
#define TANDEM_RUNTIME_RPC_CONTROL_THREADS_H_

#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace tandem {

// Threads: any.
class ControlThreads {
 public:
  // Threads are made when they are needed.
  explicit ControlThreads(size_t most_threads) : most_threads_(most_threads) {}
  // Does what was asked for first.
  ~ControlThreads();

  // Work begins in the order in which it was asked for. It may not wait for other work.
  void Run(absl::AnyInvocable<void()> work);

 private:
  void Work();

  const size_t most_threads_;
  Mutex mu_;
  CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  size_t idle_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_CONTROL_THREADS_H_
