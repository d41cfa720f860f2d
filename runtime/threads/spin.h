// A short spin before a sleep.
#ifndef TANDEM_RUNTIME_THREADS_SPIN_H_
#define TANDEM_RUNTIME_THREADS_SPIN_H_

#include <chrono>

namespace tandem {

// About what it costs to wake a sleeping thread on a virtual machine (50 to 200 microseconds): to
// spin for as long as that at most doubles the price of a wait.
inline constexpr std::chrono::microseconds kShortSpin{50};

// Tells the core that the thread waits; some ten nanoseconds.
inline void SpinPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done()`, for kShortSpin at most and as long as it is `worthwhile()`. Returns done().
// Must stop being worthwhile for about a microsecond: whoever takes the last run token may be about
// to give this very thread something to do.
template <typename Done, typename Worthwhile>
bool SpinUntil(Done done, Worthwhile worthwhile) {
  if (done()) return true;
  const auto end = std::chrono::steady_clock::now() + kShortSpin;
  int vain_rounds = 0;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      SpinPause();
    }
    vain_rounds = worthwhile() ? 0 : vain_rounds + 1;
  } while (vain_rounds < 4 && std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_SPIN_H_
