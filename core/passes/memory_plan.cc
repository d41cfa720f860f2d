#include "core/passes/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/tensor/buffer.h"

namespace tandem {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct Placed {
  size_t begin;
  size_t end;
  size_t index;
};

// The place of a piece of `bytes` bytes among `taken`, which is sorted by `begin` and may overlap.
size_t FindPlace(size_t bytes, absl::Span<const Placed> taken) {
  size_t best = SIZE_MAX;
  size_t best_gap = SIZE_MAX;
  size_t end = 0;
  for (const Placed& other : taken) {
    if (other.begin > end) {
      const size_t gap = other.begin - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    end = std::max(end, other.end);
  }
  return best == SIZE_MAX ? end : best;
}

}  // namespace

void MemoryConflicts::Grow(size_t size) {
  while (rows_.size() < size) rows_.emplace_back(rows_.size(), false);
}

void MemoryConflicts::Add(size_t a, size_t b) { rows_[std::max(a, b)][std::min(a, b)] = true; }

bool MemoryConflicts::Has(size_t a, size_t b) const {
  return a != b && rows_[std::max(a, b)][std::min(a, b)];
}

MemoryPlan PlanMemory(absl::Span<const size_t> pieces, absl::Span<const size_t> bytes,
                      const MemoryConflicts& conflicts) {
  MemoryPlan plan;
  plan.offsets.resize(pieces.size());
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  std::vector<Placed> placed;  // Sorted by `begin`.
  std::vector<Placed> in_the_way;
  for (const size_t i : order) {
    in_the_way.clear();
    for (const Placed& other : placed) {
      if (conflicts.Has(pieces[i], pieces[other.index])) in_the_way.push_back(other);
    }
    const size_t size = RoundUp(bytes[i]);
    const size_t begin = FindPlace(size, in_the_way);
    const Placed here{begin, begin + size, i};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), here,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        here);
    plan.offsets[i] = begin;
    plan.bytes = std::max(plan.bytes, here.end);
  }
  return plan;
}

}  // namespace tandem
