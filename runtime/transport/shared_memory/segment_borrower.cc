#include "runtime/transport/shared_memory/segment_borrower.h"

#include <sys/socket.h>

#include <utility>

#include "core/base/status.h"

namespace tandem {

using shared_memory::Kind;
using shared_memory::Message;

namespace {

class LentBuffer final : public Buffer {
 public:
  LentBuffer(std::shared_ptr<MemfdSegment> segment, size_t bytes, SegmentBorrower::Request request)
      : Buffer(segment->data(), bytes),
        segment_(std::move(segment)),
        request_(std::move(request)) {}

 private:
  // Given back before the mapping goes, in this order.
  const std::shared_ptr<MemfdSegment> segment_;
  const SegmentBorrower::Request request_;
};

}  // namespace

SegmentBorrower::Request::~Request() {
  if (borrower_ != nullptr) borrower_->GiveBack(ticket_, held_);
}

const shared_memory::Secret& SegmentBorrower::Request::connection() const {
  return borrower_->connection_;
}

absl::StatusOr<RefPtr<Buffer>> SegmentBorrower::Request::Take(uint64_t segment, size_t bytes) && {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<MemfdSegment> memory, borrower_->Hold(segment, bytes));
  held_ = memory->size();
  return RefPtr<Buffer>(MakeRef<LentBuffer>(std::move(memory), bytes, std::move(*this)));
}

absl::StatusOr<std::shared_ptr<MemfdSegment>> SegmentBorrower::Hold(uint64_t segment,
                                                                    size_t bytes) {
  MutexLock lock(mu_);
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<MemfdSegment> memory, FindLocked(segment, bytes));
  held_bytes_ += memory->size();
  return memory;
}

absl::StatusOr<std::shared_ptr<SegmentBorrower>> SegmentBorrower::Create(
    OwnedFd socket, const shared_memory::Secret& secret, size_t most_held_bytes) {
  Message message;
  message.kind = Kind::kHello;
  message.secret = secret;
  TANDEM_RETURN_IF_ERROR(SendWithFds(socket, Bytes(message)));
  return std::shared_ptr<SegmentBorrower>(
      new SegmentBorrower(std::move(socket), most_held_bytes, /*takes_offers=*/false));
}

std::shared_ptr<SegmentBorrower> SegmentBorrower::Accept(OwnedFd socket) {
  return std::shared_ptr<SegmentBorrower>(new SegmentBorrower(
      std::move(socket), std::numeric_limits<size_t>::max(), /*takes_offers=*/true));
}

absl::optional<SegmentBorrower::Request> SegmentBorrower::NewRequest() {
  MutexLock lock(mu_);
  if (!status_.ok() || free_.empty() || held_bytes_ > most_held_bytes_) return absl::nullopt;
  const Ticket ticket = free_.back();
  free_.pop_back();
  board_.Ask(ticket);
  return Request(shared_from_this(), ticket);
}

absl::StatusOr<RefPtr<Buffer>> SegmentBorrower::Take(const Ticket& ticket, uint64_t segment,
                                                     size_t bytes) {
  std::shared_ptr<MemfdSegment> memory;
  {
    MutexLock lock(mu_);
    TANDEM_ASSIGN_OR_RETURN(memory, FindLocked(segment, bytes));
    if (ticket.row >= LoanBoard::kRows || !board_.Take(ticket)) {
      return errors::NotFound("what was offered in shared memory is not there any more");
    }
    held_bytes_ += memory->size();
  }
  Request taken(shared_from_this(), ticket);
  taken.held_ = memory->size();
  return RefPtr<Buffer>(MakeRef<LentBuffer>(std::move(memory), bytes, std::move(taken)));
}

absl::optional<shared_memory::Secret> SegmentBorrower::offering() {
  MutexLock lock(mu_);
  if (!takes_offers_ || !board_.is_valid()) return absl::nullopt;
  return connection_;
}

void SegmentBorrower::GiveBack(const Ticket& ticket, size_t held) {
  MutexLock lock(mu_);
  held_bytes_ -= held;
  board_.GiveBack(ticket);
  if (!takes_offers_) free_.push_back({ticket.row, ticket.number + 1});
}

void SegmentBorrower::Close() {
  MutexLock lock(mu_);
  if (status_.ok()) FailLocked(errors::Cancelled("the connection was closed")).IgnoreError();
}

bool SegmentBorrower::is_open() {
  MutexLock lock(mu_);
  return status_.ok();
}

