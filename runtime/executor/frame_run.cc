#include "runtime/executor/frame_run.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/executor/frame_id.h"

namespace tandem {
namespace {

using Role = FrameLayout::Role;

// Consumers of a constant never use it up.
constexpr int32_t kConstantUses = 1 << 30;

bool IsDead(const Slot& slot) {
  return slot.state == Slot::State::kDead || slot.state == Slot::State::kEmpty;
}

void Clear(Slot& slot) {
  slot.value.Reset();
  slot.reference.reset();
  slot.state = Slot::State::kEmpty;
  slot.uses.store(0, std::memory_order_relaxed);
}

// " in round 3 of frame 'inner' in round 1 of frame 'outer'"; nothing for the outermost.
std::string RoundOf(const Plan& plan, const Iteration& iteration) {
  std::string text;
  for (const Iteration* round = &iteration; round->frame->index != 0;
       round = round->frame->parent_iteration) {
    const size_t frame = static_cast<size_t>(round->frame->index);
    absl::StrAppend(&text, " in round ", round->number + 1, " of frame '",
                    plan.frames->frames[frame].name, "'");
  }
  return text;
}

// Of the loops that go on within `root`, those that no other one goes on in: the node that decides
// whether they do.
std::vector<std::string> LoopsGoingOn(const Plan& plan, const FrameInstance& root) {
  std::vector<std::string> loops;
  std::vector<const FrameInstance*> open = {&root};
  while (!open.empty()) {
    const FrameInstance& frame = *open.back();
    open.pop_back();
    const size_t before = open.size();
    for (const auto& iteration : frame.iterations) {
      for (const auto& child : iteration->children) open.push_back(child.get());
    }
    if (open.size() > before || frame.index == 0 || frame.iterations.empty()) continue;
    const std::vector<FrameLayout::NodeInfo>& nodes = plan.frames->nodes;
    const auto condition = absl::c_find_if(nodes, [&](const FrameLayout::NodeInfo& node) {
      return node.role == Role::kLoopCond && node.frame == frame.index;
    });
    const size_t i = static_cast<size_t>(condition - nodes.begin());
    const std::string name =
        condition == nodes.end() ? "a loop" : absl::StrCat(plan.names[i], " (", plan.ops[i], ")");
    loops.push_back(absl::StrCat(name, RoundOf(plan, *frame.iterations.back())));
  }
  return loops;
}

}  // namespace

FrameRun::FrameRun(const Plan& plan)
    : StepRun(plan), layout_(*plan.frames), spare_iterations_(layout_.frames.size()) {
  dead_.state = Slot::State::kDead;
}

void FrameRun::Start(StepEnvironment* environment, int call_depth, std::vector<Tensor> args,
                     Done done) {
  environment_ = environment;
  call_depth_ = call_depth;
  done_ = std::move(done);
  DecideWhetherToMeasure();
  Ready ready;
  {
    MutexLock lock(mu_);
    root_.index = 0;
    root_.missing_enters = 0;
    Iteration& iteration = NewIterationLocked(root_, ready);
    const auto fill = [&](int32_t index, Tensor value, int32_t uses) {
      Slot& slot = iteration.slots[static_cast<size_t>(index)];
      slot.value = std::move(value);
      slot.state = Slot::State::kValue;
      slot.uses.store(uses, std::memory_order_relaxed);
    };
    for (size_t i = 0; i < plan_.arg_slots.size(); ++i) {
      if (plan_.arg_slots[i] >= 0) fill(plan_.arg_slots[i], std::move(args[i]), kConstantUses);
    }
    for (const int32_t merge : layout_.fed_merges) {
      const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(merge)];
      const PlanNode& node = plan_.nodes[static_cast<size_t>(merge)];
      for (int32_t i = 0; i < node.num_inputs; ++i) {
        const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + i)];
        if (iteration.slots[static_cast<size_t>(input.slot)].state == Slot::State::kValue) {
          iteration.decided[info.local] = i;
        }
      }
      iteration.pending[static_cast<size_t>(info.local)] |= Pending::kDecided;
    }
    for (const int32_t root : plan_.roots) {
      Task task{this, &iteration, root};
      const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(root)];
      if (info.role == Role::kMerge) task.merge_input = iteration.decided[info.local];
      ready.push_back(task);
    }
    iteration.outstanding = static_cast<int>(ready.size());
  }
  // One more, so that the run cannot end while tasks are being submitted.
  outstanding_.store(static_cast<int32_t>(ready.size()) + 1, std::memory_order_relaxed);
  for (const Task& task : ready) {
    environment_->scheduler->Submit(
        task, plan_.costs[static_cast<size_t>(task.node)].load(std::memory_order_relaxed));
  }
  if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

