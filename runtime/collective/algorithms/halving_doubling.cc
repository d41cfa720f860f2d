// halving_doubling: an all-reduce in which partners at doubling distances exchange halves of what
// they still have, until each holds the sum of one part, and then the same way back. As few bytes
// as the ring, in a number of steps that grows with the logarithm.
//
//   2 log2 n steps, 2 (n - 1) / n b bytes sent by each, for n a power of two
//
// Otherwise the first 2 (n - p) members, p the greatest power of two below n, pair up first: one of
// each pair hands its values to the other and gets the result at the end: 2 more steps, b more
// bytes.
//
// After Rabenseifner, "Optimization of Collective Reduction Operations" (2004).
#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

void Build(const Problem& p, ScheduleBuilder& b) {
  int power = 1;
  while (power * 2 <= p.size) power *= 2;
  const int pairs = p.size - power;
  const Piece in = Input(0, p.count);
  const Piece out = Output(0, p.count);
  const auto send = [&](int peer, const Piece& piece) {
    ForPieces(piece.count, p.piece,
              [&](int64_t offset, int64_t n) { b.Send(peer, piece.Part(offset, n)); });
  };

  if (p.rank < 2 * pairs && p.rank % 2 == 0) {
    send(p.rank + 1, in);
    ForPieces(p.count, p.piece,
              [&](int64_t offset, int64_t n) { b.Receive(p.rank + 1, out.Part(offset, n)); });
    return;
  }
  // What this member has so far.
  Piece have = in;
  if (p.rank < 2 * pairs) {
    ForPieces(p.count, p.piece, [&](int64_t offset, int64_t n) {
      b.ReceiveReduce(p.rank - 1, in.Part(offset, n), out.Part(offset, n),
                      /*received_first=*/true);
    });
    have = out;
  }
  // Ranks among those that are left, in the same order, and back.
  const int me = p.rank < 2 * pairs ? p.rank / 2 : p.rank - pairs;
  const auto rank_of = [&](int virtual_rank) {
    return virtual_rank < pairs ? 2 * virtual_rank + 1 : virtual_rank + pairs;
  };

  // The range that this member still sums, in parts of the whole cut into `power`.
  const auto piece_of = [&](const Piece& buffer, int first, int last) {
    const int64_t begin = Split(p.count, power, first).begin;
    const Range end = Split(p.count, power, last - 1);
    return buffer.Part(begin, end.begin + end.count - begin);
  };
  int first = 0;
  int last = power;
  for (int distance = power / 2; distance >= 1; distance /= 2) {
    const int partner = rank_of(me ^ distance);
    const int middle = (first + last) / 2;
    const bool keeps_lower = (me & distance) == 0;
    send(partner, keeps_lower ? piece_of(have, middle, last) : piece_of(have, first, middle));
    (keeps_lower ? last : first) = middle;
    const Piece own = piece_of(have, first, last);
    const Piece sum = piece_of(out, first, last);
    ForPieces(sum.count, p.piece, [&](int64_t offset, int64_t n) {
      // In the order of the ranks.
      b.ReceiveReduce(partner, own.Part(offset, n), sum.Part(offset, n),
                      /*received_first=*/!keeps_lower);
    });
    have = out;
  }
  b.Divide(piece_of(out, first, last), MeanDivisor(p));
  for (int distance = 1; distance < power; distance *= 2) {
    const int partner = rank_of(me ^ distance);
    const bool keeps_lower = (me & distance) == 0;
    send(partner, piece_of(out, first, last));
    const int width = last - first;
    const Piece missing =
        keeps_lower ? piece_of(out, last, last + width) : piece_of(out, first - width, first);
    ForPieces(missing.count, p.piece,
              [&](int64_t offset, int64_t n) { b.Receive(partner, missing.Part(offset, n)); });
    if (keeps_lower) {
      last += width;
    } else {
      first -= width;
    }
  }
  if (p.rank < 2 * pairs) send(p.rank - 1, out);
}

bool Solves(const Problem& p) { return p.kind == Kind::kAllReduce && p.replicas.empty(); }

const AlgorithmRegistration registration({"halving_doubling", "2 log2(n) steps, 2(n-1)/n b bytes",
                                          Solves, Build});

}  // namespace
}  // namespace tandem::collective
