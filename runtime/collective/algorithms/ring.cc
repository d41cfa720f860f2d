// ring: each member sends to the next one only. The fewest bytes that are possible, and no link
// carries two messages at once; the number of steps grows with the members.
//
//   all-reduce       2 (n - 1) steps   2 (n - 1) / n b bytes sent by each
//   reduce-scatter     (n - 1) steps     (n - 1) / n b
//   all-gather         (n - 1) steps   all but the share of the next member
//   broadcast, reduce: a chain, pieces of which follow each other: n - 2 + b / piece steps, b bytes
//
// Each segment is added up along the ring in one order, which depends on the number of members.
#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

int Around(const Problem& p, int rank) { return ((rank % p.size) + p.size) % p.size; }

void AllReduce(const Problem& p, ScheduleBuilder& b) {
  std::vector<int> ranks;
  for (int i = 0; i < p.size; ++i) ranks.push_back(i);
  RingAllReduce(b, ranks, p.rank, Input(0, p.count), Output(0, p.count), p.piece, MeanDivisor(p));
}

// The sum for a member begins at the one behind it and ends with itself.
void ReduceScatter(const Problem& p, ScheduleBuilder& b) {
  const int next = Around(p, p.rank + 1);
  const int previous = Around(p, p.rank - 1);
  const auto share = [&](int rank) {
    return Input(p.Begin(rank), p.counts[static_cast<size_t>(rank)]);
  };
  Piece partial = share(Around(p, p.rank - 1));
  for (int round = 0; round < p.size - 1; ++round) {
    ForPieces(partial.count, p.piece,
              [&](int64_t offset, int64_t count) { b.Send(next, partial.Part(offset, count)); });
    const Piece own = share(Around(p, p.rank - round - 2));
    const Piece sum = round == p.size - 2 ? Output(0, own.count) : b.Scratch(own.count);
    ForPieces(own.count, p.piece, [&](int64_t offset, int64_t count) {
      b.ReceiveReduce(previous, own.Part(offset, count), sum.Part(offset, count),
                      /*received_first=*/true);
    });
    partial = sum;
  }
  b.Divide(partial, MeanDivisor(p));
}

void AllGather(const Problem& p, ScheduleBuilder& b) {
  const int next = Around(p, p.rank + 1);
  const int previous = Around(p, p.rank - 1);
  const auto share = [&](int rank) {
    return Output(p.Begin(rank), p.counts[static_cast<size_t>(rank)]);
  };
  const Piece own = share(p.rank);
  b.Copy(Input(0, own.count), own);
  for (int round = 0; round < p.size - 1; ++round) {
    // The first time from the input, so that nobody waits for a copy.
    const Piece out = round == 0 ? Input(0, own.count) : share(Around(p, p.rank - round));
    ForPieces(out.count, p.piece,
              [&](int64_t offset, int64_t count) { b.Send(next, out.Part(offset, count)); });
    const Piece in = share(Around(p, p.rank - round - 1));
    ForPieces(in.count, p.piece,
              [&](int64_t offset, int64_t count) { b.Receive(previous, in.Part(offset, count)); });
  }
}

void Broadcast(const Problem& p, ScheduleBuilder& b) {
  const int next = Around(p, p.rank + 1);
  const Piece source = p.rank == p.root ? Input(0, p.count) : Output(0, p.count);
  ForPieces(p.count, p.piece, [&](int64_t offset, int64_t count) {
    if (p.rank != p.root) b.Receive(Around(p, p.rank - 1), Output(offset, count));
    if (next != p.root) b.Send(next, source.Part(offset, count));
  });
  if (p.rank == p.root) b.Copy(Input(0, p.count), Output(0, p.count));
}

// Begins behind the root and ends there.
void Reduce(const Problem& p, ScheduleBuilder& b) {
  const int next = Around(p, p.rank + 1);
  const int previous = Around(p, p.rank - 1);
  const bool is_first = previous == p.root;
  const bool is_last = p.rank == p.root;
  const Piece sum = is_first  ? Input(0, p.count)
                    : is_last ? Output(0, p.count)
                              : b.Scratch(p.count);
  ForPieces(p.count, p.piece, [&](int64_t offset, int64_t count) {
    const Piece part = sum.Part(offset, count);
    if (!is_first) b.ReceiveReduce(previous, Input(offset, count), part, /*received_first=*/true);
    if (!is_last) b.Send(next, part);
  });
  if (is_last) b.Divide(sum, MeanDivisor(p));
}

bool Solves(const Problem& p) {
  return p.kind != Kind::kBarrier && p.kind != Kind::kAllToAll && p.replicas.empty();
}

void Build(const Problem& p, ScheduleBuilder& b) {
  switch (p.kind) {
    case Kind::kAllReduce:
      return AllReduce(p, b);
    case Kind::kReduce:
      return Reduce(p, b);
    case Kind::kReduceScatter:
      return ReduceScatter(p, b);
    case Kind::kAllGather:
      return AllGather(p, b);
    case Kind::kBroadcast:
      return Broadcast(p, b);
    case Kind::kAllToAll:
    case Kind::kBarrier:
      return;
  }
}

const AlgorithmRegistration registration({"ring", "2(n-1) steps, 2(n-1)/n b bytes", Solves, Build});

}  // namespace
}  // namespace tandem::collective
