// one_shot: every member sends what it has to all that need it, and each reduces by itself, along
// the fixed tree over the ranks. One step, whatever the number of members: the quickest for small
// sizes, and for two members at any size.
//
//   all-reduce       1 step   (n - 1) b bytes sent by each
//   reduce           1 step   b by each but the root
//   reduce-scatter   1 step   (n - 1) / n b
//   all-gather       1 step   (n - 1) of its own share
//   broadcast        1 step   (n - 1) b by the root
//   all-to-all       1 step   (n - 1) / n b
#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

// The peers of a member, those behind it in the ring first: not everybody sends to member 0 first.
std::vector<int> Peers(const Problem& p) {
  std::vector<int> peers;
  for (int i = 1; i < p.size; ++i) peers.push_back((p.rank + i) % p.size);
  return peers;
}

// Receives one piece from each peer and reduces them with this member's own.
void Gather(const Problem& p, ScheduleBuilder& b, Piece own, Piece to) {
  const int64_t divisor = MeanDivisor(p);
  // In place, an all-reduce between two would have each wait with its receive for its send, and so
  // for the other's receive.
  if (p.size == 2 && !(p.in_place && p.kind == Kind::kAllReduce)) {
    // Both sides in the order of the ranks: the least of +0 and -0 depends on it.
    const int peer = 1 - p.rank;
    b.ReceiveReduce(peer, own, to, /*received_first=*/peer < p.rank);
    b.Divide(to, divisor);
    return;
  }
  std::vector<Piece> pieces(static_cast<size_t>(p.size));
  pieces[static_cast<size_t>(p.rank)] = own;
  for (const int peer : Peers(p)) {
    pieces[static_cast<size_t>(peer)] = b.Scratch(own.count);
    b.Receive(peer, pieces[static_cast<size_t>(peer)]);
  }
  ReduceTree(b, pieces, to);
  b.Divide(to, divisor);
}

void AllReduce(const Problem& p, ScheduleBuilder& b) {
  for (const int peer : Peers(p)) b.Send(peer, Input(0, p.count));
  Gather(p, b, Input(0, p.count), Output(0, p.count));
}

void Reduce(const Problem& p, ScheduleBuilder& b) {
  if (p.rank != p.root) {
    b.Send(p.root, Input(0, p.count));
  } else {
    Gather(p, b, Input(0, p.count), Output(0, p.count));
  }
}

void ReduceScatter(const Problem& p, ScheduleBuilder& b) {
  for (const int peer : Peers(p)) {
    b.Send(peer, Input(p.Begin(peer), p.counts[static_cast<size_t>(peer)]));
  }
  const int64_t count = p.counts[static_cast<size_t>(p.rank)];
  Gather(p, b, Input(p.Begin(p.rank), count), Output(0, count));
}

void AllGather(const Problem& p, ScheduleBuilder& b) {
  const int64_t count = p.counts[static_cast<size_t>(p.rank)];
  for (const int peer : Peers(p)) b.Send(peer, Input(0, count));
  b.Copy(Input(0, count), Output(p.Begin(p.rank), count));
  for (const int peer : Peers(p)) {
    b.Receive(peer, Output(p.Begin(peer), p.counts[static_cast<size_t>(peer)]));
  }
}

void Broadcast(const Problem& p, ScheduleBuilder& b) {
  if (p.rank != p.root) {
    b.Receive(p.root, Output(0, p.count));
    return;
  }
  for (const int peer : Peers(p)) b.Send(peer, Input(0, p.count));
  b.Copy(Input(0, p.count), Output(0, p.count));
}

void AllToAll(const Problem& p, ScheduleBuilder& b) {
  const auto count = [&](int from, int to) {
    return p.counts[static_cast<size_t>(from * p.size + to)];
  };
  // Where in the input what goes to a member begins, and where in the output what comes from it.
  std::vector<int64_t> in(1, 0);
  std::vector<int64_t> out(1, 0);
  for (int i = 0; i < p.size; ++i) {
    in.push_back(in.back() + count(p.rank, i));
    out.push_back(out.back() + count(i, p.rank));
  }
  for (const int peer : Peers(p)) {
    b.Send(peer, Input(in[static_cast<size_t>(peer)], count(p.rank, peer)));
  }
  const size_t own = static_cast<size_t>(p.rank);
  b.Copy(Input(in[own], count(p.rank, p.rank)), Output(out[own], count(p.rank, p.rank)));
  for (const int peer : Peers(p)) {
    b.Receive(peer, Output(out[static_cast<size_t>(peer)], count(peer, p.rank)));
  }
}

bool Solves(const Problem& p) { return p.kind != Kind::kBarrier && p.replicas.empty(); }

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
      return AllToAll(p, b);
    case Kind::kBarrier:
      return;
  }
}

const AlgorithmRegistration registration({"one_shot", "1 step, (n-1) b bytes", Solves, Build});

}  // namespace
}  // namespace tandem::collective
