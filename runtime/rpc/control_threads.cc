#include "runtime/rpc/control_threads.h"

#include <system_error>
#include <utility>

namespace tandem {

ControlThreads::~ControlThreads() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    ends_ = true;
    changed_.NotifyAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ControlThreads::Run(absl::AnyInvocable<void()> work) {
  {
    MutexLock lock(mu_);
    bool has_thread = true;
    if (idle_ <= queue_.size() && threads_.size() < most_threads_) {
      // A system that has no threads left must not end the server.
      try {
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        has_thread = !threads_.empty();
      }
    }
    if (has_thread) {
      queue_.push_back(std::move(work));
      changed_.NotifyOne();
      return;
    }
  }
  work();
}

void ControlThreads::Work() {
  for (;;) {
    absl::AnyInvocable<void()> work;
    {
      MutexLock lock(mu_);
      ++idle_;
      while (queue_.empty() && !ends_) changed_.Wait(mu_);
      --idle_;
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace tandem
