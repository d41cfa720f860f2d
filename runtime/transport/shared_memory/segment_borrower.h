// SegmentBorrower: takes the values that another process of this host lends (segment_lender.h).
//
// A value that is lent is used where it lies, for as long as its buffer lives, also when the lender
// is gone by then. The lender may use the memory again only afterwards. Its memory may be written
// to like any other's.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_

#include <cstddef>
#include <cstdint>
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
  };

  // Says hello over `socket`, which is connected to a lender. Errors: SendWithFds's.
  static absl::StatusOr<std::shared_ptr<SegmentBorrower>> Create(
      OwnedFd socket, const shared_memory::Secret& secret);

  // None: the lender has not answered yet, or is gone, or there are no more tickets.
  absl::optional<Request> NewRequest();

  // Reads what the lender has sent; to be called when `socket` says that there is something. Not
  // OK: the connection is over, and this will never change.
  absl::Status Read();
  bool is_open();
  const OwnedFd& socket() const { return socket_; }

 private:
  explicit SegmentBorrower(OwnedFd socket) : socket_(std::move(socket)) {}

  absl::Status ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status HeardLocked(const shared_memory::Message& message, std::vector<OwnedFd> fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the connection.
  absl::Status FailLocked(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<MemfdSegment>> Find(uint64_t segment, size_t bytes);
  void GiveBack(const Ticket& ticket);

  const OwnedFd socket_;
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  LoanBoard board_ ABSL_GUARDED_BY(mu_);   // Once it has come it stays.
  shared_memory::Secret connection_ = {};  // Set before the first request is made.
  std::vector<Ticket> free_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<MemfdSegment>> segments_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_BORROWER_H_
