// dissemination: the barrier. In round k every member signals the one 2^k behind it and waits for
// the one 2^k ahead; after log2 n rounds each has heard, through others, of all.
//
//   log2 n steps, no values
//
// After Hensgen, Finkel and Manber, "Two Algorithms for Barrier Synchronization" (1988).
#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

void Build(const Problem& p, ScheduleBuilder& b) {
  for (int distance = 1; distance < p.size; distance *= 2) {
    b.SendSignal((p.rank + distance) % p.size);
    b.ReceiveSignal((p.rank + p.size - distance) % p.size);
  }
}

bool Solves(const Problem& p) { return p.kind == Kind::kBarrier; }

const AlgorithmRegistration registration({"dissemination", "log2(n) steps", Solves, Build});

}  // namespace
}  // namespace tandem::collective
