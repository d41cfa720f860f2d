// GroupRuntime: how the replicas of a session meet those of other processes: the graph ops'
// collectives (core/kernel/collective.h) over a Group.
//
//   GroupRuntime between(/*is_deterministic=*/false);
//   InProcessCollectives collectives(timeout, &between);
//   between.SetGroup(group, {2, 2});   // two replicas in each process; again for each generation
//
// The replicas of a process are reduced here, the processes by the group. In deterministic mode the
// replicas are the virtual ones, and values are added along one tree over all of them
// (algorithms/fixed_tree.cc), so that the bits do not depend on how many processes there are.
//
// Threads    Any.
// Lifetime   Outlives the InProcessCollectives that use it.
// Failure    Aborted, with the group's words, when it breaks or there is none, and when another
//            process gives the step up: nothing has come of the step, which may be taken again in
//            the next generation. Other errors of operations are those of Group.
#ifndef TANDEM_RUNTIME_COLLECTIVE_GROUP_RUNTIME_H_
#define TANDEM_RUNTIME_COLLECTIVE_GROUP_RUNTIME_H_

#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "runtime/collective/group.h"
#include "runtime/collective/in_process.h"

namespace tandem::collective {

class GroupRuntime final : public BetweenProcesses {
 public:
  explicit GroupRuntime(bool is_deterministic) : is_deterministic_(is_deterministic) {}

  // `replicas[rank]`: how many replicas (virtual ones, in deterministic mode) each process has; the
  // k-th of process r is number replicas[0] + … + replicas[r - 1] + k. What still runs in the
  // former group ends with Aborted. REQUIRES: not called by a callback of an operation.
  // InvalidArgument: not a number for each member of the group, or one below 1.
  absl::Status SetGroup(std::shared_ptr<Group> group, std::vector<int> replicas);

  CollectiveGroup Describe(const CollectiveGroup& local) const override;
  int64_t NextStep() override;
  Cancel AllReduce(const CollectiveRequest& request, std::vector<std::vector<Tensor>> values,
                   Done done) override;
  Cancel AllGatherRows(const CollectiveRequest& request, std::vector<Tensor> values,
                       Done done) override;

 private:
  const bool is_deterministic_;
  mutable Mutex mu_;
  // Kept until nobody is in them: a group cannot be destroyed by a callback of its own.
  std::vector<std::shared_ptr<Group>> former_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mu_);
  std::vector<int> replicas_ ABSL_GUARDED_BY(mu_);
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;  // Since the group was set.
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_GROUP_RUNTIME_H_
