#include "runtime/rpc/call_set.h"

#include "absl/time/clock.h"
#include "grpcpp/client_context.h"

namespace tandem {

void CallSet::Begin(grpc::ClientContext* context) {
  MutexLock lock(mu_);
  ++count_;
  contexts_.insert(context);
  if (cancels_) context->TryCancel();
}

void CallSet::Begin() {
  MutexLock lock(mu_);
  ++count_;
}

void CallSet::Forget(grpc::ClientContext* context) {
  MutexLock lock(mu_);
  contexts_.erase(context);
}

void CallSet::End() {
  MutexLock lock(mu_);
  --count_;
  changed_.NotifyAll();
}

void CallSet::EndAll(absl::Duration grace) {
  const absl::Time deadline = absl::Now() + grace;
  MutexLock lock(mu_);
  while (count_ > 0 && absl::Now() < deadline) changed_.WaitUntil(mu_, deadline);
  cancels_ = true;
  // Ends no call on this thread: completions come on gRPC's own.
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
  while (count_ > 0) changed_.Wait(mu_);
}

}  // namespace tandem
