#include "runtime/executor/flat_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Consumers of a constant never use it up.
constexpr int32_t kConstantUses = 1 << 30;

}  // namespace

FlatRun::FlatRun(const Plan& plan)
    : StepRun(plan),
      memory_(plan),
      slots_(new Slot[plan.slot_uses.size()]),
      dereferenced_(new Slot[static_cast<size_t>(plan.num_dereferences)]),
      pending_(new std::atomic<int32_t>[plan.nodes.size()]),
      invocations_(plan.nodes.size()),
      input_pointers_(plan.inputs.size()) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    input_pointers_[i] = &slots_[static_cast<size_t>(plan.inputs[i].slot)];
  }
  for (const Plan::ConstantSlot& constant : plan.constants) {
    Slot& slot = slots_[static_cast<size_t>(constant.slot)];
    slot.value = constant.value;
    slot.state = Slot::State::kValue;
  }
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    pending_[i].store(node.pending, std::memory_order_relaxed);
    KernelContext::Params params;
    params.node_name = plan.names[i];
    params.device = node.kernel_device;
    params.inputs = absl::MakeConstSpan(input_pointers_.data() + node.first_input,
                                        static_cast<size_t>(node.num_inputs));
    params.outputs = slots_.get() + node.first_slot;
    params.output_types = absl::MakeConstSpan(plan.types.data() + node.first_type,
                                              static_cast<size_t>(node.num_outputs));
    params.host_outputs = node.host_outputs;
    invocations_[i].run = this;
    invocations_[i].task = Task{this, nullptr, static_cast<int32_t>(i)};
    invocations_[i].context = KernelContext(params);
  }
}

void FlatRun::Start(StepEnvironment* environment, int call_depth, std::vector<Tensor> args,
                    Done done) {
  const bool devices_changed = memory_.BeginRun();
  if (devices_changed || environment_ != environment || call_depth_ != call_depth) {
    environment_ = environment;
    call_depth_ = call_depth;
    for (size_t i = 0; i < invocations_.size(); ++i) {
      KernelContext::Params params = invocations_[i].context.params();
      params.device = memory_.device(i);
      params.step = environment;
      params.call_depth = call_depth;
      invocations_[i].context = KernelContext(params);
    }
  }
  done_ = std::move(done);
  DecideWhetherToMeasure();
  for (const Plan::ConstantSlot& constant : plan_.constants) {
    slots_[static_cast<size_t>(constant.slot)].uses.store(kConstantUses, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < plan_.arg_slots.size(); ++i) {
    const int32_t index = plan_.arg_slots[i];
    if (index < 0 || plan_.slot_uses[static_cast<size_t>(index)] == 0) continue;
    Slot& slot = slots_[static_cast<size_t>(index)];
    slot.value = std::move(args[i]);
    slot.state = Slot::State::kValue;
    slot.uses.store(plan_.slot_uses[static_cast<size_t>(index)], std::memory_order_relaxed);
  }
  for (const int32_t node : plan_.prologue) {
    absl::Status status;
    Invoke(invocations_[static_cast<size_t>(node)], &status);
    if (status.ok()) status = PublishOutputs(node);
    if (ABSL_PREDICT_FALSE(!status.ok())) {
      Fail(node, status);  // The roots see it, and the run ends with them.
      break;
    }
  }
  // One more than there are roots, so that the run cannot end while they are being submitted.
  outstanding_.store(static_cast<int32_t>(plan_.roots.size()) + 1, std::memory_order_relaxed);
  for (const int32_t root : plan_.roots) Submit(root);
  Retire();
}

void FlatRun::Execute(const Task& task) {
  if (task.node == Task::kEndOfRun) {
    Finish();
    return;
  }
  const size_t i = static_cast<size_t>(task.node);
  const PlanNode& node = plan_.nodes[i];
  CancellationManager& cancellation = *environment_->cancellation;
  if (ABSL_PREDICT_FALSE(failed() || cancellation.IsCancelled())) {
    if (!failed()) Fail(-1, cancellation.status());
    Retire();
    return;
  }
  absl::Status status;
  if (node.has_value_of_reference) {
    status = Dereference(node, slots_.get(), dereferenced_.get(),
                         input_pointers_.data() + node.first_input);
    if (!status.ok()) {
      Complete(task.node, status);
      return;
    }
  }
  if (Invoke(invocations_[i], &status)) Complete(task.node, status);
}

std::vector<std::string> FlatRun::Waiting() const {
  std::vector<std::string> waiting;
  for (const Invocation& invocation : invocations_) {
    if (invocation.waits.load(std::memory_order_relaxed)) waiting.push_back(Describe(invocation));
  }
  return waiting;
}

void FlatRun::OnDone(Invocation& invocation, absl::Status status) {
  invocation.waits.store(false, std::memory_order_relaxed);
  if (invocation.started != 0) Measure(invocation);
  Complete(invocation.task.node, status);
}

absl::Status FlatRun::PublishOutputs(int32_t index) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(index)];
  for (int32_t i = 0; i < node.num_outputs; ++i) {
    Slot& slot = slots_[static_cast<size_t>(node.first_slot + i)];
    const int32_t uses = plan_.slot_uses[static_cast<size_t>(node.first_slot + i)];
    if (slot.state == Slot::State::kEmpty) {
      if (uses == 0) continue;
      return errors::Internal("the kernel left output ", i, " empty");
    }
    slot.uses.store(uses, std::memory_order_relaxed);
    if (uses == 0) {
      slot.value.Reset();
      slot.reference.reset();
      slot.state = Slot::State::kEmpty;
    }
  }
  return absl::OkStatus();
}

