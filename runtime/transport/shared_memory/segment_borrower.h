// SegmentBorrower: takes the values that another process of this host lends (segment_lender.h).
//
// A value that is lent is used where it lies, for as long as its buffer lives, also when the lender
// is gone by then. The lender may use the memory again only afterwards. Its memory may be written
// to like any other's.
//
// A borrower either asks for values (Create, NewRequest), or takes what is offered to it (Accept,
// Take).
//
// Threads: any.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/tensor/buffer.h"
#include "runtime/transport/shared_memory/loan_board.h"
#include "runtime/transport/shared_memory/messages.h"

namespace tandem {

class SegmentBorrower : public std::enable_shared_from_this<SegmentBorrower> {
 public:
  // A ticket that is given back when its owner goes.
  class Request {
   public:
    Request(Request&& other) noexcept = default;
    Request& operator=(Request&& other) noexcept {
      std::swap(borrower_, other.borrower_);
      std::swap(ticket_, other.ticket_);
      std::swap(held_, other.held_);
      return *this;
    }
    ~Request();

    const Ticket& ticket() const { return ticket_; }
    // By which the lender knows the borrower.
    const shared_memory::Secret& connection() const;
    // The first `bytes` bytes of the segment that was lent on the ticket, which goes back with the
    // buffer. Errors: what the lender says cannot be; no descriptors or memory are left here. The
    // connection is over then.
    absl::StatusOr<RefPtr<Buffer>> Take(uint64_t segment, size_t bytes) &&;

   private:
    friend class SegmentBorrower;
    Request(std::shared_ptr<SegmentBorrower> borrower, const Ticket& ticket)
        : borrower_(std::move(borrower)), ticket_(ticket) {}

    std::shared_ptr<SegmentBorrower> borrower_;
    Ticket ticket_;
    size_t held_ = 0;  // Bytes of the segment, once it was taken.
  };

  // Says hello over `socket`, which is connected to a lender. While values of more than
  // `most_held_bytes` in all are kept here it asks for no more. Errors: SendWithFds's.
  static absl::StatusOr<std::shared_ptr<SegmentBorrower>> Create(
      OwnedFd socket, const shared_memory::Secret& secret,
      size_t most_held_bytes = std::numeric_limits<size_t>::max());
  // Of a lender that said over `socket` that it offers values.
  static std::shared_ptr<SegmentBorrower> Accept(OwnedFd socket);

  // None: the lender has not answered yet, or is gone, there are no more tickets, or as much as may
  // be is held. REQUIRES: Create.
  absl::optional<Request> NewRequest();

  // The first `bytes` bytes of the segment that is offered on the ticket; it goes back with the
  // buffer. NotFound: it was withdrawn, or somebody took it. Other errors: what the lender says
  // cannot be, no descriptors or memory are left here; the connection is over then. Nothing that
  // the lender says is trusted. REQUIRES: Accept.
  absl::StatusOr<RefPtr<Buffer>> Take(const Ticket& ticket, uint64_t segment, size_t bytes);
  // By which a lender that offers calls itself. None: it has not said so yet.
  absl::optional<shared_memory::Secret> offering();

  // Reads what the lender has sent; to be called when `socket` says that there is something. Not
  // OK: the connection is over, and this will never change.
  absl::Status Read();
  bool is_open();
  // Ends the connection. What was borrowed is this process's alone then.
  void Close();
  const OwnedFd& socket() const { return socket_; }

 private:
  SegmentBorrower(OwnedFd socket, size_t most_held_bytes, bool takes_offers)
      : socket_(std::move(socket)),
        most_held_bytes_(most_held_bytes),
        takes_offers_(takes_offers) {}

  absl::Status ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status HeardLocked(const shared_memory::Message& message, std::vector<OwnedFd> fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the connection.
  absl::Status FailLocked(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<MemfdSegment>> FindLocked(uint64_t segment, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, and counts it as held.
  absl::StatusOr<std::shared_ptr<MemfdSegment>> Hold(uint64_t segment, size_t bytes);
  void GiveBack(const Ticket& ticket, size_t held);

  const OwnedFd socket_;
  const size_t most_held_bytes_;
  const bool takes_offers_;
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  LoanBoard board_ ABSL_GUARDED_BY(mu_);           // Once it has come it stays.
  shared_memory::Secret connection_ = {};          // Set before the first request is made.
  std::vector<Ticket> free_ ABSL_GUARDED_BY(mu_);  // Of one that asks.
  size_t held_bytes_ ABSL_GUARDED_BY(mu_) = 0;     // Of segments that are used.
  size_t mapped_bytes_ ABSL_GUARDED_BY(mu_) = 0;   // Of those in segments_.
  std::map<uint64_t, std::shared_ptr<MemfdSegment>> segments_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_
