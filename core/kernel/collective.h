// CollectiveRuntime: how kernels meet their peers on other devices (and, later, other tasks).
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

// One member's part in one operation. Members of an operation are matched by (group, instance,
// step), never by the order in which they arrive.
struct CollectiveRequest {
  std::string group;
  int group_size = 1;
  int rank = 0;
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

  // Reduces each of `values` (host memory) over all members; all get the same results. Values are
  // added along one fixed binary tree over the ranks, so that the bits do not depend on who came
  // when. `done` runs once, outside locks.
  //
  // InvalidArgument at every member: types, shapes or numbers of values differ between members
  // (both sides are named), or a rank came twice. The cancellation's reason when the step is
  // cancelled.
  virtual void AllReduce(const CollectiveRequest& request, std::vector<Tensor> values,
                         CancellationManager* cancellation, Done done) = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_COLLECTIVE_H_
