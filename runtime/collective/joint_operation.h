// JointOperation: an operation of a graph that takes several of a group, at once or one after the
// other: values of several types, or sizes first and then what has these sizes.
//
//   auto whole = std::make_shared<JointOperation>(group, done);
//   whole->Start(parts, [whole](const absl::Status& status) { …; whole->End(results); });
//   return [whole](const absl::Status& reason) { whole->Cancel(reason); };
//
// Threads    Any.
// Lifetime   Holds the group until the end. Whoever is told of the end may let go of the group's
//            other owners, and a group cannot end on its own thread: so this lets go before it
//            tells.
// Errors     A group that is over, or another member that gave the operation up, is Aborted: the
//            step has changed nothing, and may be taken again. What was cancelled here ends with
//            the reason; all else is the operation's own error.
#ifndef TANDEM_RUNTIME_COLLECTIVE_JOINT_OPERATION_H_
#define TANDEM_RUNTIME_COLLECTIVE_JOINT_OPERATION_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/kernel/collective.h"
#include "runtime/collective/group.h"

namespace tandem::collective {

class JointOperation : public std::enable_shared_from_this<JointOperation> {
 public:
  using Done = CollectiveRuntime::Done;
  using Then = absl::AnyInvocable<void(const absl::Status&)>;

  // `done` is called once, by End.
  JointOperation(std::shared_ptr<Group> group, Done done)
      : group_(std::move(group)), done_(std::move(done)) {}

  // Starts the parts. `then` is called once, when all of them have ended, with the first error:
  // maybe before this returns, on any thread. It may start others, or call End. REQUIRES: there is
  // a part, and those that were started before have ended.
  void Start(std::vector<Request> parts, Then then);
  // Ends the parts that run and those that are started later with `reason` (not OK). Does nothing
  // after the end.
  void Cancel(const absl::Status& reason);
  // REQUIRES: no part runs, and none is started any more.
  void End(absl::StatusOr<std::vector<Tensor>> results);

 private:
  void EndPart(const absl::Status& status);

  Mutex mu_;
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mu_);
  Done done_ ABSL_GUARDED_BY(mu_);
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);

  // Of the parts that run.
  size_t left_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  Then then_ ABSL_GUARDED_BY(mu_);
  std::vector<Handle> handles_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_JOINT_OPERATION_H_
