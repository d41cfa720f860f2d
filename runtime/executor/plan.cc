#include "runtime/executor/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/memory_kind.h"
#include "core/passes/node_kinds.h"
#include "runtime/executor/control_flow.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

// Arguments, and results, of one signature.
constexpr int64_t kMaxArgs = 1 << 20;

// Builds one plan. The graph's nodes fall into those that run (planned), and those that only fill
// slots or name results: constants, _Arg and _Retval.
class Compiler {
 public:
  Compiler(std::shared_ptr<const Graph> graph, const PlanOptions& options)
      : graph_(std::move(graph)), options_(options), plan_(std::make_unique<Plan>()) {}

  absl::StatusOr<std::unique_ptr<Plan>> Compile() {
    TANDEM_ASSIGN_OR_RETURN(order_, graph_->TopologicalOrder());
    const size_t limit = static_cast<size_t>(graph_->id_limit());
    number_.assign(limit, -1);
    first_slot_.assign(limit, -1);
    for (Node* node : order_) {
      if (IsPlanned(*node)) {
        number_[static_cast<size_t>(node->id())] = static_cast<int32_t>(planned_.size());
        planned_.push_back(node);
      }
    }
    if (absl::c_any_of(order_, [](const Node* node) { return NeedsFrames(*node); })) {
      TANDEM_ASSIGN_OR_RETURN(assignment_, AssignFrames(order_));
      plan_->frames = std::make_unique<FrameLayout>();
      LayOutFrames();
    }
    TANDEM_RETURN_IF_ERROR(EvaluateConstants());
    AssignSlots();
    for (Node* node : planned_) TANDEM_RETURN_IF_ERROR(AddNode(*node));
    TANDEM_RETURN_IF_ERROR(AddEdges());
    TANDEM_RETURN_IF_ERROR(AddArgsAndResults());
    TANDEM_RETURN_IF_ERROR(Finish());
    return std::move(plan_);
  }

 private:
  static bool IsPlanned(const Node& node) {
    return !node.Is("_Arg") && !node.Is("_Retval") && !IsFreeConstant(node);
  }
  int32_t Number(const Node& node) const { return number_[static_cast<size_t>(node.id())]; }
  int FrameOf(const Node& node) const {
    return plan_->frames ? assignment_.input_frame[static_cast<size_t>(node.id())] : 0;
  }
  int OutputFrameOf(const Node& node) const {
    return plan_->frames ? assignment_.output_frame[static_cast<size_t>(node.id())] : 0;
  }
  std::vector<int32_t>& UsesOf(int frame) {
    return plan_->frames ? plan_->frames->frames[static_cast<size_t>(frame)].slot_uses
                         : plan_->slot_uses;
  }

  void LayOutFrames() {
    for (const FrameAssignment::Frame& frame : assignment_.frames) {
      FrameLayout::Frame laid_out;
      laid_out.name = frame.name;
      laid_out.parent = frame.parent;
      laid_out.num_enters = frame.num_enters;
      laid_out.parallel_iterations = frame.parallel_iterations;
      plan_->frames->frames.push_back(std::move(laid_out));
    }
  }

