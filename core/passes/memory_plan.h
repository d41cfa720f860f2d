// PlanMemory: where in one block each of several pieces of memory lies.
//
// A piece is memory that a step needs for a part of its time: an output between the node that makes
// it and its last consumer, or a kernel's scratch space. Pieces that are needed at the same time
// must not overlap; all others may.
//
// This pass knows sizes and conflicts only. Who learns them, and when a plan is used, is
// runtime/executor/run_memory.h.
#ifndef TANDEM_CORE_PASSES_MEMORY_PLAN_H_
#define TANDEM_CORE_PASSES_MEMORY_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace tandem {

// Which pieces may not overlap: a symmetric relation over pieces 0 … size() - 1.
class MemoryConflicts {
 public:
  size_t size() const { return rows_.size(); }
  // Makes room for pieces up to `size` - 1, which conflict with nothing so far.
  void Grow(size_t size);
  // REQUIRES: a != b, both below size().
  void Add(size_t a, size_t b);
  bool Has(size_t a, size_t b) const;

 private:
  // The lower triangle: row a holds the pieces b < a.
  std::vector<std::vector<bool>> rows_;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // Of each piece, in bytes; multiples of kBufferAlignment.
  size_t bytes = 0;             // Of the whole block.
};

// `bytes[i]` is the size of piece `pieces[i]`, a number in `conflicts`; offsets[i] is its place.
// The same input gives the same plan.
//
// Greedy by size: the largest piece first, each into the tightest gap that those placed before
// leave, else at the end (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
// Inference", 2020, section 5.3). Quadratic in the number of pieces.
MemoryPlan PlanMemory(absl::Span<const size_t> pieces, absl::Span<const size_t> bytes,
                      const MemoryConflicts& conflicts);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_MEMORY_PLAN_H_
