#include "runtime/threads/start_thread.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "core/base/blocked_signals.h"
#include "core/base/log.h"

namespace tandem {

std::thread StartThread(const std::string& name, std::function<void()> body) {
  const BlockedSignals blocked;  // The thread begins so.
  try {
    return std::thread([short_name = name.substr(0, 15), body = std::move(body)] {
      pthread_setname_np(pthread_self(), short_name.c_str());
      body();
    });
  } catch (const std::system_error& error) {
    TANDEM_LOG_EVERY(Error, absl::Seconds(5))
        << "cannot start the thread '" << name << "': " << error.what()
        << "; check the limits of processes (ulimit -u, the control group's pids.max) and of "
           "memory";
    return std::thread();
  }
}

}  // namespace tandem