void FrameRun::Execute(const Task& task) {
  if (task.node == Task::kEndOfRun) {
    Finish();
    return;
  }
  CancellationManager& cancellation = *environment_->cancellation;
  if (ABSL_PREDICT_FALSE(failed() || cancellation.IsCancelled())) {
    if (!failed()) Fail(task.node, cancellation.status(), RoundOf(plan_, *task.iteration));
    EndTask(task, {});
    return;
  }
  const Role role = layout_.nodes[static_cast<size_t>(task.node)].role;
  if (task.is_dead && role != Role::kSend) {
    PassDead(task);
    return;
  }
  switch (role) {
    case Role::kMerge:
      PassMerge(task);
      return;
    case Role::kEnter:
    case Role::kConstantEnter:
    case Role::kExit:
    case Role::kNextIteration:
      PassThrough(task);
      return;
    default:
      RunKernel(task);
  }
}

void FrameRun::RunKernel(const Task& task) {
  const size_t i = static_cast<size_t>(task.node);
  const PlanNode& node = plan_.nodes[i];
  std::unique_ptr<FrameInvocation> invocation;
  {
    MutexLock lock(mu_);
    if (!spare_invocations_.empty()) {
      invocation = std::move(spare_invocations_.back());
      spare_invocations_.pop_back();
    }
  }
  if (invocation == nullptr) invocation = std::make_unique<FrameInvocation>();
  Iteration& iteration = *task.iteration;
  invocation->run = this;
  invocation->task = task;
  invocation->pointers.resize(static_cast<size_t>(node.num_inputs));
  absl::Status status = Dereference(node, iteration.slots.get(), iteration.dereferenced.get(),
                                    invocation->pointers.data());
  if (!status.ok()) {
    CompleteKernel(task, status);
    return;
  }
  // A send may be dead by a control edge alone; its kernel looks at its input.
  if (task.is_dead) invocation->pointers[0] = &dead_;
  KernelContext::Params params;
  params.node_name = plan_.names[i];
  params.device = node.kernel_device;
  params.step = environment_;
  params.inputs = invocation->pointers;
  params.outputs = iteration.slots.get() + node.first_slot;
  params.output_types = absl::MakeConstSpan(plan_.types.data() + node.first_type,
                                            static_cast<size_t>(node.num_outputs));
  params.host_outputs = node.host_outputs;
  params.frame_iteration = iteration.number;
  params.frame = iteration.frame->id;
  params.call_depth = call_depth_;
  invocation->context = KernelContext(params);
  FrameInvocation* const raw = invocation.release();  // Recycle takes it back.
  if (node.kind != PlanNode::Kind::kSync) {
    MutexLock lock(mu_);
    running_.insert(raw);
  }
  if (Invoke(*raw, &status)) {
    Recycle(raw);
    CompleteKernel(task, status);
  }
}

void FrameRun::Recycle(FrameInvocation* invocation) {
  MutexLock lock(mu_);
  running_.erase(invocation);
  spare_invocations_.emplace_back(invocation);
}

std::vector<std::string> FrameRun::Waiting() const {
  std::vector<std::string> waiting;
  MutexLock lock(mu_);
  for (const FrameInvocation* invocation : running_) {
    waiting.push_back(
        absl::StrCat(Describe(*invocation), RoundOf(plan_, *invocation->task.iteration)));
  }
  // A loop that only computes has no node that waits; it may never end all the same.
  if (waiting.empty()) waiting = LoopsGoingOn(plan_, root_);
  return waiting;
}

void FrameRun::OnDone(Invocation& invocation, absl::Status status) {
  if (invocation.started != 0) Measure(invocation);
  const Task task = invocation.task;
  invocation.waits.store(false, std::memory_order_relaxed);
  Recycle(static_cast<FrameInvocation*>(&invocation));
  CompleteKernel(task, status);
}

