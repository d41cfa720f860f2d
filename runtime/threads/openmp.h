// OpenMP for oneDNN, over Tandem's own threads. See openmp.cc for how and why; this is only what
// its users want to know about it. InnerParallelism() (inner_loop.h) is what OpenMP's
// omp_get_max_threads() answers, so it decides how many threads a oneDNN primitive is created for.
#ifndef TANDEM_RUNTIME_THREADS_OPENMP_H_
#define TANDEM_RUNTIME_THREADS_OPENMP_H_

#include <cstdint>

#include "absl/status/status.h"

namespace tandem {

// OK when a shared library that asks for OpenMP's entry points finds the ones here. Otherwise
// FailedPrecondition names those that come from somewhere else and says what to do: oneDNN would
// then run on threads that know nothing of run tokens. Sessions check this once, before the first
// graph is compiled, and log a warning.
absl::Status CheckOpenMpIsOurs();

struct OpenMpCounts {
  int64_t teams = 0;     // Regions that ran with more than one member.
  int64_t barriers = 0;  // Barriers that all members of a team reached.
};

// Since the process began. Threads: any.
OpenMpCounts GetOpenMpCounts();

}  // namespace tandem

#endif  // TANDEM_RUNTIME_THREADS_OPENMP_H_
