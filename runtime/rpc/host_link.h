// HostLink: whether the values of another task can be borrowed in shared memory, and the connection
// over which they are. A client's, to its server, may also offer values (step_transfers.h).
//
// The first value that is asked of the task comes in a message; meanwhile the task is asked whether
// it is on this host and lends. One that does not, another implementation's for example, is asked
// again after a minute; one that comes back, after a second.
#ifndef TANDEM_RUNTIME_RPC_HOST_LINK_H_
#define TANDEM_RUNTIME_RPC_HOST_LINK_H_

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "proto/host_transfer.pb.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {

struct CallOptions;

// Threads: any. Lifetime: outlives the calls of `introduce`.
class HostLink {
 public:
  using Introduced =
      absl::AnyInvocable<void(absl::StatusOr<host_transfers::IntroduceResponse> response)>;
  // Calls HostTransferService.Introduce of the task.
  using Introduce = absl::FunctionRef<void(const CallOptions& options, Introduced done)>;

  enum class Kind {
    kTask,    // Another task of the cluster: this one borrows from it.
    kServer,  // A client's server: it is also offered values.
  };

  // `task`: what messages call it. `endpoint` outlives it.
  HostLink(std::string task, SharedMemoryEndpoint* endpoint, Kind kind = Kind::kTask)
      : task_(std::move(task)), endpoint_(*endpoint), kind_(kind) {}

  // What a request for a value offers to the task. None: the value has to come in a message.
  absl::optional<SegmentBorrower::Request> NewRequest(Introduce introduce);

  struct Connection {
    std::shared_ptr<SegmentBorrower> borrower;
    std::shared_ptr<SegmentLender> lender;  // Null to a task.
  };
  // None: there is no connection, and perhaps will be. Of one that there is, the other end may not
  // have answered yet.
  absl::optional<Connection> Connect(Introduce introduce);
  // The other end is being asked.
  bool asks();

  // A value was borrowed, or offered. The log says so once for each connection.
  void NoteLoan();

 private:
  // `is_here`: whether it is a process of this host.
  absl::StatusOr<Connection> ConnectTo(const host_transfers::IntroduceResponse& task,
                                       bool* is_here);
  void Answered(absl::StatusOr<host_transfers::IntroduceResponse> response);

  const std::string task_;
  SharedMemoryEndpoint& endpoint_;
  const Kind kind_;
  Mutex mu_;
  absl::optional<Connection> connection_ ABSL_GUARDED_BY(mu_);
  bool asks_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time ask_after_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool was_logged_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_HOST_LINK_H_
