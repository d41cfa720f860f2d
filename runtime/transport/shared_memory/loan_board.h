// LoanBoard: a table in shared memory where two processes note what one has lent to the other.
//
// A ticket is a row of the table and a number, which is never used again for that row. Its life,
// where the borrower asks for values:
//
//   from          to                  who       when
//   free          asked               borrower  it asks for a value
//   asked         lent                lender    the value lies in a segment
//   asked, lent   free, next number   borrower  it needs the value no more, or nobody answered
//
// And where the lender offers them, since they go with a request of its own:
//
//   free          lent                lender    the value lies in a segment
//   lent          taken               borrower  it uses the value
//   lent          free, next number   lender    the request is over, and nobody took the value
//   taken         free, next number   borrower  it needs the value no more
//
// So the lender may use a segment again as soon as the ticket that it was lent on is neither `lent`
// nor `taken` any more, and a call that was cancelled, or whose answer was lost, holds no memory.
// Nobody waits on the table, and no system call is made.
//
// Threads: any, of both processes. What the other process writes is not trusted: a wrong row costs
// whoever wrote it the contents of a segment.
#ifndef TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_LOAN_BOARD_H_
#define TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_LOAN_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/transport/memfd_segment.h"

namespace tandem {

struct Ticket {
  uint32_t row = 0;
  uint64_t number = 0;
};

class LoanBoard {
 public:
  static constexpr uint32_t kRows = 4096;
  static constexpr size_t kBytes = kRows * sizeof(uint64_t);

  LoanBoard() = default;
  // REQUIRES: it has kBytes bytes.
  explicit LoanBoard(MemfdSegment segment) : segment_(std::move(segment)) {}
  bool is_valid() const { return segment_.data() != nullptr; }
  MemfdSegment& segment() { return segment_; }

  // For the borrower, of rows of its own choice. REQUIRES, as everywhere: row < kRows.
  void Ask(const Ticket& ticket) const { Row(ticket).store(Asked(ticket)); }
  void GiveBack(const Ticket& ticket) const {
    Row(ticket).store(Free(Ticket{ticket.row, ticket.number + 1}));
  }

  // For the borrower, of what is offered. False: it was withdrawn, or somebody has taken it.
  bool Take(const Ticket& ticket) const {
    uint64_t expected = Lent(ticket);
    return Row(ticket).compare_exchange_strong(expected, Taken(ticket));
  }

  // For the lender. False: the borrower has given up on it, or something was lent on it already.
  bool Lend(const Ticket& ticket) const {
    uint64_t expected = Asked(ticket);
    return Row(ticket).compare_exchange_strong(expected, Lent(ticket));
  }
  // For the lender, of rows of its own choice.
  void Offer(const Ticket& ticket) const { Row(ticket).store(Lent(ticket)); }
  // Does nothing when the borrower has taken it.
  void Withdraw(const Ticket& ticket) const {
    uint64_t expected = Lent(ticket);
    Row(ticket).compare_exchange_strong(expected, Free(Ticket{ticket.row, ticket.number + 1}));
  }
  // The borrower has it, or may still get it.
  bool IsOut(const Ticket& ticket) const {
    const uint64_t row = Row(ticket).load();
    return row == Lent(ticket) || row == Taken(ticket);
  }

 private:
  static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);

  static uint64_t Free(const Ticket& ticket) { return ticket.number << 2; }
  static uint64_t Asked(const Ticket& ticket) { return ticket.number << 2 | 1; }
  static uint64_t Lent(const Ticket& ticket) { return ticket.number << 2 | 2; }
  static uint64_t Taken(const Ticket& ticket) { return ticket.number << 2 | 3; }

  std::atomic_ref<uint64_t> Row(const Ticket& ticket) const {
    return std::atomic_ref<uint64_t>(static_cast<uint64_t*>(segment_.data())[ticket.row]);
  }

  MemfdSegment segment_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_SHARED_MEMORY_LOAN_BOARD_H_