void FrameRun::CompleteKernel(const Task& task, const absl::Status& status) {
  if (!status.ok()) {
    Fail(task.node, status, RoundOf(plan_, *task.iteration));
    EndTask(task, {});
    return;
  }
  absl::Status error;
  const PlanNode& node = plan_.nodes[static_cast<size_t>(task.node)];
  const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(task.node)];
  Ready ready;
  {
    MutexLock lock(mu_);
    const auto& uses = layout_.frames[static_cast<size_t>(info.output_frame)].slot_uses;
    for (int32_t i = 0; i < node.num_outputs; ++i) {
      const size_t index = static_cast<size_t>(node.first_slot + i);
      Slot& slot = task.iteration->slots[index];
      slot.uses.store(uses[index], std::memory_order_relaxed);
      if (slot.state == Slot::State::kEmpty && uses[index] > 0 && info.role == Role::kNormal) {
        error = errors::Internal("the kernel left output ", i, " empty");
      }
      if (uses[index] == 0 && !IsDead(slot)) Clear(slot);
    }
    // As in a flat run: inputs go before the successors look at what the node forwarded.
    ReleaseInputsLocked(task);
    PropagateLocked(*task.iteration, task.node, task.is_dead, ready);
  }
  if (!error.ok()) Fail(task.node, error, RoundOf(plan_, *task.iteration));
  EndTask(task, ready);
}

void FrameRun::PassMerge(const Task& task) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(task.node)];
  Ready ready;
  absl::Status status;
  {
    MutexLock lock(mu_);
    FrameInstance::Value value{task.node, {}, {}};
    status = TakeInputLocked(task, task.merge_input, &value);
    Iteration& iteration = *task.iteration;
    if (status.ok() && node.num_outputs > 1) {
      const size_t index = static_cast<size_t>(node.first_slot + 1);
      const int32_t uses =
          layout_.frames[static_cast<size_t>(iteration.frame->index)].slot_uses[index];
      if (uses > 0) {
        Slot& slot = iteration.slots[index];
        slot.value = Tensor::Scalar<int32_t>(task.merge_input);
        slot.state = Slot::State::kValue;
        slot.uses.store(uses, std::memory_order_relaxed);
      }
    }
    if (status.ok()) PutLocked(iteration, value, ready);
  }
  if (!status.ok()) Fail(task.node, status, RoundOf(plan_, *task.iteration));
  EndTask(task, ready);
}

void FrameRun::PassThrough(const Task& task) {
  Ready ready;
  FrameInstance::Value value{task.node, {}, {}};
  absl::Status status;
  {
    MutexLock lock(mu_);
    status = TakeInputLocked(task, 0, &value);
    if (status.ok()) status = PassThroughLocked(task, std::move(value), ready);
  }
  if (!status.ok()) Fail(task.node, status, RoundOf(plan_, *task.iteration));
  EndTask(task, ready);
}

absl::Status FrameRun::PassThroughLocked(const Task& task, FrameInstance::Value value,
                                         Ready& ready) {
  const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(task.node)];
  FrameInstance& frame = *task.iteration->frame;
  switch (info.role) {
    case Role::kEnter:
    case Role::kConstantEnter: {
      FrameInstance& child = ChildFrameLocked(*task.iteration, info.output_frame, ready);
      --child.missing_enters;
      if (info.role == Role::kEnter) {
        PutLocked(*child.iterations.front(), value, ready);
      } else {
        for (const auto& iteration : child.iterations) PutLocked(*iteration, value, ready);
        child.constants.push_back(std::move(value));
      }
      CleanUpLocked(&child, ready);
      break;
    }
    case Role::kExit: {
      if (absl::c_linear_search(frame.live_exits, task.node)) {
        return errors::InvalidArgument("the loop '",
                                       layout_.frames[static_cast<size_t>(frame.index)].name,
                                       "' is left here a second time");
      }
      frame.live_exits.push_back(task.node);
      auto& dead = frame.dead_exits;
      dead.erase(std::remove(dead.begin(), dead.end(), task.node), dead.end());
      PutLocked(*frame.parent_iteration, value, ready);
      break;
    }
    default: {  // NextIteration
      const int64_t next = task.iteration->number + 1;
      const int64_t newest = frame.iterations.back()->number;
      const FrameLayout::Frame& frame_layout = layout_.frames[static_cast<size_t>(frame.index)];
      if (next <= newest) {
        PutLocked(*frame.iterations[static_cast<size_t>(next - frame.iterations.front()->number)],
                  value, ready);
      } else if (static_cast<int>(frame.iterations.size()) < frame_layout.parallel_iterations) {
        PutLocked(NewIterationLocked(frame, ready), value, ready);
      } else {
        frame.deferred.push_back(std::move(value));
      }
    }
  }
  return absl::OkStatus();
}

