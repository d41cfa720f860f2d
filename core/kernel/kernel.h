// What a kernel is, and what it meets when it is made and when it runs.
//
// A kernel is made once for a node (KernelInit) and runs many times, also at the same time in
// several steps: what it keeps must not change while it runs, or be guarded by a lock.
//
//   class ReluKernel : public Kernel {
//    public:
//     absl::Status Compute(KernelContext& c) override {
//       TANDEM_ASSIGN_OR_RETURN(Tensor* y, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
//       …
//     }
//   };
//
// A kernel that waits for something (a peer, a queue, another function) is an AsyncKernel: it never
// holds a thread while it waits.
//
// This header holds interfaces only; runtime/ implements and injects them.
#ifndef TANDEM_CORE_KERNEL_KERNEL_H_
#define TANDEM_CORE_KERNEL_KERNEL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/parallel.h"
#include "core/kernel/resource.h"
#include "core/op/attr_value.h"
#include "core/op/op_def.h"
#include "core/tensor/tensor.h"

namespace tandem {

class CollectiveRuntime;
class FileSystem;
class FunctionLibrary;
class FunctionRunner;
class GpuQueue;
class Rendezvous;

// What a kernel knows of the device it runs on. Lives as long as the kernel.
struct KernelDevice {
  std::string name;  // "/job:localhost/replica:0/task:0/device:CPU:0"
  std::string type;  // kCpu, kSim, …
  int ordinal = 0;   // The number at the end of the name.
  Allocator* allocator = nullptr;
  // Those of the session that the kernel belongs to.
  ResourceManager* resources = nullptr;
  ParallelRunner* parallel = nullptr;
  // What a graph may touch of the machine's files. Null: all of them. Kernels ask
  // kernels/io/file_kernel.h for it, and never open files otherwise.
  FileSystem* files = nullptr;
  // Where kernels for a GPU put their work (gpu.h). Null on other devices.
  GpuQueue* gpu = nullptr;
};

// A value in a plan, between the node that makes it and those that consume it.
struct Slot {
  enum class State : uint8_t {
    kEmpty,      // Not there yet, or gone.
    kValue,      // `value`
    kReference,  // `reference`, a variable of TensorFlow 1
    kDead,       // On the branch of a Switch that is not taken.
  };
  Tensor value;
  RefPtr<Variable> reference;
  State state = State::kEmpty;
  // Consumers that have not run yet. The last one may take the value.
  std::atomic<int32_t> uses{0};
};

// What all kernels of one step share. Lives until the last of them is done.
struct StepContext {
  int64_t step_id = 0;
  // The number by which members of a collective group match their operations: equal at all members
  // of one step, which step_id is not when they are processes.
  int64_t collective_step = 0;
  CancellationManager* cancellation = nullptr;  // Never null.
  Rendezvous* rendezvous = nullptr;             // Null when the step spans one process only.
  FunctionRunner* functions = nullptr;          // Null outside a session.
  CollectiveRuntime* collectives = nullptr;     // Null outside a strategy.
  // Stacks, tensor arrays, temporary variables: they die with the step.
  ResourceManager* step_resources = nullptr;
};

// Where the values of an input come from, as far as that is known before a step runs. A kernel that
// prepares an input (packs weights, say) may keep what it made for later runs:
enum class InputSource : uint8_t {
  // It may not: the memory may be a caller's, who writes into it between two runs.
  kComputed,
  // It may: every run of the plan brings the same tensor, and nobody writes to its memory.
  kConstant,
  // It may, as long as it holds the tensor: the tensor shares a variable's memory, which is
  // overwritten between runs, but only while nobody besides the variable holds it. While the kernel
  // holds it, an update of the variable goes to fresh memory.
  kVariable,
};

// What a kernel may look at while it is made. Attributes were checked against the op.
class KernelInit {
 public:
  struct Params {
    absl::string_view node_name;
    const OpDef* op = nullptr;
    const AttrMap* attrs = nullptr;
    absl::Span<const DataType> input_types;   // With reference flags.
    absl::Span<const DataType> output_types;  // With reference flags.
    const KernelDevice* device = nullptr;
    const FunctionLibrary* functions = nullptr;
    absl::Span<const InputSource> input_sources;  // Empty: nothing is known.
  };

  explicit KernelInit(const Params& params) : params_(params) {}

  absl::string_view node_name() const { return params_.node_name; }
  const OpDef& op() const { return *params_.op; }
  const AttrMap& attrs() const { return *params_.attrs; }
  // REQUIRES: the op declares the attribute, with this type.
  template <typename T>
  const T& Attr(absl::string_view name) const {
    return *params_.attrs->find(std::string(name))->second.Get<T>();
  }
  int num_inputs() const { return static_cast<int>(params_.input_types.size()); }
  int num_outputs() const { return static_cast<int>(params_.output_types.size()); }
  DataType input_dtype(int i) const { return params_.input_types[static_cast<size_t>(i)]; }
  DataType output_dtype(int i) const { return params_.output_types[static_cast<size_t>(i)]; }
  InputSource input_source(int i) const {
    return params_.input_sources.empty() ? InputSource::kComputed
                                         : params_.input_sources[static_cast<size_t>(i)];
  }
  const KernelDevice& device() const { return *params_.device; }
  const FunctionLibrary& functions() const { return *params_.functions; }

