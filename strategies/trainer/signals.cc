#include "strategies/trainer/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>

#include "absl/strings/string_view.h"
#include "core/base/mutex.h"

namespace tandem {
namespace {

// Written by the handler: the last signal, and then how many there were.
std::atomic<int> last_signal{0};
std::atomic<int> num_signals{0};
// How many there had been when the oldest that lives was made.
std::atomic<int> seen_by_oldest{0};
std::atomic<bool> stderr_is_terminal{false};

struct sigaction former_interrupt;
struct sigaction former_terminate;
struct sigaction former_hang_up;

Mutex& Guard() {
  static Mutex* mu = new Mutex;
  return *mu;
}
// What those that live have seen when they were made. Under Guard().
std::multiset<int>& Living() {
  static auto* living = new std::multiset<int>;
  return *living;
}

void OnSignal(int signal) {
  last_signal = signal;
  if (num_signals.fetch_add(1) == seen_by_oldest) {
    // A step may be long, and whoever sits there shall know that the signal was heard.
    constexpr absl::string_view kHeard =
        "\nit ends after the running step; a second signal ends it at once\n";
    if (stderr_is_terminal) {
      const int error = errno;  // Of whatever was interrupted.
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kHeard.data(), kHeard.size());
      errno = error;
    }
    return;
  }
  // A second one for somebody: whoever sends it does not want to wait. It is blocked while its
  // handler runs.
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  _exit(128 + signal);
}

}  // namespace

StopOnSignals::StopOnSignals(bool active) : active_(active) {
  if (!active_) return;
  MutexLock lock(Guard());
  before_ = num_signals;
  Living().insert(before_);
  if (Living().size() > 1) return;
  seen_by_oldest = before_;
  stderr_is_terminal = isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_interrupt);
  sigaction(SIGTERM, &action, &former_terminate);
  // A process that was started by nohup shall outlive its terminal.
  sigaction(SIGHUP, nullptr, &former_hang_up);
  if (former_hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

StopOnSignals::~StopOnSignals() {
  if (!active_) return;
  MutexLock lock(Guard());
  Living().erase(Living().find(before_));
  if (!Living().empty()) {
    seen_by_oldest = *Living().begin();
    return;
  }
  sigaction(SIGINT, &former_interrupt, nullptr);
  sigaction(SIGTERM, &former_terminate, nullptr);
  sigaction(SIGHUP, &former_hang_up, nullptr);
}

int StopOnSignals::received() const {
  return active_ && num_signals > before_ ? last_signal.load() : 0;
}

}  // namespace tandem
