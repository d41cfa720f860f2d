// From a pruned graph to a plan: placement, copies between memories, kernels.
#ifndef TANDEM_RUNTIME_SESSION_COMPILE_H_
#define TANDEM_RUNTIME_SESSION_COMPILE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/passes/optimize.h"
#include "core/passes/place.h"
#include "kernels/random/generator.h"
#include "runtime/device/session_devices.h"
#include "runtime/executor/plan.h"

namespace tandem {

// The kernels of stateful nodes, which all plans of a session share. Threads: any.
class SharedKernelCache {
 public:
  // The kernel of the node, made the first time. Pointers stay valid as long as the cache.
  absl::StatusOr<Kernel*> Get(const Node& node, const SessionDevices& devices,
                              const FunctionLibrary& functions);

  // The generators of random ops, by node, sorted. A node that several plans place differently has
  // one on each device.
  std::vector<std::pair<std::string, random::Generator*>> Generators();

 private:
  Mutex mu_;
  // By node and device: a node of this name may be placed differently in another plan.
  std::map<std::string, std::unique_ptr<Kernel>> kernels_ ABSL_GUARDED_BY(mu_);
};

struct CompileOptions {
  std::shared_ptr<SessionDevices> devices;
  bool soft_placement = false;
  std::string default_device;
  int inner_parallelism = 0;
  OptimizeOptions optimize;
  // Null: the plan has kernels of its own (functions, which are compiled once for each use).
  SharedKernelCache* shared_kernels = nullptr;
};

absl::StatusOr<std::unique_ptr<Plan>> CompileGraph(Graph graph, const CompileOptions& options);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_COMPILE_H_
