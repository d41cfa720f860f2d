#include "core/base/blocked_signals.h"

#include <pthread.h>

namespace tandem {
namespace {

sigset_t Blockable() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&set, own);
  }
  return set;
}

}  // namespace

BlockedSignals::BlockedSignals() {
  static const sigset_t blockable = Blockable();
  pthread_sigmask(SIG_BLOCK, &blockable, &former_);
}

BlockedSignals::~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

}  // namespace tandem
