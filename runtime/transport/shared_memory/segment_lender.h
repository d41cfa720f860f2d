// SegmentLender: lends values to one other process of this host, in memory that both have mapped.
//
// A value is copied into a segment, and is the borrower's until it gives it back (loan_board.h);
// then the segment is used again. Segments that nobody uses are kept, up to a limit, since fresh
// memory costs more than the copy; what was not used between two calls of Trim goes back to the
// system.
//
// A lender either answers the borrower's requests for values (Create, Lend), or offers values that
// go with requests of its own process (CreateOffering, Offer).
//
// Threads: any. The other end may vanish at any time: nothing is lent then.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_LENDER_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_LENDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "core/base/mutex.h"
#include "runtime/transport/shared_memory/loan_board.h"
#include "runtime/transport/shared_memory/messages.h"

namespace tandem {

class SegmentLender : public std::enable_shared_from_this<SegmentLender> {
 public:
  static constexpr size_t kMostIdleBytes = size_t{1} << 30;

  // A value that is offered. When this goes and the borrower has not taken the value, it does not
  // get it any more.
  class Offered {
   public:
    Offered(Offered&& other) noexcept = default;
    Offered& operator=(Offered&& other) noexcept {
      std::swap(lender_, other.lender_);
      std::swap(ticket_, other.ticket_);
      std::swap(segment_, other.segment_);
      return *this;
    }
    ~Offered() {
      if (lender_ != nullptr) lender_->board_.Withdraw(ticket_);
    }

    const Ticket& ticket() const { return ticket_; }
    uint64_t segment() const { return segment_; }

   private:
    friend class SegmentLender;
    Offered(std::shared_ptr<SegmentLender> lender, const Ticket& ticket, uint64_t segment)
        : lender_(std::move(lender)), ticket_(ticket), segment_(segment) {}

    std::shared_ptr<SegmentLender> lender_;
    Ticket ticket_;
    uint64_t segment_ = 0;
  };

  // `socket`: connected to a borrower that said hello. It is sent the board, and `connection`,
  // which its requests will name. Errors: MemfdSegment's and SendWithFds's.
  static absl::StatusOr<std::shared_ptr<SegmentLender>> Create(
      OwnedFd socket, const shared_memory::Secret& connection,
      size_t most_idle_bytes = kMostIdleBytes);

  // A lender that offers values to the process of the endpoint that `socket` is connected to, whose
  // secret it says there. Errors: as Create's.
  static absl::StatusOr<std::shared_ptr<SegmentLender>> CreateOffering(
      OwnedFd socket, const shared_memory::Secret& secret);

  // Copies the bytes into a segment and lends it on the borrower's ticket; the segment's number.
  // None: the value has to be sent in another way, since no memory is left, or the borrower is
  // gone, or has given up on the ticket.
  absl::optional<uint64_t> Lend(const Ticket& ticket, absl::Span<const char> bytes);

  // Copies the bytes into a segment and offers it. None: the value has to be sent in another way,
  // since no memory is left, the borrower is gone or has not accepted yet, or as much as may be is
  // with it already. REQUIRES: CreateOffering.
  absl::optional<Offered> Offer(absl::Span<const char> bytes);
  // The borrower has accepted, and is there.
  bool takes_offers();
  // Reads what the borrower has said to offers. Not OK: it is gone, and nothing can be lent any
  // more. REQUIRES: CreateOffering.
  absl::Status Read();

  // Gives back what is not lent and was not used since the last call. True: there is something that
  // a later call may give back.
  bool Trim();
  // Nothing is lent any more, and what was is the borrower's alone. For when the other end is gone.
  void Close();

  // To see whether the other end is gone; it sends nothing but its answer to offers.
  const OwnedFd& socket() const { return socket_; }
  const shared_memory::Secret& connection() const { return connection_; }

  // For tests and figures: memory that is lent, and that is kept.
  struct Stats {
    size_t lent_segments = 0;
    size_t idle_segments = 0;
    size_t idle_bytes = 0;
  };
  Stats stats();

 private:
  struct Segment {
    uint64_t number = 0;
    MemfdSegment memory;
    bool was_used = true;  // Since the last Trim.
  };
  struct Loan {
    Ticket ticket;
    Segment segment;
  };

  SegmentLender(OwnedFd socket, const shared_memory::Secret& connection, LoanBoard board,
                size_t most_idle_bytes, bool offers);
  // Sends a new board over the socket.
  static absl::StatusOr<LoanBoard> SendBoard(const OwnedFd& socket,
                                             const shared_memory::Secret& connection);

  // A segment with the bytes in it.
  absl::optional<Segment> Fill(absl::Span<const char> bytes);
  absl::optional<Segment> TakeIdle(size_t bytes);
  absl::optional<Segment> Make(size_t bytes);
  // Room for a segment among what may be made; its number.
  absl::optional<uint64_t> Reserve(size_t bytes);
  // Looks what was given back.
  void CollectLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepLocked(Segment segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes segments that go out of idle_; they are destroyed outside the lock.
  void TakeSurplusLocked(std::vector<Segment>* surplus) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  using Idle = std::multimap<size_t, Segment>;
  Idle::iterator ForgetLocked(Idle::iterator segment, std::vector<Segment>* forgotten)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const OwnedFd socket_;
  const shared_memory::Secret connection_;
  const LoanBoard board_;
  const size_t most_idle_bytes_;
  const bool offers_;

  Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool is_accepted_ ABSL_GUARDED_BY(mu_) = false;          // Of one that offers.
  std::vector<Ticket> free_tickets_ ABSL_GUARDED_BY(mu_);  // Of one that offers.
  uint64_t next_number_ ABSL_GUARDED_BY(mu_) = 1;
  // What was made, and is not forgotten.
  size_t made_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t made_segments_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Loan> lent_ ABSL_GUARDED_BY(mu_);
  Idle idle_ ABSL_GUARDED_BY(mu_);  // By size.
  size_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_SEGMENT_LENDER_H_
