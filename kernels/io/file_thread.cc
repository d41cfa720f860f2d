#include "kernels/io/file_thread.h"

#include <pthread.h>

#include <deque>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace tandem::io {
namespace {

// A disk gains little from more.
constexpr size_t kMaxThreads = 4;

class FileThreads {
 public:
  void Run(absl::AnyInvocable<void()> work) {
    {
      MutexLock lock(mu_);
      if (idle_ > queue_.size() || threads_.size() >= kMaxThreads || StartLocked() ||
          !threads_.empty()) {
        queue_.push_back(std::move(work));
        wake_.NotifyOne();
        return;
      }
    }
    work();
  }

 private:
  bool StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    try {
      threads_.emplace_back([this] { Serve(); });
    } catch (const std::system_error&) {
      return false;
    }
    ++idle_;
    return true;
  }

  void Serve() {
    pthread_setname_np(pthread_self(), "tandem-files");
    while (true) {
      absl::AnyInvocable<void()> work;
      {
        MutexLock lock(mu_);
        while (queue_.empty()) wake_.Wait(mu_);
        work = std::move(queue_.front());
        queue_.pop_front();
        --idle_;
      }
      work();
      work = nullptr;  // What it owned goes before the thread is idle.
      MutexLock lock(mu_);
      ++idle_;
    }
  }

  Mutex mu_;
  CondVar wake_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  size_t idle_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void RunOnFileThread(absl::AnyInvocable<void()> work) {
  // Never destroyed: its threads are parked when the process exits.
  static FileThreads* const threads = new FileThreads;
  threads->Run(std::move(work));
}

}  // namespace tandem::io