  // Values of free constants. Those for a device are copied there now, once for all steps.
  absl::Status EvaluateConstants() {
    for (Node* node : order_) {
      if (!IsFreeConstant(*node)) continue;
      Tensor& value = constant_values_[node->id()];
      if (node->Is("Const")) {
        value = *node->Attr<Tensor>("value");
        continue;
      }
      Device* const device = options_.devices->devices().Find(node->device());
      if (device == nullptr) {
        return errors::Internal("node '", node->name(), "' is placed on '", node->device(),
                                "', which is no device of this task");
      }
      TANDEM_ASSIGN_OR_RETURN(value,
                              CopyAndWait(*device, constant_values_[node->input(0).node->id()]));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<Tensor> CopyAndWait(Device& device, Tensor source) {
    constexpr absl::Duration kLongest = absl::Seconds(60);
    struct Copy {
      Event done;
      absl::StatusOr<Tensor> result = absl::UnknownError("not copied");
    };
    // Shared: the device may come too late.
    const auto copy = std::make_shared<Copy>();
    device.CopyToDevice(std::move(source), [copy](absl::StatusOr<Tensor> result) {
      copy->result = std::move(result);
      copy->done.Set();
    });
    // Functions are compiled inside a step, by a thread with a token; the queue needs one, too.
    ScopedRunTokenRelease released;
    if (!copy->done.Wait(absl::Now() + kLongest)) {
      return errors::DeadlineExceeded("device ", device.name(),
                                      " has not copied a constant within ",
                                      absl::FormatDuration(kLongest));
    }
    return std::move(copy->result);
  }

  void AssignSlots() {
    for (Node* node : order_) {
      if (node->Is("_Retval") || IsFreeConstant(*node)) continue;
      std::vector<int32_t>& uses = UsesOf(OutputFrameOf(*node));
      first_slot_[static_cast<size_t>(node->id())] = static_cast<int32_t>(uses.size());
      uses.resize(uses.size() + static_cast<size_t>(node->num_outputs()), 0);
    }
  }

  // The slot in which a consumer in `frame` finds the value. Constants get one in each frame that
  // consumes them.
  int32_t SlotOf(const Output& output, int frame) {
    const Node& node = *output.node;
    if (!IsFreeConstant(node)) {
      return first_slot_[static_cast<size_t>(node.id())] + output.index;
    }
    const auto [entry, added] = constant_slots_.emplace(std::make_pair(node.id(), frame), 0);
    if (added) {
      std::vector<int32_t>& uses = UsesOf(frame);
      entry->second = static_cast<int32_t>(uses.size());
      uses.push_back(0);
      const Tensor& value = constant_values_[node.id()];
      if (plan_->frames) {
        plan_->frames->frames[static_cast<size_t>(frame)].constants.emplace_back(entry->second,
                                                                                 value);
      } else {
        plan_->constants.push_back({entry->second, value});
      }
    }
    return entry->second;
  }

  absl::Status AddNode(const Node& node) {
    PlanNode planned;
    planned.device = options_.devices->devices().Find(node.device());
    if (planned.device == nullptr) {
      return errors::Internal("node '", node.name(), "' is placed on '", node.device(),
                              "', which is no device of this task");
    }
    planned.kernel_device = &options_.devices->kernel_device(*planned.device);
    TANDEM_RETURN_IF_ERROR(AddKernel(node, planned));
    planned.num_outputs = node.num_outputs();
    planned.first_slot = first_slot_[static_cast<size_t>(node.id())];
    planned.first_type = static_cast<int32_t>(plan_->types.size());
    for (int i = 0; i < node.num_outputs(); ++i) plan_->types.push_back(node.output_info(i).dtype);
    planned.is_cheap = node.op().is_cheap;
    planned.host_outputs = HostOutputs(node);
    planned.first_input = static_cast<int32_t>(plan_->inputs.size());
    planned.num_inputs = node.num_inputs();
    int32_t& dereferences =
        plan_->frames ? plan_->frames->frames[static_cast<size_t>(FrameOf(node))].num_dereferences
                      : plan_->num_dereferences;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output source = node.input(i);
      PlanInput input;
      input.slot = SlotOf(source, FrameOf(node));
      if (IsReference(source.dtype()) && !IsReference(node.input_dtype(i))) {
        planned.has_value_of_reference = true;
        input.dereference = dereferences++;
      }
      ++UsesOf(FrameOf(node))[static_cast<size_t>(input.slot)];
      plan_->inputs.push_back(input);
    }
    if (planned.kind != PlanNode::Kind::kSync) planned.async_index = plan_->num_async++;
    plan_->names.push_back(node.name());
    plan_->ops.push_back(node.type());
    plan_->nodes.push_back(planned);
    return absl::OkStatus();
  }

  absl::Status AddKernel(const Node& node, PlanNode& planned) {
    if (node.Is("_TandemCopy")) {
      planned.kind =
          *node.Attr<bool>("to_host") ? PlanNode::Kind::kCopyToHost : PlanNode::Kind::kCopyToDevice;
      return absl::OkStatus();
    }
    if (node.op().is_stateful && options_.shared_kernels) {
      TANDEM_ASSIGN_OR_RETURN(planned.kernel, options_.shared_kernels(node));
    }
    if (planned.kernel == nullptr) {
      TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                              MakeKernelFor(node, *planned.kernel_device, graph_->functions()));
      planned.kernel = kernel.get();
      plan_->owned_kernels.push_back(std::move(kernel));
    }
    planned.async = planned.kernel->AsAsync();
    planned.kind = planned.async != nullptr      ? PlanNode::Kind::kAsync
                   : planned.device->is_queued() ? PlanNode::Kind::kQueued
                                                 : PlanNode::Kind::kSync;
    return absl::OkStatus();
  }