void FrameRun::PassDead(const Task& task) {
  const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(task.node)];
  Ready ready;
  {
    MutexLock lock(mu_);
    ReleaseInputsLocked(task);
    FrameInstance& frame = *task.iteration->frame;
    switch (info.role) {
      case Role::kEnter:
      case Role::kConstantEnter: {
        FrameInstance& child = ChildFrameLocked(*task.iteration, info.output_frame, ready);
        --child.missing_enters;
        PutDeadLocked(*child.iterations.front(), task.node, ready);
        CleanUpLocked(&child, ready);
        break;
      }
      case Role::kExit:
        // Dead for now: a later iteration may let a value out. The last one decides.
        if (task.iteration == frame.iterations.back().get()) {
          frame.dead_exits.push_back(task.node);
        }
        break;
      case Role::kNextIteration:
        break;  // The loop ends here.
      default:
        PutDeadLocked(*task.iteration, task.node, ready);
    }
  }
  EndTask(task, ready);
}

void FrameRun::EndTask(const Task& task, const Ready& newly_ready) {
  Ready ready(newly_ready);
  {
    MutexLock lock(mu_);
    Iteration& iteration = *task.iteration;
    --iteration.outstanding;
    if (!failed()) CleanUpLocked(iteration.frame, ready);
  }
  // This task's own place keeps the run alive until all others are submitted; the last of them, or
  // nobody, inherits it.
  for (size_t i = 0; i < ready.size(); ++i) {
    const bool last = i + 1 == ready.size();
    if (!last) outstanding_.fetch_add(1, std::memory_order_relaxed);
    environment_->scheduler->Submit(
        ready[i], plan_.costs[static_cast<size_t>(ready[i].node)].load(std::memory_order_relaxed));
    if (last) return;
  }
  if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

absl::Status FrameRun::TakeInputLocked(const Task& task, int i, FrameInstance::Value* value) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(task.node)];
  const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + i)];
  Slot& slot = task.iteration->slots[static_cast<size_t>(input.slot)];
  if (slot.state == Slot::State::kReference && input.dereference == PlanInput::kNoDereference) {
    value->reference = slot.reference;
  } else if (slot.state == Slot::State::kReference) {
    TANDEM_ASSIGN_OR_RETURN(value->value, slot.reference->Read("(by reference)"));
  } else if (slot.uses.load(std::memory_order_relaxed) == 1) {
    value->value = std::move(slot.value);
  } else {
    value->value = slot.value;
  }
  ReleaseUseLocked(slot);
  return absl::OkStatus();
}

void FrameRun::ReleaseUseLocked(Slot& slot) {
  if (IsDead(slot)) return;
  if (slot.uses.fetch_sub(1, std::memory_order_acq_rel) == 1) Clear(slot);
}

void FrameRun::ReleaseInputsLocked(const Task& task) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(task.node)];
  for (int32_t i = 0; i < node.num_inputs; ++i) {
    const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + i)];
    ReleaseUseLocked(task.iteration->slots[static_cast<size_t>(input.slot)]);
    if (input.dereference != PlanInput::kNoDereference) {
      Clear(task.iteration->dereferenced[static_cast<size_t>(input.dereference)]);
    }
  }
}

void FrameRun::PutLocked(Iteration& iteration, const FrameInstance::Value& value, Ready& ready) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(value.node)];
  const size_t index = static_cast<size_t>(node.first_slot);
  const int32_t uses = layout_.frames[static_cast<size_t>(iteration.frame->index)].slot_uses[index];
  Slot& slot = iteration.slots[index];
  if (uses > 0) {
    slot.value = value.value;
    slot.reference = value.reference;
    slot.state = value.reference ? Slot::State::kReference : Slot::State::kValue;
    slot.uses.store(uses, std::memory_order_relaxed);
  }
  PropagateLocked(iteration, value.node, /*node_is_dead=*/false, ready);
}

