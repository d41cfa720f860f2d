#include "runtime/rpc/tell_queue.h"

#include "grpc/support/time.h"
#include "grpcpp/support/time.h"

namespace tandem {

void TellQueue::TakeAnswersLocked(absl::Time deadline) {
  const gpr_timespec until =
      deadline == absl::InfiniteFuture()
          ? gpr_inf_future(GPR_CLOCK_REALTIME)
          : grpc::TimePoint<std::chrono::system_clock::time_point>(absl::ToChronoTime(deadline))
                .raw_time();
  while (!calls_.empty()) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) {
      return;
    }
    Call* const call = static_cast<Call*>(tag);
    calls_.erase(call);
    delete call;
  }
}

void TellQueue::EndAll(absl::Time deadline) {
  MutexLock lock(mu_);
  if (ended_) return;
  ended_ = true;
  TakeAnswersLocked(deadline);
  for (Call* const call : calls_) call->context.TryCancel();
  TakeAnswersLocked(absl::InfiniteFuture());
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

}  // namespace tandem
