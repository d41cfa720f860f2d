// ServerLink: a client's end of the shared memory through which it and its server, on the same
// host, hand each other large values of steps (step_transfers.h).
//
// It costs nothing until a large value has gone in a message; from then on values go through shared
// memory as soon as the server has been asked and has answered. A server that does not do it is
// asked again now and then (host_link.h).
#ifndef TANDEM_RUNTIME_RPC_SERVER_LINK_H_
#define TANDEM_RUNTIME_RPC_SERVER_LINK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "proto/step_extras.pb.h"
#include "runtime/rpc/call_set.h"
#include "runtime/rpc/host_link.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace tandem {

// Threads: any. Lifetime: outlives its steps; tensors that were borrowed may outlive it.
class ServerLink {
 public:
  // `target`: what the log calls the server. Feeds of fewer than `least_bytes` go in messages, and
  // results as the server says. What is asked of the server is among `calls`.
  ServerLink(std::string target, std::shared_ptr<grpc::Channel> channel,
             std::shared_ptr<CallSet> calls, size_t least_bytes);
  // REQUIRES: `calls` have ended.
  ~ServerLink();

  // What one step offers and asks for; it has to stay until the step's results were taken.
  //
  // Threads: one at a time.
  class Step {
   public:
    Step() = default;  // Nothing.
    // Offers the large ones of `feeds`, which are marked then, and asks that as many results may be
    // lent.
    Step(ServerLink* link, std::vector<NamedTensor>* feeds, size_t results);

    bool offers_feeds() const { return !offered_.empty(); }
    // To the step's request.
    void AddTo(step_extras::Request* request) const { request->MergeFrom(request_); }
    // Puts the results that were lent into `results`. Errors: the answer cannot be true; no
    // descriptors or memory are left.
    absl::Status TakeResults(const step_extras::Response& response,
                             std::vector<ReadTensor>* results);

   private:
    ServerLink* link_ = nullptr;
    step_extras::Request request_;
    std::vector<SegmentLender::Offered> offered_;
    std::vector<absl::optional<SegmentBorrower::Request>> asked_;
  };

  // Asks the server now, and waits until values can go through shared memory. False: they cannot,
  // or not before `deadline`.
  bool WaitUntilConnected(absl::Time deadline);

 private:
  bool IsLarge(const Tensor& value) const;
  // The connection; asks for one if there is none.
  absl::optional<HostLink::Connection> Connect();
  HostLink* MakeLink();
  // Asks the server on a thread, since nobody waits for the answer. A callback of gRPC instead
  // would start threads of gRPC's that read from connections, for as long as the channel lives: the
  // answers of steps then reach whoever waits for them through one of those.
  void Introduce(const CallOptions& options, HostLink::Introduced done);

  const std::string target_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<CallSet> calls_;
  const size_t least_bytes_;
  std::atomic<HostLink*> link_{nullptr};  // Null: no large value was met.
  Mutex mu_;
  bool failed_ ABSL_GUARDED_BY(mu_) = false;  // This process can have no shared memory.
  // Before the link: outlives it.
  std::unique_ptr<SharedMemoryEndpoint> endpoint_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HostLink> own_link_ ABSL_GUARDED_BY(mu_);
  std::thread introduces_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SERVER_LINK_H_
