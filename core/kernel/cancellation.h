// Cancellation: how a step that has to end reaches the kernels that wait in it.
#ifndef TANDEM_CORE_KERNEL_CANCELLATION_H_
#define TANDEM_CORE_KERNEL_CANCELLATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace tandem {

// Threads: any. Callbacks run outside the lock, on the thread that cancels, once.
//
// A kernel that waits registers a callback before it waits, and deregisters before it reports that
// it is done:
//
//   const auto token = cancellation.NewToken();
//   if (!cancellation.Register(token, [=] { queue->Abandon(token); })) return Cancelled…;
//   … when the wait is over: if (cancellation.Deregister(token)) done(…);  // else: cancelled
class CancellationManager {
 public:
  using Token = int64_t;
  using Callback = std::function<void()>;

  CancellationManager() = default;
  // A manager that is also cancelled when `parent` is. `parent` outlives it.
  explicit CancellationManager(CancellationManager* parent);
  ~CancellationManager();

  Token NewToken();
  // False when this is cancelled already; the callback will then never run.
  [[nodiscard]] bool Register(Token token, Callback callback);
  // True when the callback was still there: it will never run. False when it ran; if it is running
  // at this moment on another thread, waits for it to end.
  bool Deregister(Token token);
  // As Deregister, but never waits: false may also mean that the callback runs right now. For those
  // who hold a lock that the callback takes.
  bool TryDeregister(Token token);

  // Cancels with a reason (not OK). Only the first call counts; it returns after all callbacks
  // have.
  void Cancel(absl::Status reason);
  // Costs a load: executors ask before every node.
  bool IsCancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // OK as long as nobody cancelled.
  absl::Status status() const;

 private:
  mutable Mutex mu_;
  CondVar callbacks_ended_;
  std::atomic<bool> cancelled_{false};  // Set under mu_, with reason_.
  // The callback that runs right now, and on which thread (a callback may deregister itself).
  Token running_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t running_thread_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status reason_ ABSL_GUARDED_BY(mu_);
  Token next_token_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Token, Callback> callbacks_ ABSL_GUARDED_BY(mu_);

  CancellationManager* parent_ = nullptr;
  Token parent_token_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_CANCELLATION_H_