absl::Status SegmentBorrower::Read() {
  MutexLock lock(mu_);
  return ReadLocked();
}

absl::Status SegmentBorrower::ReadLocked() {
  TANDEM_RETURN_IF_ERROR(status_);
  for (;;) {
    Message message;
    absl::StatusOr<absl::optional<ReceivedMessage>> received =
        ReceiveWithFds(socket_, Room(&message));
    if (!received.ok()) return FailLocked(received.status());
    if (!received->has_value()) return absl::OkStatus();
    ReceivedMessage& got = **received;
    if (got.bytes != sizeof(message)) {
      return FailLocked(errors::InvalidArgument("a message about shared memory has ", got.bytes,
                                                " bytes; expected ", sizeof(message)));
    }
    const absl::Status heard = HeardLocked(message, std::move(got.fds));
    if (!heard.ok()) return FailLocked(heard);
  }
}

absl::Status SegmentBorrower::HeardLocked(const Message& message, std::vector<OwnedFd> fds) {
  switch (message.kind) {
    case Kind::kBoard: {
      if (board_.is_valid() || fds.size() != 1 || message.bytes != LoanBoard::kBytes) break;
      TANDEM_ASSIGN_OR_RETURN(MemfdSegment memory,
                              MemfdSegment::Open(std::move(fds[0]), LoanBoard::kBytes));
      memory.fd().Reset();
      if (takes_offers_) {
        Message answer;
        answer.kind = Kind::kAccepted;
        TANDEM_RETURN_IF_ERROR(SendWithFds(socket_, Bytes(answer)));
      }
      board_ = LoanBoard(std::move(memory));
      connection_ = message.secret;
      if (takes_offers_) return absl::OkStatus();
      free_.reserve(LoanBoard::kRows);
      for (uint32_t row = LoanBoard::kRows; row > 0; --row) free_.push_back({row - 1, 1});
      return absl::OkStatus();
    }
    case Kind::kSegment: {
      if (!board_.is_valid() || fds.size() != 1 || segments_.count(message.segment) > 0) break;
      if (takes_offers_ && (message.bytes > shared_memory::kMostOfferedBytes ||
                            mapped_bytes_ > shared_memory::kMostOfferedBytes - message.bytes ||
                            segments_.size() >= shared_memory::kMostOfferedSegments)) {
        return errors::ResourceExhausted(
            "more shared memory is offered than may be: ", segments_.size(), " segments of ",
            mapped_bytes_, " bytes, and one of ", message.bytes);
      }
      TANDEM_ASSIGN_OR_RETURN(MemfdSegment memory,
                              MemfdSegment::Open(std::move(fds[0]), message.bytes));
      memory.fd().Reset();
      mapped_bytes_ += memory.size();
      segments_.emplace(message.segment, std::make_shared<MemfdSegment>(std::move(memory)));
      return absl::OkStatus();
    }
    case Kind::kForget: {
      const auto found = segments_.find(message.segment);
      if (found == segments_.end()) return absl::OkStatus();
      mapped_bytes_ -= found->second->size();
      segments_.erase(found);
      return absl::OkStatus();
    }
    case Kind::kHello:
    case Kind::kOffers:
    case Kind::kAccepted:
      break;
  }
  return errors::InvalidArgument("a message about shared memory of kind ",
                                 static_cast<uint32_t>(message.kind), " with ", fds.size(),
                                 " descriptors was not expected");
}

absl::Status SegmentBorrower::FailLocked(absl::Status status) {
  status_ = std::move(status);
  segments_.clear();
  mapped_bytes_ = 0;
  // The lender learns of it.
  shutdown(socket_.get(), SHUT_RDWR);
  return status_;
}

absl::StatusOr<std::shared_ptr<MemfdSegment>> SegmentBorrower::FindLocked(uint64_t segment,
                                                                          size_t bytes) {
  auto found = segments_.find(segment);
  if (found == segments_.end()) {
    // It was sent before the value was lent.
    TANDEM_RETURN_IF_ERROR(ReadLocked());
    found = segments_.find(segment);
  }
  if (found == segments_.end() || bytes == 0 || bytes > found->second->size()) {
    return FailLocked(errors::Internal(
        "a value of ", bytes, " bytes was lent in segment ", segment,
        found == segments_.end() ? ", which was never sent" : ", which is smaller"));
  }
  return found->second;
}

}  // namespace tandem
