// Exchange: what the members of a group tell one another between steps: short records, and whole
// states.
//
//   Exchange exchange(group, absl::Seconds(60));
//   TANDEM_ASSIGN_OR_RETURN(auto records, exchange.Gather("who is here", mine, check));
//   …
//   if (rank == source) exchange.Give("the state", state, takers, check);
//   else if (takes) exchange.Take("the state", source, takers, check);
//   else exchange.StandBy();
//
// Operations are matched by their number: all members of the group make the same calls in the same
// order.
//
// Large tensors travel from where they lie to where they belong; small ones, and strings, are put
// together first. Tensors are sent in pieces, so that the timeout, which is that of a piece, does
// not depend on their size.
//
// Every call takes a `check`, which is asked about ten times a second; its error ends the call, and
// the operation at all members.
//
// Errors: those of the group's operations, and of `check`. What came from another member and makes
// no sense is DataLoss.
// Threads: one at a time. Lifetime: the tensors of a state that is given live until Give returns.
#ifndef TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_EXCHANGE_H_
#define TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "runtime/collective/group.h"
#include "strategies/runner.h"

namespace tandem {

class Exchange {
 public:
  using Check = absl::FunctionRef<absl::Status()>;

  // `piece_timeout`: how long the members may take to pass on one piece of a state.
  // `longest`: how long they may take to come to a call.
  Exchange(std::shared_ptr<collective::Group> group, absl::Duration piece_timeout,
           absl::Duration longest);

  collective::Group& group() { return *group_; }

  // The records of all members, by rank. REQUIRES: all are of the same size.
  absl::StatusOr<std::vector<std::string>> Gather(const std::string& name, absl::string_view record,
                                                  Check check);

  // Gives the state to the members `takers` (ranks, ascending; not this one). Null: there is none
  // to give; the takers get none.
  absl::Status Give(const std::string& name, const StrategyState* state,
                    const std::vector<int>& takers, Check check);
  // Takes what `source` gives to the takers, of whom this is one. Nothing: it gives none. When this
  // member cannot take it (ResourceExhausted, DataLoss) the group is broken, since the others wait
  // for it.
  absl::StatusOr<absl::optional<StrategyState>> Take(const std::string& name, int source,
                                                     const std::vector<int>& takers, Check check);
  // In place of Give and Take, for who does neither.
  void StandBy() { ++next_; }

  // Bytes that Give and Take have moved.
  int64_t moved_bytes() const { return moved_bytes_; }

 private:
  // One state under way: who takes part, and the number of its next operation.
  struct Transfer {
    std::string name;
    std::vector<int> members;
    int root = 0;  // Among the members.
    int64_t step = 0;
    uint32_t phase = 0;
  };

  Transfer Begin(const std::string& name, int source, const std::vector<int>& takers);
  absl::Status Run(collective::Request request, Check check);
  absl::Status Broadcast(Transfer& transfer, void* data, size_t bytes, absl::Duration timeout,
                         Check check);
  absl::StatusOr<StrategyState> TakeParts(Transfer& transfer, uint64_t index_bytes,
                                          uint64_t blob_bytes, Check check);

  const std::shared_ptr<collective::Group> group_;
  const absl::Duration piece_timeout_;
  const absl::Duration longest_;
  int64_t next_ = 0;
  int64_t moved_bytes_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_MULTI_WORKER_MIRRORED_EXCHANGE_H_
