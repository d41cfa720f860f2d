#include "runtime/collective/schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem::collective {
namespace {

bool Overlap(const Piece& a, const Piece& b) {
  return a.place == b.place && a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

// What a step reads besides what it receives, and what it writes.
struct Access {
  Piece reads[2];
  Piece write;
};

Access AccessOf(const Step& step) {
  Access access;
  switch (step.kind) {
    case Step::Kind::kSend:
      access.reads[0] = step.a;
      break;
    case Step::Kind::kReceive:
      access.write = step.to;
      break;
    case Step::Kind::kReceiveReduce:
    case Step::Kind::kCopy:
      access.reads[0] = step.a;
      access.write = step.to;
      break;
    case Step::Kind::kReduce:
      access.reads[0] = step.a;
      access.reads[1] = step.b;
      access.write = step.to;
      break;
    case Step::Kind::kDivide:
      access.write = step.to;
      break;
  }
  return access;
}

bool Conflict(const Access& earlier, const Access& later) {
  if (Overlap(earlier.write, later.write)) return true;
  for (const Piece& read : later.reads) {
    if (Overlap(earlier.write, read)) return true;
  }
  for (const Piece& read : earlier.reads) {
    if (Overlap(read, later.write)) return true;
  }
  return false;
}

}  // namespace

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kAllGather:
      return "all-gather";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllToAll:
      return "all-to-all";
    case Kind::kBarrier:
      return "barrier";
  }
  return "unknown operation";
}

const char* ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMean:
      return "mean";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kProduct:
      return "product";
  }
  return "unknown reduction";
}

int64_t Problem::Begin(int rank) const {
  int64_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += counts[static_cast<size_t>(i)];
  return begin;
}

std::string DescribeStep(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSend:
      return absl::StrCat("sending ", step.a.count, " values to member ", step.peer);
    case Step::Kind::kReceive:
    case Step::Kind::kReceiveReduce:
      return absl::StrCat("receiving ", step.to.count, " values from member ", step.peer);
    case Step::Kind::kCopy:
      return absl::StrCat("copying ", step.to.count, " values");
    case Step::Kind::kReduce:
      return absl::StrCat("reducing ", step.to.count, " values");
    case Step::Kind::kDivide:
      return absl::StrCat("dividing ", step.to.count, " values");
  }
  return "an unknown step";
}

Piece ScheduleBuilder::Resolve(Piece piece) const {
  if (in_place_ && piece.place == Place::kInput) piece.place = Place::kOutput;
  return piece;
}

Piece ScheduleBuilder::Scratch(int64_t count) {
  // Each piece begins on a cache line, whatever the type.
  constexpr int64_t kAlignment = 64;
  const Piece piece{Place::kScratch, schedule_.scratch, count};
  schedule_.scratch += (count + kAlignment - 1) / kAlignment * kAlignment;
  return piece;
}

void ScheduleBuilder::Add(Step step, bool is_signal) {
  step.a = Resolve(step.a);
  step.b = Resolve(step.b);
  step.to = Resolve(step.to);
  if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kReceive ||
      step.kind == Step::Kind::kReceiveReduce) {
    std::vector<uint32_t>& counts = step.kind == Step::Kind::kSend ? sent_ : received_;
    if (counts.size() <= static_cast<size_t>(step.peer)) {
      counts.resize(static_cast<size_t>(step.peer) + 1);
    }
    step.part = counts[static_cast<size_t>(step.peer)]++;
  }
  const int index = static_cast<int>(schedule_.steps.size());
  const Access access = AccessOf(step);
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    Step& earlier = schedule_.steps[i];
    if (!is_signal && !is_signal_[i] && !Conflict(AccessOf(earlier), access)) continue;
    earlier.next.push_back(index);
    ++step.waits_for;
  }
  schedule_.steps.push_back(std::move(step));
  is_signal_.push_back(is_signal);
}

void ScheduleBuilder::Send(int peer, Piece what) {
  if (what.count == 0) return;
  Step step;
  step.kind = Step::Kind::kSend;
  step.peer = peer;
  step.a = what;
  Add(std::move(step), false);
}

void ScheduleBuilder::Receive(int peer, Piece to) {
  if (to.count == 0) return;
  Step step;
  step.kind = Step::Kind::kReceive;
  step.peer = peer;
  step.to = to;
  Add(std::move(step), false);
}

void ScheduleBuilder::ReceiveReduce(int peer, Piece own, Piece to, bool received_first) {
  if (to.count == 0) return;
  Step step;
  step.kind = Step::Kind::kReceiveReduce;
  step.peer = peer;
  step.a = own;
  step.to = to;
  step.received_first = received_first;
  Add(std::move(step), false);
}

void ScheduleBuilder::Copy(Piece from, Piece to) {
  const Piece source = Resolve(from);
  const Piece target = Resolve(to);
  if (to.count == 0 || (source.place == target.place && source.begin == target.begin)) return;
  Step step;
  step.kind = Step::Kind::kCopy;
  step.a = from;
  step.to = to;
  Add(std::move(step), false);
}

void ScheduleBuilder::Reduce(Piece a, Piece b, Piece to) {
  if (to.count == 0) return;
  Step step;
  step.kind = Step::Kind::kReduce;
  step.a = a;
  step.b = b;
  step.to = to;
  Add(std::move(step), false);
}

void ScheduleBuilder::Divide(Piece what, int64_t divisor) {
  if (what.count == 0 || divisor == 1) return;
  Step step;
  step.kind = Step::Kind::kDivide;
  step.to = what;
  step.divisor = divisor;
  Add(std::move(step), false);
}

void ScheduleBuilder::SendSignal(int peer) {
  Step step;
  step.kind = Step::Kind::kSend;
  step.peer = peer;
  Add(std::move(step), true);
}

void ScheduleBuilder::ReceiveSignal(int peer) {
  Step step;
  step.kind = Step::Kind::kReceive;
  step.peer = peer;
  Add(std::move(step), true);
}

Schedule ScheduleBuilder::Build() && { return std::move(schedule_); }

Range Split(int64_t count, int64_t parts, int64_t index) {
  // Sixteen elements are a cache line of the commonest type.
  const int64_t unit = count >= parts * 16 ? 16 : 1;
  const int64_t units = (count + unit - 1) / unit;
  const auto begin = [&](int64_t i) { return std::min(count, units * i / parts * unit); };
  return {begin(index), begin(index + 1) - begin(index)};
}

}  // namespace tandem::collective
