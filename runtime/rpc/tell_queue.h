// TellQueue: calls that tell a server something, whatever it answers.
//
// Nobody waits for their answers, and no thread is kept for them: they leave at once, and what has
// come is looked at when there is more to tell, or at the end.
#ifndef TANDEM_RUNTIME_RPC_TELL_QUEUE_H_
#define TANDEM_RUNTIME_RPC_TELL_QUEUE_H_

#include <memory>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/async_unary_call.h"

namespace tandem {

// Threads: any. Lifetime: its channels outlive it.
class TellQueue {
 public:
  ~TellQueue() { EndAll(absl::UnixEpoch()); }

  // `prepare(context, queue)` gives the call, as PrepareAsync… of a stub does; it ends at
  // `deadline`. Not after EndAll.
  template <typename Response, typename Prepare>
  void Tell(absl::Time deadline, Prepare prepare) {
    auto call = std::make_unique<CallOf<Response>>();
    call->context.set_deadline(absl::ToChronoTime(deadline));
    MutexLock lock(mu_);
    TakeAnswersLocked(absl::UnixEpoch());
    call->reader = prepare(&call->context, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, static_cast<Call*>(call.get()));
    calls_.insert(call.release());
  }

  // Waits for the calls until `deadline`, and cancels those that go on.
  void EndAll(absl::Time deadline);

 private:
  struct Call {
    virtual ~Call() = default;
    grpc::ClientContext context;
    grpc::Status status;
  };
  template <typename Response>
  struct CallOf : Call {
    Response response;
    std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;  // Goes before the context.
  };

  // Forgets the calls that have ended, or end before `deadline`, which gRPC takes from 1970 on.
  void TakeAnswersLocked(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  grpc::CompletionQueue queue_ ABSL_GUARDED_BY(mu_);
  std::set<Call*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TELL_QUEUE_H_
