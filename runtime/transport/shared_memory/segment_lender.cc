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

SegmentLender::SegmentLender(OwnedFd socket, const shared_memory::Secret& connection,
                             LoanBoard board, size_t most_idle_bytes, bool offers)
    : socket_(std::move(socket)),
      connection_(connection),
      board_(std::move(board)),
      most_idle_bytes_(most_idle_bytes),
      offers_(offers) {
  if (!offers) return;
  MutexLock lock(mu_);
  free_tickets_.reserve(LoanBoard::kRows);
  for (uint32_t row = LoanBoard::kRows; row > 0; --row) free_tickets_.push_back({row - 1, 1});
}

absl::StatusOr<LoanBoard> SegmentLender::SendBoard(const OwnedFd& socket,
                                                   const shared_memory::Secret& connection) {
  TANDEM_ASSIGN_OR_RETURN(MemfdSegment memory,
                          MemfdSegment::Create("tandem-loans", LoanBoard::kBytes));
  Message message;
  message.kind = Kind::kBoard;
  message.bytes = memory.size();
  message.secret = connection;
  const int fds[] = {memory.fd().get()};
  TANDEM_RETURN_IF_ERROR(SendWithFds(socket, Bytes(message), fds));
  memory.fd().Reset();
  return LoanBoard(std::move(memory));
}

absl::StatusOr<std::shared_ptr<SegmentLender>> SegmentLender::Create(
    OwnedFd socket, const shared_memory::Secret& connection, size_t most_idle_bytes) {
  TANDEM_ASSIGN_OR_RETURN(LoanBoard board, SendBoard(socket, connection));
  return std::shared_ptr<SegmentLender>(new SegmentLender(
      std::move(socket), connection, std::move(board), most_idle_bytes, /*offers=*/false));
}

absl::StatusOr<std::shared_ptr<SegmentLender>> SegmentLender::CreateOffering(
    OwnedFd socket, const shared_memory::Secret& secret) {
  Message message;
  message.kind = Kind::kOffers;
  message.secret = secret;
  TANDEM_RETURN_IF_ERROR(SendWithFds(socket, Bytes(message)));
  const shared_memory::Secret connection = shared_memory::NewSecret();
  TANDEM_ASSIGN_OR_RETURN(LoanBoard board, SendBoard(socket, connection));
  return std::shared_ptr<SegmentLender>(new SegmentLender(
      std::move(socket), connection, std::move(board), kMostIdleBytes, /*offers=*/true));
}

absl::optional<SegmentLender::Segment> SegmentLender::Fill(absl::Span<const char> bytes) {
  absl::optional<Segment> segment = TakeIdle(bytes.size());
  if (!segment.has_value()) segment = Make(bytes.size());
  if (!segment.has_value()) return absl::nullopt;
  std::memcpy(segment->memory.data(), bytes.data(), bytes.size());
  segment->was_used = true;
  return segment;
}

absl::optional<SegmentLender::Offered> SegmentLender::Offer(absl::Span<const char> bytes) {
  if (bytes.empty() || !takes_offers()) return absl::nullopt;
  absl::optional<Segment> segment = Fill(bytes);
  if (!segment.has_value()) return absl::nullopt;
  const uint64_t number = segment->number;
  MutexLock lock(mu_);
  if (closed_) return absl::nullopt;
  if (free_tickets_.empty()) {
    KeepLocked(*std::move(segment));
    return absl::nullopt;
  }
  const Ticket ticket = free_tickets_.back();
  free_tickets_.pop_back();
  board_.Offer(ticket);
  lent_.push_back({ticket, *std::move(segment)});
  return Offered(shared_from_this(), ticket, number);
}

bool SegmentLender::takes_offers() {
  MutexLock lock(mu_);
  return is_accepted_ && !closed_;
}

absl::Status SegmentLender::Read() {
  for (;;) {
    Message message;
    absl::StatusOr<absl::optional<ReceivedMessage>> received =
        ReceiveWithFds(socket_, Room(&message));
    absl::Status status = received.status();
    if (status.ok() && !received->has_value()) return absl::OkStatus();
    if (status.ok()) {
      MutexLock lock(mu_);
      if ((*received)->bytes == sizeof(message) && message.kind == Kind::kAccepted &&
          !is_accepted_) {
        is_accepted_ = true;
        continue;
      }
      status = errors::InvalidArgument("an answer to offers of shared memory was not expected");
    }
    Close();
    return status;
  }
}

absl::optional<uint64_t> SegmentLender::Lend(const Ticket& ticket, absl::Span<const char> bytes) {
  if (ticket.row >= LoanBoard::kRows || bytes.empty()) return absl::nullopt;
  absl::optional<Segment> segment = Fill(bytes);
  if (!segment.has_value()) return absl::nullopt;
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
  if (fits != idle_.end() && fits->first / 2 <= RoundedUp(bytes)) {
    found = std::move(fits->second);
    idle_bytes_ -= fits->first;
    idle_.erase(fits);
  }
  TakeSurplusLocked(&surplus);
  return found;
}

absl::optional<uint64_t> SegmentLender::Reserve(size_t bytes) {
  MutexLock lock(mu_);
  if (closed_) return absl::nullopt;
  if (offers_ && (bytes > shared_memory::kMostOfferedBytes ||
                  made_bytes_ > shared_memory::kMostOfferedBytes - bytes ||
                  made_segments_ >= shared_memory::kMostOfferedSegments)) {
    return absl::nullopt;
  }
  made_bytes_ += bytes;
  ++made_segments_;
  return next_number_++;
}

absl::optional<SegmentLender::Segment> SegmentLender::Make(size_t bytes) {
  const size_t size = RoundedUp(bytes);
  const absl::optional<uint64_t> number = Reserve(size);
  if (!number.has_value()) return absl::nullopt;
  const auto make = [&]() -> absl::StatusOr<MemfdSegment> {
    TANDEM_ASSIGN_OR_RETURN(MemfdSegment memory, MemfdSegment::Create("tandem-value", size));
    Message message;
    message.kind = Kind::kSegment;
    message.segment = *number;
    message.bytes = size;
    const int fds[] = {memory.fd().get()};
    TANDEM_RETURN_IF_ERROR(SendWithFds(socket_, Bytes(message), fds));
    memory.fd().Reset();
    return memory;
  };
  absl::StatusOr<MemfdSegment> memory = make();
  if (memory.ok()) {
    Segment segment;
    segment.number = *number;
    segment.memory = *std::move(memory);
    return segment;
  }
  if (absl::IsUnavailable(memory.status())) Close();
  MutexLock lock(mu_);
  made_bytes_ -= size;
  --made_segments_;
  return absl::nullopt;
}

void SegmentLender::CollectLocked() {
  for (size_t i = 0; i < lent_.size();) {
    const Ticket& ticket = lent_[i].ticket;
    if (board_.IsOut(ticket)) {
      ++i;
      continue;
    }
    if (offers_) free_tickets_.push_back({ticket.row, ticket.number + 1});
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
  made_bytes_ -= segment->first;
  --made_segments_;
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
