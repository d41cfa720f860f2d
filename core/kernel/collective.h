// CollectiveRuntime: how kernels meet their peers on other devices and in other processes.
#ifndef TANDEM_CORE_KERNEL_COLLECTIVE_H_
#define TANDEM_CORE_KERNEL_COLLECTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"

namespace tandem {

enum class Reduction { kSum, kMean, kMin, kMax, kProduct };

// What a group is at the moment. Graphs hold its name only, so that members may come and go without
// a new plan.
struct CollectiveGroup {
  int size = 0;            // Members in all processes.
  int first = 0;           // Of those of this process, among all: how many come before them.
  int64_t generation = 0;  // Grows whenever the members change.
};

// One member's part in one operation. Members of an operation are matched by (group, generation,
// instance, step), never by the order in which they arrive.
struct CollectiveRequest {
  std::string group;
  int member = 0;        // Among those of this process, from 0. The runtime knows its rank.
  int64_t instance = 0;  // Fixed when the graph is built.
  int64_t step = 0;
  Reduction reduction = Reduction::kSum;
  std::string node;  // For messages.
};

// Threads: any.
class CollectiveRuntime {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  virtual ~CollectiveRuntime() = default;

  // NotFound: nobody made a group of this name known; the message names those that there are.
  virtual absl::StatusOr<CollectiveGroup> Group(const std::string& name) const = 0;

  // Reduces each of `values` (host memory) over all members; all get the same results. Values are
  // added along one fixed binary tree over the ranks, so that the bits do not depend on who came
  // when. `done` runs once, outside locks.
  //
  // InvalidArgument at every member: types, shapes or numbers of values differ between members
  // (both sides are named), or a member came twice. The cancellation's reason when the step of
  // any member in this process is cancelled; whoever comes to the operation later gets it at once.
  // Aborted when another process was lost or gave its step up, and when this one has no group.
  // DeadlineExceeded: names who did not come.
  virtual void AllReduce(const CollectiveRequest& request, std::vector<Tensor> values,
                         CancellationManager* cancellation, Done done) = 0;

  // Joins, for each of `values` (host memory), what all processes bring along the first dimension,
  // in their order; each may bring another number of rows, also none. Takes one participant a
  // process, which is member 0; without other processes the values come back as they are. Any type
  // of plain values. `done` and errors as for AllReduce; InvalidArgument also for a scalar, which
  // has no rows.
  virtual void AllGatherRows(const CollectiveRequest& request, std::vector<Tensor> values,
                             CancellationManager* cancellation, Done done) = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_COLLECTIVE_H_
