// Schedule: what one member does in a collective operation, as a list of steps over pieces of three
// buffers. An algorithm (algorithm.h) writes it like a straight program: send this, receive that,
// add it here. The builder finds which steps have to wait for which, from what they read and write;
// all others run at the same time, so that pieces of a large message follow each other through the
// members like cars of a train.
//
// A schedule is plain data: it depends on rank and sizes only, is kept and used again for the next
// operation of the same form, and is tested without any transport (schedule_test.cc).
#ifndef TANDEM_RUNTIME_COLLECTIVE_SCHEDULE_H_
#define TANDEM_RUNTIME_COLLECTIVE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/kernel/collective.h"

namespace tandem::collective {

enum class Kind : uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
};
// "all-reduce", …
const char* KindName(Kind kind);
// "sum", …
const char* ReductionName(Reduction reduction);

// What an algorithm has to solve. Counts are elements.
struct Problem {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int rank = 0;
  int size = 1;
  // Where input and output are the same memory (kAllReduce, kReduce, kBroadcast).
  bool in_place = false;
  int root = 0;  // kReduce, kBroadcast.
  // kAllReduce, kReduce, kBroadcast: elements of the input and of the output.
  int64_t count = 0;
  // kReduceScatter: what each member gets; the input has all of them, by rank. kAllGather: what
  // each member brings; the output has all. kAllToAll: size*size, row r what member r sends to
  // each.
  std::vector<int64_t> counts;
  // Members with equal numbers share a host.
  std::vector<int> hosts;
  // Large pieces are cut into ones of about this many elements, which follow each other.
  int64_t piece = 1 << 16;
  // The fixed tree only: member r holds the virtual replicas [replicas[r], replicas[r + 1]), and
  // its input `count` elements for each of them.
  std::vector<int> replicas;

  // The divisor of a mean.
  int64_t divisor() const { return replicas.empty() ? size : replicas.back(); }
  // counts[0] + … + counts[rank - 1].
  int64_t Begin(int rank) const;
};

enum class Place : uint8_t { kInput, kOutput, kScratch };

// Elements [begin, begin + count) of a buffer.
struct Piece {
  Place place = Place::kInput;
  int64_t begin = 0;
  int64_t count = 0;

  // Elements [offset, offset + n) of this piece.
  Piece Part(int64_t offset, int64_t n) const { return {place, begin + offset, n}; }
};
inline Piece Input(int64_t begin, int64_t count) { return {Place::kInput, begin, count}; }
inline Piece Output(int64_t begin, int64_t count) { return {Place::kOutput, begin, count}; }

struct Step {
  enum class Kind : uint8_t {
    kSend,           // a, to `peer`.
    kReceive,        // to, from `peer`.
    kReceiveReduce,  // to = what `peer` sends op a, or the other way round.
    kCopy,           // to = a.
    kReduce,         // to = a op b.
    kDivide,         // to /= divisor.
  };
  Kind kind = Kind::kSend;
  bool received_first = false;  // kReceiveReduce: the order of the two operands.
  int peer = -1;
  uint32_t part = 0;  // Numbers the messages from one member to another.
  Piece a;
  Piece b;
  Piece to;
  int64_t divisor = 1;

  int waits_for = 0;      // Steps that must end before this one begins.
  std::vector<int> next;  // Steps that wait for this one.
};

struct Schedule {
  std::vector<Step> steps;
  int64_t scratch = 0;  // Elements.
};

// "receiving 1024 values from member 2": for messages and tests.
std::string DescribeStep(const Step& step);

class ScheduleBuilder {
 public:
  // `in_place`: input and output are the same memory.
  explicit ScheduleBuilder(bool in_place) : in_place_(in_place) {}

  // Pieces without elements make no step; both ends of a message know its size.
  void Send(int peer, Piece what);
  void Receive(int peer, Piece to);
  // to = received op own (received_first), or own op received. `to` is `own` or does not overlap
  // it.
  void ReceiveReduce(int peer, Piece own, Piece to, bool received_first);
  void Copy(Piece from, Piece to);
  // `to` is `a` or `b` or overlaps neither.
  void Reduce(Piece a, Piece b, Piece to);
  void Divide(Piece what, int64_t divisor);
  // Messages without elements: sent after, and waited for before, everything else of the schedule.
  void SendSignal(int peer);
  void ReceiveSignal(int peer);

  Piece Scratch(int64_t count);

  Schedule Build() &&;

 private:
  Piece Resolve(Piece piece) const;
  void Add(Step step, bool is_signal);

  const bool in_place_;
  Schedule schedule_;
  std::vector<bool> is_signal_;
  std::vector<uint32_t> sent_;  // Messages so far, by peer.
  std::vector<uint32_t> received_;
};

// The part `index` of `count` elements cut evenly into `parts`, on cache lines where there are
// enough elements.
struct Range {
  int64_t begin = 0;
  int64_t count = 0;
};
Range Split(int64_t count, int64_t parts, int64_t index);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_SCHEDULE_H_