  static uint64_t HostOutputs(const Node& node) {
    uint64_t bits = 0;
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (IsHostOutput(node, i)) bits |= uint64_t{1} << std::min(i, 63);
    }
    return bits;
  }

  absl::Status AddEdges() {
    const size_t count = plan_->nodes.size();
    if (plan_->frames) {
      plan_->frames->nodes.resize(count);
      for (size_t i = 0; i < count; ++i) {
        const Node& node = *planned_[i];
        FrameLayout::NodeInfo& info = plan_->frames->nodes[i];
        info.role = RoleOf(node);
        info.frame = FrameOf(node);
        info.output_frame = OutputFrameOf(node);
        info.num_data_inputs = node.num_inputs();
        auto& pending = plan_->frames->frames[static_cast<size_t>(info.frame)].pending;
        info.local = static_cast<int>(pending.size());
        pending.push_back(0);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      PlanNode& planned = plan_->nodes[i];
      planned.first_successor = static_cast<int32_t>(plan_->successors.size());
      if (IsPrologue(i)) {
        plan_->prologue.push_back(static_cast<int32_t>(i));
        continue;
      }
      if (plan_->frames) {
        plan_->frames->first_edge.push_back(static_cast<int32_t>(plan_->frames->edges.size()));
      }
      std::set<int32_t> distinct;
      for (const Consumer& consumer : planned_[i]->consumers()) {
        const int32_t to = Number(*consumer.node);
        if (to < 0) continue;  // A _Retval.
        if (distinct.insert(to).second && !plan_->frames) {
          plan_->successors.push_back(to);
          ++plan_->nodes[static_cast<size_t>(to)].pending;
        }
        if (plan_->frames) TANDEM_RETURN_IF_ERROR(AddFrameEdge(to, consumer));
      }
      planned.num_successors =
          static_cast<int32_t>(plan_->successors.size()) - planned.first_successor;
    }
    if (plan_->frames) {
      plan_->frames->first_edge.push_back(static_cast<int32_t>(plan_->frames->edges.size()));
    }
    return absl::OkStatus();
  }

  bool IsPrologue(size_t i) const {
    const PlanNode& planned = plan_->nodes[i];
    return plan_->frames == nullptr && planned.is_cheap && planned.kind == PlanNode::Kind::kSync &&
           planned.num_inputs == 0 && planned_[i]->control_inputs().empty();
  }

  absl::Status AddFrameEdge(int32_t to, const Consumer& consumer) {
    FrameLayout& frames = *plan_->frames;
    frames.edges.push_back({to, consumer.output, consumer.input});
    const FrameLayout::NodeInfo& info = frames.nodes[static_cast<size_t>(to)];
    int32_t& pending =
        frames.frames[static_cast<size_t>(info.frame)].pending[static_cast<size_t>(info.local)];
    // A Merge waits for its control edges; what it knows of its values is kept apart.
    if (info.role == FrameLayout::Role::kMerge && consumer.input != Consumer::kControl) {
      return absl::OkStatus();
    }
    if (++pending > Pending::kMaxEdges) {
      return errors::InvalidArgument("node '", consumer.node->name(), "' has more than ",
                                     Pending::kMaxEdges, " inputs in a graph with control flow");
    }
    return absl::OkStatus();
  }

  absl::Status AddArgsAndResults() {
    for (Node* node : order_) {
      if (node->Is("_Arg")) {
        TANDEM_ASSIGN_OR_RETURN(const size_t index, IndexOf(*node, plan_->arg_slots));
        Grow(plan_->arg_slots, index, -1);
        Grow(plan_->arg_types, index, DataType::kInvalid);
        plan_->arg_slots[index] = first_slot_[static_cast<size_t>(node->id())];
        plan_->arg_types[index] = node->output_info(0).dtype;
      } else if (node->Is("_Retval")) {
        TANDEM_ASSIGN_OR_RETURN(const size_t index, IndexOf(*node, plan_->result_slots));
        const Output source = node->input(0);
        if (OutputFrameOf(*source.node) != 0) {
          return errors::InvalidArgument("'", source.name(),
                                         "' lies inside a loop and cannot be fetched");
        }
        Grow(plan_->result_slots, index, -1);
        Grow(plan_->result_types, index, DataType::kInvalid);
        const int32_t slot = SlotOf(source, /*frame=*/0);
        plan_->result_slots[index] = slot;
        plan_->result_types[index] = source.dtype();
        ++UsesOf(0)[static_cast<size_t>(slot)];
      }
    }
    for (size_t i = 0; i < plan_->result_slots.size(); ++i) {
      if (plan_->result_slots[i] < 0) {
        return errors::InvalidArgument("result ", i, " of ", plan_->result_slots.size(),
                                       " is missing");
      }
    }
    return absl::OkStatus();
  }

  // The argument or result that a node stands for. `slots` are those that are taken.
  absl::StatusOr<size_t> IndexOf(const Node& node, const std::vector<int32_t>& slots) const {
    const int64_t index = *node.Attr<int64_t>("index");
    if (index < 0 || index >= kMaxArgs) {
      return errors::InvalidArgument("node '", node.name(), "' (", node.type(), ") has index ",
                                     index, "; 0 to ", kMaxArgs - 1, " are possible");
    }
    const size_t i = static_cast<size_t>(index);
    if (i < slots.size() && slots[i] >= 0) {
      return errors::InvalidArgument("node '", node.name(), "' (", node.type(), ") has index ",
                                     index, ", which another node has, too");
    }
    return i;
  }

  template <typename T>
  static void Grow(std::vector<T>& list, size_t index, T filler) {
    if (list.size() <= index) list.resize(index + 1, filler);
  }

  absl::Status Finish() {
    std::set<const Device*> devices;
    for (size_t i = 0; i < plan_->nodes.size(); ++i) {
      const PlanNode& node = plan_->nodes[i];
      if (!node.is_cheap && node.kernel != nullptr) devices.insert(node.device);
      if (plan_->frames) {
        const FrameLayout::NodeInfo& info = plan_->frames->nodes[i];
        const int32_t pending = plan_->frames->frames[static_cast<size_t>(info.frame)]
                                    .pending[static_cast<size_t>(info.local)];
        const bool waits = pending != 0 || info.role == FrameLayout::Role::kMerge;
        // A Merge with an argument or a constant among its inputs begins with a value.
        const bool fed_merge = info.role == FrameLayout::Role::kMerge && HasFreeInput(*planned_[i]);
        if (fed_merge && info.frame != 0) {
          return errors::InvalidArgument("node '", plan_->names[i],
                                         "' (Merge) inside a loop consumes a constant, which every "
                                         "iteration would have at once; let it in through Enter");
        }
        if (fed_merge) plan_->frames->fed_merges.push_back(static_cast<int>(i));
        if (info.frame == 0 && (!waits || (fed_merge && pending == 0))) {
          plan_->roots.push_back(static_cast<int>(i));
        }
      } else if (node.pending == 0 && !IsPrologue(i)) {
        plan_->roots.push_back(static_cast<int>(i));
      }
    }
    const int threads = options_.inner_parallelism > 0 ? options_.inner_parallelism
                                                       : RunTokens::Process().capacity();
    plan_->inner_parallelism =
        ReserveParallelism(std::max(1, threads / std::max(1, static_cast<int>(devices.size()))));
    // How often a node of a loop runs is not known: its values stay with the allocator.
    plan_->plans_memory = options_.plan_memory && plan_->frames == nullptr;
    plan_->costs.reset(new std::atomic<int32_t>[plan_->nodes.size()]());
    plan_->graph = graph_;
    return absl::OkStatus();
  }

  bool HasFreeInput(const Node& node) const {
    return absl::c_any_of(node.inputs(),
                          [&](const Output& input) { return Number(*input.node) < 0; });
  }

  const std::shared_ptr<const Graph> graph_;
  const PlanOptions& options_;
  std::unique_ptr<Plan> plan_;
  std::vector<Node*> order_;
  std::vector<Node*> planned_;
  std::vector<int32_t> number_;                            // By id: the number in the plan, or -1.
  std::vector<int32_t> first_slot_;                        // By id.
  std::map<std::pair<int, int>, int32_t> constant_slots_;  // By node id and frame.
  std::map<int, Tensor> constant_values_;                  // By node id.
  FrameAssignment assignment_;
};

