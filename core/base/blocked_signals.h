// A stretch of code in which no signal handler runs on this thread.
#ifndef TANDEM_CORE_BASE_BLOCKED_SIGNALS_H_
#define TANDEM_CORE_BASE_BLOCKED_SIGNALS_H_

#include <signal.h>

namespace tandem {

// Blocks all signals on the calling thread while it lives, but those that tell of a mistake of the
// thread itself (SIGSEGV and its kin). A signal to the process goes to another thread, or waits.
// Threads that are started meanwhile begin with them blocked. Two system calls, some 100 ns.
//
// Around every call of oneDNN: kernels of its matrix products use the stack pointer for a buffer on
// the heap, and the system writes the frame of a handler wherever that points, over what others
// have there.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t former_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_BLOCKED_SIGNALS_H_
