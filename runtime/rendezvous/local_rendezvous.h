// LocalRendezvous: one step's exchange of values inside a process.
//
// A key is in one of four states: unknown; sent, and waiting for its receiver; asked for, and
// waiting for its sender; or done. Done keys are remembered until the rendezvous ends, so that a
// second Send or Receive is noticed.
#ifndef TANDEM_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_
#define TANDEM_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/kernel/rendezvous.h"

namespace tandem {

// Threads: any.
// Lifetime: may end while values or receivers wait; the receivers then get Cancelled.
class LocalRendezvous final : public Rendezvous {
 public:
  LocalRendezvous();
  ~LocalRendezvous() override;

  absl::Status Send(absl::string_view key, Entry entry) override;
  // A second Receive of a key gets Aborted. `cancellation` may be null; otherwise it outlives the
  // call of `received`.
  void Receive(absl::string_view key, CancellationManager* cancellation,
               Received received) override;
  void Abort(absl::Status reason) override;

 private:
  struct State;

  const std::shared_ptr<State> state_;  // Shared with callbacks of cancellations.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_
