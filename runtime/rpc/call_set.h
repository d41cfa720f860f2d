// CallSet: the calls of a client that go on.
//
// A channel must not be let go of while a call of it goes on, nor by a callback of gRPC, which
// would then wait for the thread that it runs on, and a program must not end under a call. So every
// client ends its calls before it goes.
#ifndef TANDEM_RUNTIME_RPC_CALL_SET_H_
#define TANDEM_RUNTIME_RPC_CALL_SET_H_

#include <set>

#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace tandem {

// Threads: any. Shared with the calls, for the last thing that they do.
class CallSet {
 public:
  // A call begins, with this context; it is cancelled if the set has ended.
  void Begin(grpc::ClientContext* context);
  // The same for what has no context and ends by itself soon.
  void Begin();
  // The call is over, and its context about to go.
  void Forget(grpc::ClientContext* context);
  // The last thing that a call does: nothing of the client is touched after it.
  void End();

  // Waits for the calls to end, from `grace` on after it has cancelled them. Those that begin later
  // are cancelled. Not for gRPC's threads.
  void EndAll(absl::Duration grace);

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  bool cancels_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_CALL_SET_H_
