#include "runtime/collective/joint_operation.h"

#include <utility>

namespace tandem::collective {
namespace {

// What another member's end, or the group's, is to the step here.
absl::Status ForStep(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return status;
  return absl::AbortedError(status.message());
}

}  // namespace

void JointOperation::Start(std::vector<Request> parts, Then then) {
  // Not another owner: the last part may end before this returns, on the group's own thread, say.
  Group* group = nullptr;
  {
    MutexLock lock(mu_);
    left_ = parts.size();
    status_ = absl::OkStatus();
    then_ = std::move(then);
    group = group_.get();
  }
  const std::shared_ptr<JointOperation> self = shared_from_this();
  for (Request& part : parts) {
    Handle handle = group->Start(std::move(part),
                                 [self](const absl::Status& status) { self->EndPart(status); });
    absl::Status cancelled;
    {
      MutexLock lock(mu_);
      cancelled = cancelled_;
      if (left_ > 0) handles_.push_back(handle);
    }
    // By somebody who came before it began. It began all the same, so that other members hear of
    // it.
    if (!cancelled.ok()) handle->Cancel(cancelled);
  }
}

void JointOperation::EndPart(const absl::Status& status) {
  Then then;
  absl::Status whole;
  {
    MutexLock lock(mu_);
    status_.Update(status);
    if (--left_ > 0) return;
    whole = status_;
    then = std::move(then_);
    handles_.clear();
  }
  then(whole);
}

void JointOperation::Cancel(const absl::Status& reason) {
  std::vector<Handle> handles;
  {
    MutexLock lock(mu_);
    cancelled_.Update(reason);
    handles = handles_;
  }
  for (const Handle& handle : handles) handle->Cancel(reason);
}

void JointOperation::End(absl::StatusOr<std::vector<Tensor>> results) {
  Done done;
  absl::Status cancelled;
  {
    MutexLock lock(mu_);
    group_.reset();
    done = std::move(done_);
    cancelled = cancelled_;
  }
  if (!results.ok() && cancelled.ok()) results = ForStep(results.status());
  done(std::move(results));
}

}  // namespace tandem::collective
