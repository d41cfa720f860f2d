// fixed_tree: the all-reduce of deterministic mode. Its bits depend on the number V of virtual
// replicas only, and not on how many members share them.
//
// The values of the virtual replicas are added along one binary tree over 0 … V-1 (a node over
// [first, last) has the children [first, first + p) and [first + p, last), p the greatest power of
// two below its width). A member holds a contiguous range of them. It adds the subtrees that lie
// wholly in its range, and sends these partial sums; the values are cut into n segments, and member
// s adds up segment s of the rest of the tree and hands it to all.
//
//   2 steps; k (n - 1) / n b bytes of partial sums, k <= 2 log2 V of them, and (n - 1) / n b of
//   results, sent by each
#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

struct Node {
  int first = 0;
  int last = 0;

  int Middle() const {
    int half = 1;
    while (half * 2 < last - first) half *= 2;
    return first + half;
  }
};

// The largest subtrees of `node` that lie in [first, last).
void Subtrees(Node node, int first, int last, std::vector<Node>& found) {
  if (node.last <= first || last <= node.first) return;
  if (first <= node.first && node.last <= last) {
    found.push_back(node);
    return;
  }
  Subtrees({node.first, node.Middle()}, first, last, found);
  Subtrees({node.Middle(), node.last}, first, last, found);
}

std::vector<Node> SubtreesOf(const Problem& p, int rank) {
  std::vector<Node> found;
  Subtrees({0, p.replicas.back()}, p.replicas[static_cast<size_t>(rank)],
           p.replicas[static_cast<size_t>(rank) + 1], found);
  return found;
}

// One segment of the sum of a node, of `parts`: the sums of the subtrees of all members, by first
// virtual replica.
struct Part {
  Node node;
  Piece piece;
};

Piece SumOf(ScheduleBuilder& b, Node node, const std::vector<Part>& parts, const Piece* to) {
  for (const Part& part : parts) {
    if (part.node.first == node.first && part.node.last == node.last) return part.piece;
  }
  const Piece left = SumOf(b, {node.first, node.Middle()}, parts, nullptr);
  const Piece right = SumOf(b, {node.Middle(), node.last}, parts, nullptr);
  const Piece sum = to != nullptr ? *to : b.Scratch(left.count);
  b.Reduce(left, right, sum);
  return sum;
}

void Build(const Problem& p, ScheduleBuilder& b) {
  // The member's own subtrees: leaves first, all elements.
  const int my_first = p.replicas[static_cast<size_t>(p.rank)];
  std::vector<Part> leaves;
  for (int v = my_first; v < p.replicas[static_cast<size_t>(p.rank) + 1]; ++v) {
    leaves.push_back({{v, v + 1}, Input((v - my_first) * p.count, p.count)});
  }
  std::vector<Part> own;
  for (const Node& node : SubtreesOf(p, p.rank)) {
    own.push_back({node, SumOf(b, node, leaves, nullptr)});
  }
  const auto segment = [&](const Piece& piece, int rank) {
    const Range range = Split(p.count, p.size, rank);
    return piece.Part(range.begin, range.count);
  };
  for (int i = 1; i < p.size; ++i) {
    const int peer = (p.rank + i) % p.size;
    for (const Part& part : own) b.Send(peer, segment(part.piece, peer));
  }
  std::vector<Part> parts;
  for (int rank = 0; rank < p.size; ++rank) {
    if (rank == p.rank) {
      for (const Part& part : own) parts.push_back({part.node, segment(part.piece, rank)});
      continue;
    }
    for (const Node& node : SubtreesOf(p, rank)) {
      const Piece piece = b.Scratch(Split(p.count, p.size, p.rank).count);
      b.Receive(rank, piece);
      parts.push_back({node, piece});
    }
  }
  const Piece result = segment(Output(0, p.count), p.rank);
  const Piece sum = SumOf(b, {0, p.replicas.back()}, parts, &result);
  b.Copy(sum, result);  // Where one member has everything.
  b.Divide(result, MeanDivisor(p));
  for (int i = 1; i < p.size; ++i) b.Send((p.rank + i) % p.size, result);
  for (int i = 1; i < p.size; ++i) {
    const int peer = (p.rank + i) % p.size;
    b.Receive(peer, segment(Output(0, p.count), peer));
  }
}

bool Solves(const Problem& p) {
  return p.kind == Kind::kAllReduce && !p.in_place &&
         p.replicas.size() == static_cast<size_t>(p.size) + 1;
}

const AlgorithmRegistration registration({"fixed_tree",
                                          "2 steps, (k+1)(n-1)/n b bytes for k partial sums",
                                          Solves, Build});

}  // namespace
}  // namespace tandem::collective
