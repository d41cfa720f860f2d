// Inner loops of kernels on several threads (core/kernel/parallel.h), and how many they may use.
//
// The thread that calls For always works itself. Helpers join only when a run token is free: N
// replicas on C cores never compute on more than C threads, and when all cores are busy a loop
// costs what it costs inline. Pieces are handed out by an atomic counter, so a helper that comes
// late, or a core that is slow, takes fewer; one that comes too late is not waited for.
//
// What a body throws (std::bad_alloc), on whichever thread, reaches the caller of For.
#ifndef TANDEM_RUNTIME_THREADS_INNER_LOOP_H_
#define TANDEM_RUNTIME_THREADS_INNER_LOOP_H_

#include "core/kernel/parallel.h"

namespace tandem {

// The most threads that an inner loop or an OpenMP region begun by this thread uses. The number of
// run tokens unless a ScopedInnerParallelism says otherwise.
int InnerParallelism();

// `threads`, or as many as the system lets us start, with a line of the log. Their helpers are
// started here, so that no kernel which counts on the number lacks one.
int ReserveParallelism(int threads);

// Sets InnerParallelism() of this thread for a scope. An executor opens one around each kernel,
// with the device's share of the cores, which its plan has reserved. Values below 1 count as 1.
class ScopedInnerParallelism {
 public:
  explicit ScopedInnerParallelism(int threads);
  ~ScopedInnerParallelism();
  ScopedInnerParallelism(const ScopedInnerParallelism&) = delete;
  ScopedInnerParallelism& operator=(const ScopedInnerParallelism&) = delete;

 private:
  const int outer_;
};

// The runner over the process's helpers; parallelism() is the calling thread's InnerParallelism().
// Lives as long as the process.
//
// A caller that holds no run token gets one for the length of a loop that is worth more than one
// thread.
ParallelRunner* InnerLoopRunner();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_INNER_LOOP_H_