void FrameRun::PutDeadLocked(Iteration& iteration, int32_t node, Ready& ready) {
  const PlanNode& planned = plan_.nodes[static_cast<size_t>(node)];
  for (int32_t i = 0; i < planned.num_outputs; ++i) {
    iteration.slots[static_cast<size_t>(planned.first_slot + i)].state = Slot::State::kDead;
  }
  PropagateLocked(iteration, node, /*node_is_dead=*/true, ready);
}

void FrameRun::PropagateLocked(Iteration& iteration, int32_t node, bool node_is_dead,
                               Ready& ready) {
  const PlanNode& planned = plan_.nodes[static_cast<size_t>(node)];
  // Only these may let a node end without all of its outputs being alive.
  const Role role = layout_.nodes[static_cast<size_t>(node)].role;
  const bool outputs_may_be_dead = node_is_dead || role == Role::kSwitch || role == Role::kNormal;
  const int32_t end = layout_.first_edge[static_cast<size_t>(node) + 1];
  for (int32_t e = layout_.first_edge[static_cast<size_t>(node)]; e < end; ++e) {
    const FrameLayout::Edge& edge = layout_.edges[static_cast<size_t>(e)];
    bool is_dead = node_is_dead;
    if (edge.output >= 0 && outputs_may_be_dead) {
      is_dead = IsDead(iteration.slots[static_cast<size_t>(planned.first_slot + edge.output)]);
    }
    DeliverLocked(iteration, node, edge, is_dead, ready);
  }
}

void FrameRun::DeliverLocked(Iteration& iteration, int32_t from, const FrameLayout::Edge& edge,
                             bool is_dead, Ready& ready) {
  const FrameLayout::NodeInfo& info = layout_.nodes[static_cast<size_t>(edge.node)];
  int32_t& state = iteration.pending[static_cast<size_t>(info.local)];
  Task task{this, &iteration, edge.node};
  if (info.role != Role::kMerge) {
    --state;
    if (is_dead) state += Pending::kDeadUnit;
    if (Pending::Missing(state) != 0) return;
    task.is_dead = Pending::Dead(state) > 0 && info.role != Role::kControlTrigger;
  } else if (edge.input < 0) {
    --state;
    if (Pending::Missing(state) != 0 || (state & Pending::kDecided) == 0) return;
    // The value came, or all are dead, before the last control edge.
    const auto decided = iteration.decided.find(info.local);
    task.is_dead = decided == iteration.decided.end();
    if (!task.is_dead) task.merge_input = decided->second;
  } else if ((state & Pending::kDecided) != 0) {
    // A second value: nobody will look at it.
    if (!is_dead) {
      const PlanNode& node = plan_.nodes[static_cast<size_t>(edge.node)];
      const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + edge.input)];
      ReleaseUseLocked(iteration.slots[static_cast<size_t>(input.slot)]);
    }
    return;
  } else if (!is_dead) {
    state |= Pending::kDecided;
    task.merge_input = edge.input;
    if (Pending::Missing(state) != 0) {
      iteration.decided[info.local] = edge.input;
      return;
    }
  } else {
    state += Pending::kDeadUnit;
    // A loop that is entered dead is dead: its back edge will never bring anything.
    const Role role = layout_.nodes[static_cast<size_t>(from)].role;
    const bool all_dead = Pending::Dead(state) == info.num_data_inputs || role == Role::kEnter ||
                          role == Role::kConstantEnter;
    if (!all_dead) return;
    state |= Pending::kDecided;
    task.is_dead = true;
    if (Pending::Missing(state) != 0) return;
  }
  ++iteration.outstanding;
  ready.push_back(task);
}

FrameInstance& FrameRun::ChildFrameLocked(Iteration& iteration, int frame, Ready& ready) {
  for (const auto& child : iteration.children) {
    if (child->index == frame) return *child;
  }
  auto child = std::make_unique<FrameInstance>();
  child->index = frame;
  child->parent = iteration.frame;
  child->parent_iteration = &iteration;
  const FrameLayout::Frame& layout = layout_.frames[static_cast<size_t>(frame)];
  child->id = ChildFrameId(iteration.frame->id, iteration.number, layout.name);
  child->missing_enters = layout.num_enters;
  iteration.children.push_back(std::move(child));
  FrameInstance& added = *iteration.children.back();
  NewIterationLocked(added, ready);
  return added;
}

