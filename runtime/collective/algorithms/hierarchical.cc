// hierarchical: an all-reduce first inside each host, then between hosts, then inside again, so
// that a value crosses the slow network once for each host and not once for each member.
//
// The values are cut into as many parts as the host with the fewest members has. On each host the
// member of local number i adds up part i of its host; the members of number i on all hosts reduce
// part i along a ring; each hands it to its host.
//
//   l members on each of h hosts: 2 + 2 (h - 1) steps; (l - 1) / l b bytes inside the host, twice,
//   and 2 (h - 1) / h b / l between hosts, sent by each
#include <map>

#include "runtime/collective/algorithm.h"
#include "runtime/collective/algorithms/patterns.h"

namespace tandem::collective {
namespace {

// The members of each host, by ascending rank; hosts by their first member.
std::vector<std::vector<int>> MembersByHost(const Problem& p) {
  std::vector<std::vector<int>> hosts;
  std::map<int, size_t> index;
  for (int rank = 0; rank < p.size; ++rank) {
    const int host = p.hosts[static_cast<size_t>(rank)];
    const auto [found, is_new] = index.emplace(host, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[found->second].push_back(rank);
  }
  return hosts;
}

void Build(const Problem& p, ScheduleBuilder& b) {
  const std::vector<std::vector<int>> hosts = MembersByHost(p);
  size_t parts = hosts[0].size();
  size_t my_host = 0;
  size_t my_number = 0;
  for (size_t h = 0; h < hosts.size(); ++h) {
    parts = std::min(parts, hosts[h].size());
    for (size_t i = 0; i < hosts[h].size(); ++i) {
      if (hosts[h][i] != p.rank) continue;
      my_host = h;
      my_number = i;
    }
  }
  const std::vector<int>& locals = hosts[my_host];
  const auto part = [&](const Piece& buffer, size_t i) {
    const Range range = Split(p.count, static_cast<int64_t>(parts), static_cast<int64_t>(i));
    return buffer.Part(range.begin, range.count);
  };
  const Piece in = Input(0, p.count);
  const Piece out = Output(0, p.count);

  for (size_t i = 0; i < parts; ++i) {
    if (i != my_number) b.Send(locals[i], part(in, i));
  }
  if (my_number < parts) {
    const Piece own = part(in, my_number);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < locals.size(); ++i) {
      pieces.push_back(i == my_number ? own : b.Scratch(own.count));
      if (i != my_number) b.Receive(locals[i], pieces.back());
    }
    const Piece sum = b.Scratch(own.count);
    ReduceTree(b, pieces, sum);
    std::vector<int> across;
    for (const std::vector<int>& host : hosts) across.push_back(host[my_number]);
    const Piece result = part(out, my_number);
    RingAllReduce(b, across, static_cast<int>(my_host), sum, result, p.piece, MeanDivisor(p));
    for (size_t i = 0; i < locals.size(); ++i) {
      if (i != my_number) b.Send(locals[i], result);
    }
  }
  for (size_t i = 0; i < parts; ++i) {
    if (i != my_number) b.Receive(locals[i], part(out, i));
  }
}

bool Solves(const Problem& p) {
  return p.kind == Kind::kAllReduce && p.replicas.empty() &&
         p.hosts.size() == static_cast<size_t>(p.size);
}

const AlgorithmRegistration registration(
    {"hierarchical", "2h steps, 2(l-1)/l b bytes in the host and 2(h-1)/(h l) b between hosts",
     Solves, Build});

}  // namespace
}  // namespace tandem::collective