void FlatRun::ReleaseInputs(const PlanNode& node) {
  for (int32_t i = 0; i < node.num_inputs; ++i) {
    const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + i)];
    Slot& slot = slots_[static_cast<size_t>(input.slot)];
    // The last consumer needs no read-modify-write: nobody else is counting any more.
    if (slot.uses.load(std::memory_order_acquire) == 1 ||
        slot.uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      slot.value.Reset();
      slot.reference.reset();
      slot.state = Slot::State::kEmpty;
    }
    if (input.dereference != PlanInput::kNoDereference) {
      dereferenced_[static_cast<size_t>(input.dereference)].value.Reset();
    }
  }
}

void FlatRun::Complete(int32_t index, const absl::Status& status) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(index)];
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    Fail(index, status);
    Retire();
    return;
  }
  const absl::Status published = PublishOutputs(index);
  if (ABSL_PREDICT_FALSE(!published.ok())) {
    Fail(index, published);
    Retire();
    return;
  }
  ReleaseInputs(node);
  // The first successor that is ready takes over this task's place among the outstanding ones; it
  // is submitted last, since from then on the run may end on another thread.
  int32_t heir = -1;
  const int32_t end = node.first_successor + node.num_successors;
  for (int32_t i = node.first_successor; i < end; ++i) {
    const int32_t next = plan_.successors[static_cast<size_t>(i)];
    const size_t n = static_cast<size_t>(next);
    if (plan_.nodes[n].pending != 1) {
      if (pending_[n].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      pending_[n].store(plan_.nodes[n].pending, std::memory_order_relaxed);  // For the next run.
    }
    if (heir < 0) {
      heir = next;
      continue;
    }
    outstanding_.fetch_add(1, std::memory_order_relaxed);
    Submit(next);
  }
  if (heir >= 0) {
    Submit(heir);
  } else {
    Retire();
  }
}

void FlatRun::Submit(int32_t node) {
  const size_t i = static_cast<size_t>(node);
  environment_->scheduler->Submit(invocations_[i].task,
                                  plan_.costs[i].load(std::memory_order_relaxed));
}

void FlatRun::Retire() {
  if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

void FlatRun::Finish() {
  absl::Status status = TakeError();
  std::vector<Tensor> values;
  values.reserve(plan_.result_slots.size());
  for (const int32_t index : plan_.result_slots) {
    if (!status.ok()) break;
    absl::StatusOr<Tensor> value = TakeResult(slots_[static_cast<size_t>(index)]);
    status = value.status();
    if (status.ok()) values.push_back(*std::move(value));
  }
  if (!status.ok()) {
    // Whatever did not run left values behind, and counts that stopped half-way.
    for (size_t i = 0; i < plan_.slot_uses.size(); ++i) {
      slots_[i].value.Reset();
      slots_[i].reference.reset();
      slots_[i].state = Slot::State::kEmpty;
    }
    for (int32_t i = 0; i < plan_.num_dereferences; ++i) {
      dereferenced_[static_cast<size_t>(i)].value.Reset();
    }
    for (const Plan::ConstantSlot& constant : plan_.constants) {
      Slot& slot = slots_[static_cast<size_t>(constant.slot)];
      slot.value = constant.value;
      slot.state = Slot::State::kValue;
    }
    for (size_t i = 0; i < plan_.nodes.size(); ++i) {
      pending_[i].store(plan_.nodes[i].pending, std::memory_order_relaxed);
    }
  }
  memory_.EndRun(status.ok());
  Done done = std::move(done_);
  // May delete this.
  if (status.ok()) {
    done(std::move(values));
  } else {
    done(std::move(status));
  }
}

}  // namespace tandem
