#include "runtime/executor/step_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/executor/flat_run.h"
#include "runtime/executor/frame_run.h"
#include "runtime/threads/inner_loop.h"

namespace tandem {
namespace {

StepTracer::Value Traced(const Slot& slot) {
  if (slot.state != Slot::State::kValue || !slot.value.is_valid()) return {};
  return {slot.value.dtype(), slot.value.shape()};
}

absl::Status WithMessage(const absl::Status& status, std::string message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// Who ends a step because it takes long, or because a task is gone, wants to know where it was.
bool WantsPlace(const absl::Status& reason, absl::string_view node) {
  return (absl::IsDeadlineExceeded(reason) || absl::IsUnavailable(reason)) &&
         !absl::StrContains(reason.message(), node);
}

}  // namespace

std::unique_ptr<StepRun> NewStepRun(const Plan& plan) {
  if (plan.frames != nullptr) return std::make_unique<FrameRun>(plan);
  return std::make_unique<FlatRun>(plan);
}

int64_t StepRun::KnownCostOf(const Task& task) const {
  constexpr int64_t kLeast = 300;
  if (task.node < 0 || task.is_dead) return kLeast;
  const PlanNode& node = plan_.nodes[static_cast<size_t>(task.node)];
  // An asynchronous one that is cheap does little more than begin to wait.
  if (node.is_cheap) return kLeast;
  if (node.kind != PlanNode::Kind::kSync) return std::numeric_limits<int64_t>::max();
  const int64_t cost = CostOf(task);
  return cost == 0 ? std::numeric_limits<int64_t>::max() : std::max(cost, kLeast);
}

void StepRun::Fail(int32_t node, const absl::Status& status, absl::string_view where) {
  CancellationManager& cancellation = *environment_->cancellation;
  const size_t i = static_cast<size_t>(std::max(node, 0));
  absl::Status error = status;
  if (cancellation.IsCancelled()) {
    // What ends a cancelled step is the reason for which it was cancelled, not its echoes.
    error = cancellation.status();
    if (node >= 0 && WantsPlace(error, plan_.names[i])) {
      error = WithMessage(error, absl::StrCat(error.message(), "; node '", plan_.names[i], "' (",
                                              plan_.ops[i], ")", where, " had not ended"));
    }
  } else if (node >= 0 && !absl::StrContains(status.message(), "[[{{node ")) {
    // Errors of functions name their own node already; the innermost is the one of interest.
    // Python clients look for the pattern to attach their op to the error.
    error = WithMessage(
        status, absl::StrCat(status.message(), " [[{{node ", plan_.names[i], "}}]] (", plan_.ops[i],
                             " on ", plan_.nodes[i].device->name(), ")", where));
  }
  {
    MutexLock lock(mu_);
    if (!error_.ok()) return;
    error_ = error;
    failed_.store(true, std::memory_order_release);
  }
  cancellation.Cancel(error);
}

void StepRun::End() {
  if (call_depth_ == 0 && environment_->is_driven) {
    Finish();
    return;
  }
  environment_->scheduler->Submit(Task{this, nullptr, Task::kEndOfRun});
}

absl::Status StepRun::TakeError() {
  MutexLock lock(mu_);
  failed_.store(false, std::memory_order_relaxed);
  return std::exchange(error_, absl::OkStatus());
}

absl::Status StepRun::Dereference(const PlanNode& node, Slot* slots, Slot* dereferenced,
                                  Slot** pointers) const {
  for (int32_t i = 0; i < node.num_inputs; ++i) {
    const PlanInput& input = plan_.inputs[static_cast<size_t>(node.first_input + i)];
    Slot& source = slots[input.slot];
    pointers[i] = &source;
    // A reference where a value is wanted; a Merge may also have let a value through.
    if (input.dereference == PlanInput::kNoDereference || source.state != Slot::State::kReference) {
      continue;
    }
    Slot& target = dereferenced[input.dereference];
    TANDEM_ASSIGN_OR_RETURN(target.value, source.reference->Read("(by reference)"));
    target.state = Slot::State::kValue;
    target.uses.store(2, std::memory_order_relaxed);  // The variable keeps it: not to be taken.
    pointers[i] = &target;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> StepRun::TakeResult(Slot& slot) const {
  switch (slot.state) {
    case Slot::State::kValue:
      if (slot.uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        slot.state = Slot::State::kEmpty;
        return std::move(slot.value);
      }
      return slot.value;
    case Slot::State::kReference: {
      absl::StatusOr<Tensor> value = slot.reference->Read("(fetched)");
      if (slot.uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        slot.reference.reset();
        slot.state = Slot::State::kEmpty;
      }
      return value;
    }
    case Slot::State::kDead:
      return absl::Status(environment_->dead_fetch_code,
                          "lies on a branch that was not taken, so that it has no value");
    case Slot::State::kEmpty:
      break;
  }
  return errors::Internal("was not computed");
}

void StepRun::Measure(const Invocation& invocation) {
  const int64_t now = MonotonicNanoseconds();
  const size_t i = static_cast<size_t>(invocation.task.node);
  const PlanNode& node = plan_.nodes[i];
  if (environment_->tracer != nullptr) {
    const KernelContext::Params& arguments = invocation.context.params();
    std::vector<StepTracer::Value> inputs, outputs;
    for (const Slot* const slot : arguments.inputs) inputs.push_back(Traced(*slot));
    for (size_t o = 0; o < arguments.output_types.size(); ++o) {
      outputs.push_back(Traced(arguments.outputs[o]));
    }
    environment_->tracer->Record(plan_.names[i], plan_.ops[i], node.device->name(),
                                 invocation.started, now, std::move(inputs), std::move(outputs));
  }
  // What an asynchronous node takes is a wait; nobody computes meanwhile.
  if (node.kind != PlanNode::Kind::kSync) return;
  const int64_t took =
      std::min<int64_t>(now - invocation.started, std::numeric_limits<int32_t>::max());
  std::atomic<int32_t>& cost = plan_.costs[i];
  const int32_t before = cost.load(std::memory_order_relaxed);
  // A mean over the last few runs; 1 at least, since 0 means that nothing is known.
  const int64_t mean = before == 0 ? took : (int64_t{3} * before + took) / 4;
  cost.store(static_cast<int32_t>(std::max<int64_t>(mean, 1)), std::memory_order_relaxed);
}

void StepRun::DecideWhetherToMeasure() {
  constexpr uint32_t kFirstRuns = 4;
  constexpr uint32_t kInterval = 16;
  measures_ = environment_->tracer != nullptr || runs_ < kFirstRuns || runs_ % kInterval == 0;
  ++runs_;
}

std::string StepRun::Describe(const Invocation& invocation) const {
  const size_t i = static_cast<size_t>(invocation.task.node);
  return absl::StrCat(plan_.names[i], " (", plan_.ops[i], ")");
}

// The callback of an asynchronous kernel. One that is destroyed without having been called reports
// an error, so that its step does not wait for ever.
class StepRun::CallOnce {
 public:
  explicit CallOnce(Invocation& invocation) : invocation_(&invocation) {}
  CallOnce(CallOnce&& other) noexcept : invocation_(std::exchange(other.invocation_, nullptr)) {}
  CallOnce& operator=(CallOnce&&) = delete;
  ~CallOnce() {
    if (invocation_ == nullptr) return;
    (*this)(errors::ResourceExhausted(
        "the kernel ended without a result; the system grants no memory for what it needs"));
  }

  void operator()(absl::Status status) {
    Invocation* const invocation = std::exchange(invocation_, nullptr);
    invocation->run->OnDone(*invocation, std::move(status));
  }

 private:
  Invocation* invocation_;
};

bool StepRun::Invoke(Invocation& invocation, absl::Status* status) {
  const PlanNode& node = plan_.nodes[static_cast<size_t>(invocation.task.node)];
  invocation.started =
      measures_ && (!node.is_cheap || environment_->tracer != nullptr) ? MonotonicNanoseconds() : 0;
  if (node.kind != PlanNode::Kind::kSync) invocation.waits.store(true, std::memory_order_relaxed);
  switch (node.kind) {
    case PlanNode::Kind::kSync: {
      const ScopedInnerParallelism threads(plan_.inner_parallelism);
      *status = CatchOutOfMemory([&] { return node.kernel->Compute(invocation.context); });
      if (invocation.started != 0) Measure(invocation);
      return true;
    }
    case PlanNode::Kind::kAsync: {
      const ScopedInnerParallelism threads(plan_.inner_parallelism);
      // When Start throws, what it threw away on its way out includes the callback, which reports
      // the error then.
      (void)CatchOutOfMemory([&] {
        node.async->Start(invocation.context, CallOnce(invocation));
        return absl::OkStatus();
      });
      return false;
    }
    case PlanNode::Kind::kQueued:
      node.device->Enqueue(*node.kernel, invocation.context, [&invocation](absl::Status result) {
        invocation.run->OnDone(invocation, std::move(result));
      });
      return false;
    case PlanNode::Kind::kCopyToDevice:
    case PlanNode::Kind::kCopyToHost: {
      auto copied = [&invocation](absl::StatusOr<Tensor> copy) {
        if (copy.ok()) invocation.context.SetOutput(0, *std::move(copy));
        invocation.run->OnDone(invocation, copy.status());
      };
      if (node.kind == PlanNode::Kind::kCopyToDevice) {
        node.device->CopyToDevice(invocation.context.input(0), std::move(copied));
      } else {
        node.device->CopyToHost(invocation.context.input(0), std::move(copied));
      }
      return false;
    }
  }
  *status = errors::Internal("a node of unknown kind");
  return true;
}

}  // namespace tandem