 private:
  const Params params_;
};

// One run of a kernel: its inputs, outputs and surroundings. Used by one thread at a time.
// Lifetime: until Compute returns, or until an asynchronous kernel calls `done`.
class KernelContext {
 public:
  struct Params {
    absl::string_view node_name;
    const KernelDevice* device = nullptr;
    StepContext* step = nullptr;
    absl::Span<Slot* const> inputs;
    // The node's outputs lie one after the other.
    Slot* outputs = nullptr;
    absl::Span<const DataType> output_types;
    // Which outputs lie in host memory, whatever the device (bit i for output i; those beyond 63 do
    // if bit 63 is set).
    uint64_t host_outputs = 0;
    // For control flow: which iteration of which frame this is (0 and 0 in the outermost). The id
    // of a frame is the same in all tasks that a loop spans; runtime/executor/frame_id.h has its
    // rule.
    int64_t frame_iteration = 0;
    uint64_t frame = 0;
    // How many calls of functions this node lies in.
    int32_t call_depth = 0;
  };

  KernelContext() = default;
  explicit KernelContext(const Params& params) : params_(params) {}

  absl::string_view node_name() const { return params_.node_name; }
  const KernelDevice& device() const { return *params_.device; }
  StepContext& step() const { return *params_.step; }
  ParallelRunner& parallel() const { return *params_.device->parallel; }
  int64_t frame_iteration() const { return params_.frame_iteration; }
  uint64_t frame() const { return params_.frame; }

  int num_inputs() const { return static_cast<int>(params_.inputs.size()); }
  int num_outputs() const { return static_cast<int>(params_.output_types.size()); }
  DataType output_dtype(int i) const { return params_.output_types[static_cast<size_t>(i)]; }

  // Input `i` as a value. REQUIRES: the op declares no reference there.
  const Tensor& input(int i) const { return params_.inputs[static_cast<size_t>(i)]->value; }
  // Only for Merge and its kin, whose inputs may be missing or dead.
  Slot& input_slot(int i) const { return *params_.inputs[static_cast<size_t>(i)]; }
  // Input `i`, which the op declares as a reference.
  Variable& reference(int i) const { return *params_.inputs[static_cast<size_t>(i)]->reference; }
  // Takes the value of input `i` out of the plan when nobody else will read it, so that its buffer
  // may be overwritten if it has no other owner; else shares it.
  Tensor TakeInput(int i) {
    Slot& slot = input_slot(i);
    return slot.uses.load(std::memory_order_acquire) == 1 ? std::move(slot.value) : slot.value;
  }

  // Output `i` in fresh memory of the device (of the host, for a host-memory argument), with
  // undefined contents. The pointer is valid until the kernel is done.
  absl::StatusOr<Tensor*> AllocateOutput(int i, Shape shape);
  // Output `i` in the memory of the first of `candidates` that nobody else will read and that has
  // the same element size and number of elements; else in fresh memory. A taken input may still be
  // read through the output's own memory only.
  absl::StatusOr<Tensor*> ForwardOrAllocate(std::initializer_list<int> candidates, int i,
                                            Shape shape);
  void SetOutput(int i, Tensor value) {
    Slot& slot = params_.outputs[i];
    slot.value = std::move(value);
    slot.state = Slot::State::kValue;
  }
  void SetOutputReference(int i, RefPtr<Variable> variable) {
    Slot& slot = params_.outputs[i];
    slot.reference = std::move(variable);
    slot.state = Slot::State::kReference;
  }
  void SetOutputDead(int i) { params_.outputs[i].state = Slot::State::kDead; }
  // Memory for the kernel's own use, in the device's memory.
  absl::StatusOr<Tensor> AllocateTemporary(DataType dtype, Shape shape);

  const Params& params() const { return params_; }

 private:
  Allocator* OutputAllocator(int i) const;

  Params params_;
};

class AsyncKernel;

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Computes the outputs. May not wait. An error need not name the node: the executor does.
  virtual absl::Status Compute(KernelContext& c) = 0;

  // This as an AsyncKernel, or null.
  virtual AsyncKernel* AsAsync() { return nullptr; }
};

class AsyncKernel : public Kernel {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Starts the work and returns without waiting. `done` runs exactly once, on any thread, outside
  // locks, also before Start returns. When it has to wait it first registers with the step's
  // cancellation, and ends soon after the step is cancelled. `c` lives until `done` is called.
  virtual void Start(KernelContext& c, Done done) = 0;

  absl::Status Compute(KernelContext& c) final;
  AsyncKernel* AsAsync() final { return this; }
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_KERNEL_H_
