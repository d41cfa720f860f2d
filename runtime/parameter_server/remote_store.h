// RemoteStore: how the steps of this process reach the shards of parameter servers: over gRPC, or,
// where a shard is in this process, right away. Large values go to and from servers of this host in
// shared memory (runtime/rpc/server_link.h).
//
// What is pushed and got no answer is pushed again under the same name (service_client.h), until
// the time of the route is over or the step is cancelled.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_REMOTE_STORE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_REMOTE_STORE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/kernel/parameter_store.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/parameter_server/service_client.h"
#include "runtime/parameter_server/shard_host.h"
#include "runtime/rpc/host_transfers.h"
#include "runtime/rpc/security.h"

namespace tandem::parameter_server {

// Threads: any. Lifetime: when it goes it ends its calls and waits for them, so it may not be a
// call's `done` that lets go of it last.
class RemoteStore final : public ParameterStore {
 public:
  struct Options {
    Security security;
    ShardHost* local = nullptr;          // Outlives it. Null: no shards are in this process.
    std::shared_ptr<CallFaults> faults;  // Null: none.
    // Of the servers that a route leads to, which are sent this process's token. Empty: all may be.
    AddressCheck check_address;
    HostTransfers host_transfers = HostTransfers::kAuto;
    size_t least_host_transfer_bytes = kLeastHostTransferBytes;
  };
  explicit RemoteStore(Options options) : options_(std::move(options)) {}

  // For a process that is no server; security (none) and faults are as the environment says.
  static absl::StatusOr<std::shared_ptr<RemoteStore>> Create(
      const absl::optional<Security>& security = {});

  void Call(ShardCall call, std::vector<Tensor> arguments, CancellationManager* cancellation,
            Done done) override;

  // With a route that was read already.
  void CallShard(const Route& route, ShardCall call, std::vector<Tensor> arguments,
                 CancellationManager* cancellation, Done done);

 private:
  absl::StatusOr<std::shared_ptr<const Route>> ReadRoute(const std::string& bytes);
  absl::StatusOr<std::shared_ptr<ServiceClient>> ClientOf(const std::string& address);
  void CallHere(CallRequest request, std::vector<Tensor> arguments, absl::Duration timeout,
                CancellationManager* cancellation, Done done);

  const Options options_;
  Mutex mu_;
  // The last ones. All calls of a step, and of its other shards, have the same.
  std::deque<std::pair<std::string, std::shared_ptr<const Route>>> routes_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<ServiceClient>> clients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_REMOTE_STORE_H_
