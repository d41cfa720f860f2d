// Parts that several algorithms are made of.
#ifndef TANDEM_RUNTIME_COLLECTIVE_ALGORITHMS_PATTERNS_H_
#define TANDEM_RUNTIME_COLLECTIVE_ALGORITHMS_PATTERNS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/collective/schedule.h"

namespace tandem::collective {

// Reduces pieces of equal length along the fixed tree over their order, into `to`: [0, p) and [p,
// n) first, p the greatest power of two below n. The order of ReduceAlongTree (in_process.h).
// REQUIRES: at least one piece.
inline void ReduceTree(ScheduleBuilder& b, const std::vector<Piece>& pieces, Piece to) {
  struct Tree {
    static Piece Reduce(ScheduleBuilder& b, const std::vector<Piece>& pieces, size_t first,
                        size_t last, const Piece* to) {
      if (last - first == 1) return pieces[first];
      size_t half = 1;
      while (half * 2 < last - first) half *= 2;
      const Piece left = Reduce(b, pieces, first, first + half, nullptr);
      const Piece right = Reduce(b, pieces, first + half, last, nullptr);
      const Piece result = to != nullptr ? *to : b.Scratch(left.count);
      b.Reduce(left, right, result);
      return result;
    }
  };
  if (pieces.size() == 1) {
    b.Copy(pieces[0], to);
    return;
  }
  Tree::Reduce(b, pieces, 0, pieces.size(), &to);
}

// Calls f(offset, count) for each part of about `piece` elements.
template <typename F>
void ForPieces(int64_t count, int64_t piece, F f) {
  const int64_t parts = std::max<int64_t>(1, (count + piece - 1) / std::max<int64_t>(1, piece));
  for (int64_t i = 0; i < parts; ++i) {
    const Range range = Split(count, parts, i);
    f(range.begin, range.count);
  }
}

// An all-reduce along a ring of `ranks`, of which this member is the one at `me`, from `from` to
// `to` (which may be the same). n - 1 rounds add each segment up, member by member; n - 1 rounds
// hand the sums round. 2 (n - 1) steps, 2 (n - 1) / n b bytes.
inline void RingAllReduce(ScheduleBuilder& b, const std::vector<int>& ranks, int me, Piece from,
                          Piece to, int64_t piece, int64_t mean_divisor) {
  const int n = static_cast<int>(ranks.size());
  if (n == 1) {
    b.Copy(from, to);
    b.Divide(to, mean_divisor);
    return;
  }
  const int next = ranks[static_cast<size_t>((me + 1) % n)];
  const int previous = ranks[static_cast<size_t>((me + n - 1) % n)];
  const auto segment = [&](int index) { return Split(to.count, n, ((index % n) + n) % n); };
  for (int round = 0; round < n - 1; ++round) {
    const Range out = segment(me - round);
    const Range in = segment(me - round - 1);
    const Piece& source = round == 0 ? from : to;
    ForPieces(out.count, piece, [&](int64_t offset, int64_t count) {
      b.Send(next, source.Part(out.begin + offset, count));
    });
    ForPieces(in.count, piece, [&](int64_t offset, int64_t count) {
      b.ReceiveReduce(previous, from.Part(in.begin + offset, count),
                      to.Part(in.begin + offset, count), /*received_first=*/true);
      // By its owner, so that all get the same bits.
      if (round == n - 2) b.Divide(to.Part(in.begin + offset, count), mean_divisor);
    });
  }
  for (int round = 0; round < n - 1; ++round) {
    const Range out = segment(me + 1 - round);
    const Range in = segment(me - round);
    ForPieces(out.count, piece, [&](int64_t offset, int64_t count) {
      b.Send(next, to.Part(out.begin + offset, count));
    });
    ForPieces(in.count, piece, [&](int64_t offset, int64_t count) {
      b.Receive(previous, to.Part(in.begin + offset, count));
    });
  }
}

inline bool IsReducing(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}
// The divisor at the end of a reduction: 1 unless it is a mean.
inline int64_t MeanDivisor(const Problem& problem) {
  return problem.reduction == Reduction::kMean ? problem.divisor() : 1;
}

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_ALGORITHMS_PATTERNS_H_
