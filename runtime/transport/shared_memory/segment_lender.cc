#include "runtime/transport/shared_memory/segment_lender.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/base/status.h"

namespace tandem {

using shared_memory::Kind;
using shared_memory::Message;

namespace {

// So that values of about one size use each other's segments, at no more than an eighth of memory
// that is not used.
size_t RoundedUp(size_t bytes) {
  constexpr size_t kPage = 4096;
  const size_t step = std::max(kPage, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SegmentLender>> SegmentLender::Create(
    OwnedFd socket, const shared_memory::Secret& connection, size_t most_idle_bytes) {
  TANDEM_ASSIGN_OR_RETURN(MemfdSegment memory,
                          MemfdSegment::Create("tandem-loans", LoanBoard::kBytes));
  Message message;
  message.kind = Kind::kBoard;
  message.bytes = memory.size();
  message.secret = connection;
  const int fds[] = {memory.fd().get()};
  TANDEM_RETURN_IF_ERROR(SendWithFds(socket, Bytes(message), fds));
  memory.fd().Reset();
  return std::shared_ptr<SegmentLender>(new SegmentLender(
      std::move(socket), connection, LoanBoard(std::move(memory)), most_idle_bytes));
}

absl::optional<uint64_t> SegmentLender::Lend(const Ticket& ticket, absl::Span<const char> bytes) {
  if (ticket.row >= LoanBoard::kRows || bytes.empty()) return absl::nullopt;
  absl::optional<Segment> segment = TakeIdle(bytes.size());
  if (!segment.has_value()) segment = Make(bytes.size());
  if (!segment.has_value()) return absl::nullopt;
  std::memcpy(segment->memory.data(), bytes.data(), bytes.size());
  segment->was_used = true;
  const uint64_t number = segment->number;
  MutexLock lock(mu_);
  if (closed_) return absl::nullopt;
  if (!board_.Lend(ticket)) {
    KeepLocked(*std::move(segment));
    return absl::nullopt;
  }
  lent_.push_back({ticket, *std::move(segment)});
  return number;
}

absl::optional<SegmentLender::Segment> SegmentLender::TakeIdle(size_t bytes) {
  std::vector<Segment> surplus;
  MutexLock lock(mu_);
  if (closed_) return absl::nullopt;
  CollectLocked();
  absl::optional<Segment> found;
  const auto fits = idle_.lower_bound(bytes);
  // A much larger one is better kept for a larger value.
  if (fits != idle_.end() && fits->first / 2 <= bytes) {
    found = std::move(fits->second);
    idle_bytes_ -= fits->first;
    idle_.erase(fits);
  }
  TakeSurplusLocked(&surplus);
  return found;
}

absl::optional<SegmentLender::Segment> SegmentLender::Make(size_t bytes) {
  absl::StatusOr<MemfdSegment> memory = MemfdSegment::Create("tandem-value", RoundedUp(bytes));
  if (!memory.ok()) return absl::nullopt;
  Segment segment;
  {
    MutexLock lock(mu_);
    if (closed_) return absl::nullopt;
    segment.number = next_number_++;
  }
  segment.memory = *std::move(memory);
  Message message;
  message.kind = Kind::kSegment;
  message.segment = segment.number;
  message.bytes = segment.memory.size();
  const int fds[] = {segment.memory.fd().get()};
  const absl::Status sent = SendWithFds(socket_, Bytes(message), fds);
  if (absl::IsUnavailable(sent)) Close();
  if (!sent.ok()) return absl::nullopt;
  segment.memory.fd().Reset();
  return segment;
}

void SegmentLender::CollectLocked() {
  for (size_t i = 0; i < lent_.size();) {
    if (board_.IsLent(lent_[i].ticket)) {
      ++i;
      continue;
    }
    KeepLocked(std::move(lent_[i].segment));
    lent_[i] = std::move(lent_.back());
    lent_.pop_back();
  }
}

void SegmentLender::KeepLocked(Segment segment) {
  const size_t bytes = segment.memory.size();
  idle_bytes_ += bytes;
  idle_.emplace(bytes, std::move(segment));
}

void SegmentLender::TakeSurplusLocked(std::vector<Segment>* surplus) {
  // The largest first: the fewest have to go.
  while (idle_bytes_ > most_idle_bytes_ && !idle_.empty()) {
    const auto largest = std::prev(idle_.end());
    if (ForgetLocked(largest, surplus) == largest) return;
  }
}

// Returns what follows it, or itself when it has to stay, since the borrower cannot be told.
SegmentLender::Idle::iterator SegmentLender::ForgetLocked(Idle::iterator segment,
                                                          std::vector<Segment>* forgotten) {
  Message message;
  message.kind = Kind::kForget;
  message.segment = segment->second.number;
  // Of a borrower that is gone, nothing has to be told.
  if (absl::IsResourceExhausted(SendWithFds(socket_, Bytes(message)))) return segment;
  idle_bytes_ -= segment->first;
  forgotten->push_back(std::move(segment->second));
  return idle_.erase(segment);
}

bool SegmentLender::Trim() {
  std::vector<Segment> forgotten;
  MutexLock lock(mu_);
  CollectLocked();
  for (auto segment = idle_.begin(); segment != idle_.end();) {
    if (segment->second.was_used) {
      segment->second.was_used = false;
      ++segment;
      continue;
    }
    const auto next = ForgetLocked(segment, &forgotten);
    segment = next == segment ? std::next(segment) : next;
  }
  return !idle_.empty() || !lent_.empty();
}

void SegmentLender::Close() {
  std::vector<Loan> lent;
  Idle idle;
  MutexLock lock(mu_);
  closed_ = true;
  lent.swap(lent_);
  idle.swap(idle_);
  idle_bytes_ = 0;
}

SegmentLender::Stats SegmentLender::stats() {
  MutexLock lock(mu_);
  CollectLocked();
  return {lent_.size(), idle_.size(), idle_bytes_};
}

}  // namespace tandem