// Where a value comes from that reaches a kernel through any number of Identity nodes.
InputSource SourceOf(Output value) {
  while (true) {
    const Node& node = *value.node;
    // What is behind a reference is read at each run.
    if (IsReference(value.dtype()) || node.Is("ReadVariableOp")) return InputSource::kVariable;
    if (IsFreeConstant(node)) return InputSource::kConstant;
    if (!node.Is("Identity")) return InputSource::kComputed;
    value = node.input(0);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelFor(const Node& node, const KernelDevice& device,
                                                      const FunctionLibrary& functions) {
  absl::StatusOr<const KernelDef*> def =
      OpRegistry::Global().FindKernel(node.op(), device.type, node.attrs());
  if (!def.ok()) return WithNode(def.status(), node);
  std::vector<DataType> input_types;
  std::vector<DataType> output_types;
  std::vector<InputSource> input_sources;
  for (int i = 0; i < node.num_inputs(); ++i) {
    input_types.push_back(node.input_dtype(i));
    // The kernel of a stateful node serves plans in which the same input may come from elsewhere.
    input_sources.push_back(node.op().is_stateful ? InputSource::kComputed
                                                  : SourceOf(node.input(i)));
  }
  for (int i = 0; i < node.num_outputs(); ++i) output_types.push_back(node.output_info(i).dtype);
  KernelInit init({node.name(), &node.op(), &node.attrs(), input_types, output_types, &device,
                   &functions, input_sources});
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = (*def)->factory(init);
  if (!kernel.ok()) return WithNode(kernel.status(), node);
  return kernel;
}

absl::StatusOr<std::unique_ptr<Plan>> CompilePlan(std::shared_ptr<const Graph> graph,
                                                  const PlanOptions& options) {
  return Compiler(std::move(graph), options).Compile();
}

}  // namespace tandem
