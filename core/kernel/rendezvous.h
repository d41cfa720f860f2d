// Rendezvous: where a value that leaves a device or a task meets the one who wants it.
#ifndef TANDEM_CORE_KERNEL_RENDEZVOUS_H_
#define TANDEM_CORE_KERNEL_RENDEZVOUS_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"

namespace tandem {

// One step's exchange, by key. A key names producer device, incarnation, consumer device, tensor,
// frame and iteration; each key is sent once and received once. Threads: any.
class Rendezvous {
 public:
  struct Entry {
    Tensor value;
    bool is_dead = false;
  };
  using Received = absl::AnyInvocable<void(absl::StatusOr<Entry>)>;

  virtual ~Rendezvous() = default;

  // Never waits. Errors: the rendezvous was aborted, or the key was sent already (Aborted).
  virtual absl::Status Send(absl::string_view key, Entry entry) = 0;
  // Calls `received` once, outside locks: with the entry, or with the reason why it will not come
  // (aborted, or `cancellation` was cancelled).
  virtual void Receive(absl::string_view key, CancellationManager* cancellation,
                       Received received) = 0;
  // Ends all pending and later calls with `reason` (not OK).
  virtual void Abort(absl::Status reason) = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_RENDEZVOUS_H_