Iteration& FrameRun::NewIterationLocked(FrameInstance& frame, Ready& ready) {
  const FrameLayout::Frame& layout = layout_.frames[static_cast<size_t>(frame.index)];
  std::unique_ptr<Iteration> iteration;
  auto& spare = spare_iterations_[static_cast<size_t>(frame.index)];
  if (!spare.empty()) {
    iteration = std::move(spare.back());
    spare.pop_back();
  } else {
    iteration = std::make_unique<Iteration>();
    iteration->slots.reset(new Slot[layout.slot_uses.size()]);
    iteration->dereferenced.reset(new Slot[static_cast<size_t>(layout.num_dereferences)]);
  }
  iteration->frame = &frame;
  iteration->number = frame.iterations.empty() ? 0 : frame.iterations.back()->number + 1;
  iteration->pending = layout.pending;
  iteration->outstanding = 0;
  frame.iterations.push_back(std::move(iteration));
  frame.dead_exits.clear();
  Iteration& added = *frame.iterations.back();
  for (const auto& [index, value] : layout.constants) {
    Slot& slot = added.slots[static_cast<size_t>(index)];
    slot.value = value;
    slot.state = Slot::State::kValue;
    slot.uses.store(kConstantUses, std::memory_order_relaxed);
  }
  for (const FrameInstance::Value& constant : frame.constants) PutLocked(added, constant, ready);
  return added;
}

void FrameRun::CleanUpLocked(FrameInstance* frame, Ready& ready) {
  while (frame != &root_) {
    while (!frame->iterations.empty()) {
      Iteration& oldest = *frame->iterations.front();
      if (oldest.outstanding > 0 || !oldest.children.empty() || frame->missing_enters > 0) return;
      if (!frame->deferred.empty()) {
        // There is room for the next iteration now.
        Iteration& next = NewIterationLocked(*frame, ready);
        const std::vector<FrameInstance::Value> values = std::move(frame->deferred);
        frame->deferred.clear();
        for (const FrameInstance::Value& value : values) PutLocked(next, value, ready);
      }
      std::unique_ptr<Iteration> ended = std::move(frame->iterations.front());
      frame->iterations.pop_front();
      RecycleLocked(std::move(ended), frame->index);
    }
    // The loop has ended. Exits that let nothing out are dead for those outside.
    Iteration& outside = *frame->parent_iteration;
    for (const int32_t exit : frame->dead_exits) PutDeadLocked(outside, exit, ready);
    FrameInstance* const parent = frame->parent;
    auto& children = outside.children;
    children.erase(absl::c_find_if(children, [&](const std::unique_ptr<FrameInstance>& child) {
      return child.get() == frame;
    }));
    frame = parent;
  }
}

void FrameRun::RecycleLocked(std::unique_ptr<Iteration> iteration, int frame) {
  const FrameLayout::Frame& layout = layout_.frames[static_cast<size_t>(frame)];
  for (size_t i = 0; i < layout.slot_uses.size(); ++i) Clear(iteration->slots[i]);
  for (int i = 0; i < layout.num_dereferences; ++i) {
    Clear(iteration->dereferenced[static_cast<size_t>(i)]);
  }
  iteration->children.clear();
  iteration->decided.clear();
  spare_iterations_[static_cast<size_t>(frame)].push_back(std::move(iteration));
}

void FrameRun::Finish() {
  absl::Status status = TakeError();
  std::vector<Tensor> values;
  {
    MutexLock lock(mu_);
    Iteration& iteration = *root_.iterations.front();
    for (size_t i = 0; i < plan_.result_slots.size() && status.ok(); ++i) {
      absl::StatusOr<Tensor> value =
          TakeResult(iteration.slots[static_cast<size_t>(plan_.result_slots[i])]);
      status = value.status();
      if (status.ok()) values.push_back(*std::move(value));
    }
    // After an error loops may be left in the middle; they go with the iteration.
    RecycleLocked(std::move(root_.iterations.front()), 0);
    root_.iterations.clear();
  }
  Done done = std::move(done_);
  // May delete this.
  if (status.ok()) {
    done(std::move(values));
  } else {
    done(std::move(status));
  }
}

}  // namespace tandem
