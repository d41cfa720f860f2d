// How a kernel splits its inner loop over threads.
//
//   context.parallel().For(rows, /*nanoseconds_per_unit=*/2.0 * columns,
//                          [&](int64_t begin, int64_t end) {
//                            for (int64_t row = begin; row < end; ++row) Normalize(row);
//                          });
//
// The runner decides how many threads join, from the cost that it is told, from the share of the
// cores that the kernel's device has, and from the cores that are idle at this moment. So the
// pieces [begin, end) differ from run to run. What is computed may not:
//
//   * An elementwise body gives the same bits whatever the pieces are, as it should.
//   * A reduction may not depend on where pieces begin and end, at least in deterministic mode.
//     Cut the input into blocks whose number depends on its size alone, let a unit of the loop be
//     a block that leaves its partial result in a slot of its own, and add the slots in order.
//
// Threads   A runner may be used by any number of threads at once. `body` runs on several threads
//           at once, the caller's among them; each unit in exactly one call.
// Waiting   For returns when all units are done. `body` may not wait for anything but For.
// Nesting   A For inside a `body` runs inline.
#ifndef TANDEM_CORE_KERNEL_PARALLEL_H_
#define TANDEM_CORE_KERNEL_PARALLEL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tandem {

class ParallelRunner {
 public:
  using Body = absl::FunctionRef<void(int64_t begin, int64_t end)>;

  virtual ~ParallelRunner() = default;

  // The most threads that a loop of this kernel uses, the caller's included. 1: all runs inline.
  virtual int parallelism() const = 0;

  // Calls `body` for pieces that together are [0, total); not at all when total <= 0.
  // `nanoseconds_per_unit` is a rough cost of one unit on one core; an add of two floats that come
  // from the cache is about 0.1, from memory about 1. Loops too short for a second thread run
  // inline, as one piece.
  virtual void For(int64_t total, double nanoseconds_per_unit, Body body) = 0;
};

// Runs every loop inline. Stateless.
class InlineRunner final : public ParallelRunner {
 public:
  int parallelism() const override { return 1; }
  void For(int64_t total, double, Body body) override {
    if (total > 0) body(0, total);
  }
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_PARALLEL_H_
