// Plan: a graph compiled for execution, for one signature of feeds and fetches (or one function).
//
// The graph that is compiled has been pruned and placed; what is fed stands in it as nodes
// of type _Arg, what is fetched as nodes of type _Retval, and values cross between memories of
// devices at _TandemCopy nodes. Compilation makes the kernels and lays everything out in flat
// arrays, indexed by small numbers, so that a step chases no pointers through the graph and looks
// nothing up by name.
//
// Slots hold the values on edges: one for each output of a node. Constants and arguments are no
// nodes of a plan: their slots are filled before a step begins.
//
// A plan whose graph has loops or conditionals of TensorFlow 1 also has frames (frame_layout.h);
// one without knows nothing of them.
//
// Threads: a Plan never changes; any number of steps may run it at once.
#ifndef TANDEM_RUNTIME_EXECUTOR_PLAN_H_
#define TANDEM_RUNTIME_EXECUTOR_PLAN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"
#include "runtime/device/session_devices.h"
#include "runtime/executor/frame_layout.h"

namespace tandem {

struct PlanNode {
  enum class Kind : uint8_t {
    kSync,          // A synchronous kernel on a host device: runs where it became ready.
    kAsync,         // An asynchronous kernel.
    kQueued,        // A synchronous kernel on a queued device.
    kCopyToDevice,  // _TandemCopy.
    kCopyToHost,
  };

  Kernel* kernel = nullptr;  // Null for copies. Owned by the plan, or by the session if stateful.
  AsyncKernel* async = nullptr;
  Device* device = nullptr;
  const KernelDevice* kernel_device = nullptr;
  int32_t first_input = 0;  // Into Plan::inputs.
  int32_t num_inputs = 0;
  int32_t first_slot = 0;  // Its outputs are slots first_slot … first_slot + num_outputs - 1.
  int32_t num_outputs = 0;
  int32_t first_successor = 0;  // Into Plan::successors.
  int32_t num_successors = 0;
  int32_t pending = 0;       // Nodes that have to be done first (distinct ones).
  int32_t first_type = 0;    // Its output types are Plan::types[first_type …].
  int32_t async_index = -1;  // Among the nodes that are not kSync.
  Kind kind = Kind::kSync;
  bool is_cheap = false;                // Never worth a hand-over to another thread.
  bool has_value_of_reference = false;  // An input wants the value behind a reference.
  uint64_t host_outputs = 0;            // See KernelContext::Params.
};

struct PlanInput {
  static constexpr int32_t kNoDereference = -1;
  int32_t slot = 0;
  // When the source is a reference and the kernel wants its value: the number of the extra slot
  // that takes the value for the length of a run.
  int32_t dereference = kNoDereference;
};

struct Plan {
  std::vector<PlanNode> nodes;  // In topological order.
  std::vector<PlanInput> inputs;
  std::vector<int32_t> successors;  // Node numbers.
  std::vector<DataType> types;
  // How many consumers (inputs of nodes and fetches) each slot has. With frames: see there.
  std::vector<int32_t> slot_uses;
  int32_t num_dereferences = 0;
  int32_t num_async = 0;
  std::vector<int32_t> roots;  // Nodes without pending, in order.
  // Cheap nodes that wait for nothing, such as those that give variables' handles. A run without
  // frames begins with them, on the thread that starts it, and no other node waits for them: they
  // are neither roots nor anybody's predecessors.
  std::vector<int32_t> prologue;

  // Slots that are filled before a step begins. With frames: see there.
  struct ConstantSlot {
    int32_t slot;
    Tensor value;
  };
  std::vector<ConstantSlot> constants;
  std::vector<int32_t> arg_slots;     // Of argument i; -1 when nothing consumes it.
  std::vector<int32_t> result_slots;  // Of result i.
  std::vector<DataType> arg_types;
  std::vector<DataType> result_types;  // Of a reference, the value is read at the end of the step.

  // How many threads inner loops may use on each device: its share of the cores among the devices
  // of this plan.
  int inner_parallelism = 1;

  // Whether runs learn where their values can lie (run_memory.h).
  bool plans_memory = false;

  // Empty when the graph has no frames and no dead values.
  std::unique_ptr<FrameLayout> frames;

  // For messages, traces and the cost model; parallel to `nodes`.
  std::vector<std::string> names;
  std::vector<std::string> ops;
  // Nanoseconds that each node took lately (a running mean); written by any step.
  mutable std::unique_ptr<std::atomic<int32_t>[]> costs;

  std::vector<std::unique_ptr<Kernel>> owned_kernels;
  // Keeps what kernels point at alive.
  std::shared_ptr<const Graph> graph;
};

// Where the kernels of stateful nodes come from: they belong to the session and are shared by its
// plans. Called with the node; returns null to let the plan make and own its kernel.
using SharedKernels = std::function<absl::StatusOr<Kernel*>(const Node& node)>;

struct PlanOptions {
  SessionDevices* devices = nullptr;  // Outlives the plan.
  // Threads for inner loops of the whole process; 0: as many as there are run tokens.
  int inner_parallelism = 0;
  // See Plan::plans_memory.
  bool plan_memory = false;
  SharedKernels shared_kernels;
};

// Makes a kernel for a node that is placed on `device`, which outlives it. NotFound: there is none
// for the device and types.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelFor(const Node& node, const KernelDevice& device,
                                                      const FunctionLibrary& functions);

// REQUIRES: every node of `graph` has a device of `options.devices`.
// InvalidArgument: a cycle, or control flow that does not nest. NotFound: a node without a kernel.
absl::StatusOr<std::unique_ptr<Plan>> CompilePlan(std::shared_ptr<const Graph> graph,
                                                  const PlanOptions& options);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_PLAN_H_
