#include "strategies/trainer/signals.h"

#include <unistd.h>

#include <atomic>

#include "core/base/mutex.h"

namespace tandem {
namespace {

// Written by the handler.
std::atomic<int> received_signal{0};

struct sigaction former_interrupt;
struct sigaction former_terminate;

Mutex& Guard() {
  static Mutex* mu = new Mutex;
  return *mu;
}
int users = 0;  // Under Guard().

void OnSignal(int signal) {
  if (received_signal.exchange(signal) == 0) return;
  // The second one: whoever sends it does not want to wait. It is blocked while its handler runs.
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
  if (users++ > 0) return;
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_interrupt);
  sigaction(SIGTERM, &action, &former_terminate);
}

StopOnSignals::~StopOnSignals() {
  if (!active_) return;
  MutexLock lock(Guard());
  if (--users > 0) return;
  sigaction(SIGINT, &former_interrupt, nullptr);
  sigaction(SIGTERM, &former_terminate, nullptr);
}

int StopOnSignals::received() const { return active_ ? received_signal.load() : 0; }

}  // namespace tandem
