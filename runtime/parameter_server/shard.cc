#include "runtime/parameter_server/shard.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/parameter_server/shard_impl.h"
#include "runtime/threads/run_tokens.h"

namespace tandem::parameter_server {

// --- What needs that no update runs

absl::Status Shard::Impl::WhileStopped(absl::FunctionRef<absl::Status(Todo& todo)> body) {
  Todo todo;
  absl::Status status;
  {
    ScopedRunTokenRelease released;
    const absl::Time deadline = absl::Now() + options_.patience;
    MutexLock lock(mu_);
    ++stopping_;
    while (stopped_ || running_ > 0) {
      if (changed_.WaitUntil(mu_, deadline) || (!stopped_ && running_ == 0)) continue;
      status = errors::DeadlineExceeded("the ", running_, " updates that run at the shard did not ",
                                        "end in ", absl::FormatDuration(options_.patience));
      break;
    }
    --stopping_;
    stopped_ = stopped_ || status.ok();
  }
  const bool is_mine = status.ok();
  if (is_mine) status = body(todo);
  {
    MutexLock lock(mu_);
    if (is_mine) stopped_ = false;
    changed_.NotifyAll();
    Pump(todo);
  }
  todo.Do();
  return status;
}

absl::Status Shard::Impl::Apply(const AppliedPush& push) {
  TANDEM_ASSIGN_OR_RETURN(const ShardProgram* const program,
                          graph_->Find(push.program, /*updates=*/true));
  TANDEM_RETURN_IF_ERROR(program->CheckArguments(push.arguments));
  if (push.ids.empty()) return errors::InvalidArgument("a push that was applied has no name");
  for (const PushId& id : push.ids) TANDEM_RETURN_IF_ERROR(CheckPushId(id));
  return WhileStopped([&](Todo& todo) -> absl::Status {
    {
      MutexLock lock(mu_);
      TANDEM_RETURN_IF_ERROR(closed_);
      bool is_known = true;
      for (const PushId& id : push.ids) {
        is_known = is_known && names_.Look(id) == AppliedNames::Known::kApplied;
      }
      if (push.version <= version_ && is_known) return absl::OkStatus();
      if (push.version != version_ + 1) {
        return errors::FailedPrecondition("the replica is at version ", version_,
                                          ", and what it shall apply made version ", push.version);
      }
    }
    TANDEM_RETURN_IF_ERROR(program->callable->Run(push.arguments).status());
    MutexLock lock(mu_);
    ++version_;
    ++changes_;
    counts_.pushes += static_cast<int64_t>(push.ids.size());
    for (const PushId& id : push.ids) {
      names_.FinishBelow(id);
      names_.MarkApplied(id);
    }
    Advance(todo);
    return absl::OkStatus();
  });
}

absl::StatusOr<ShardState> Shard::Impl::Capture() {
  ShardState state;
  TANDEM_RETURN_IF_ERROR(WhileStopped([&](Todo&) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(state.variables, graph_->ReadAll());
    MutexLock lock(mu_);
    state.version = version_;
    state.applied = names_.Save();
    return absl::OkStatus();
  }));
  return state;
}

absl::Status Shard::Impl::Restore(ShardState state) {
  if (state.version < 0) return errors::InvalidArgument("a state of version ", state.version);
  TANDEM_RETURN_IF_ERROR(graph_->CheckValues(state.variables, /*all=*/true));
  AppliedNames names;
  TANDEM_RETURN_IF_ERROR(names.Load(state.applied));
  return WhileStopped([&](Todo& todo) -> absl::Status {
    TANDEM_RETURN_IF_ERROR(graph_->Assign(std::move(state.variables)));
    MutexLock lock(mu_);
    EndWaitingPushes(errors::Unavailable("the shard's state was replaced by that of version ",
                                         state.version, "; push again"),
                     todo);
    TANDEM_RETURN_IF_ERROR(names_.Load(state.applied));
    version_ = state.version;
    ++changes_;
    Advance(todo);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<Tensor>> Shard::Impl::Read(const std::vector<std::string>& variables) {
  std::vector<Tensor> values;
  TANDEM_RETURN_IF_ERROR(WhileStopped([&](Todo&) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(values, graph_->Read(variables));
    return absl::OkStatus();
  }));
  return values;
}

absl::Status Shard::Impl::Write(std::vector<std::pair<std::string, Tensor>> variables) {
  TANDEM_RETURN_IF_ERROR(graph_->CheckValues(variables, /*all=*/false));
  return WhileStopped([&](Todo&) -> absl::Status {
    const absl::Status status = graph_->Assign(std::move(variables));
    MutexLock lock(mu_);
    ++changes_;  // Of some of them even if it failed.
    return status;
  });
}

// --- Looks at it

int64_t Shard::Impl::version() const {
  MutexLock lock(mu_);
  return version_;
}

int64_t Shard::Impl::changes() const {
  MutexLock lock(mu_);
  return changes_;
}

ShardStatus Shard::Impl::status() const {
  const int64_t bytes = graph_->variable_bytes();
  MutexLock lock(mu_);
  ShardStatus status = counts_;
  status.version = version_;
  status.waiting = static_cast<int64_t>(waiting_.size());
  status.waiting_bytes = waiting_bytes_;
  status.variable_bytes = bytes;
  int64_t below = 0;
  for (size_t i = 0; i < staleness_.size() && 2 * below < staleness_count_; ++i) {
    below += staleness_[i];
    status.median_staleness = static_cast<int64_t>(i);
  }
  return status;
}

std::vector<PushId> Shard::Impl::newest() const {
  MutexLock lock(mu_);
  return names_.Newest();
}

// --- The end

void Shard::Impl::Close(const absl::Status& reason) {
  Todo todo;
  {
    MutexLock lock(mu_);
    if (!closed_.ok()) return;
    closed_ = reason.ok() ? errors::Cancelled("the shard was closed") : reason;
    EndWaitingPushes(closed_, todo);
    std::vector<int64_t> pulls;
    for (const auto& [number, call] : waiting_) pulls.push_back(number);
    for (const int64_t number : pulls) AnswerLater(Take(number), closed_, todo);
  }
  todo.Do();
}

Shard::Impl::~Impl() {
  const absl::Status reason = errors::Cancelled("the shard was let go");
  Close(reason);
  ScopedRunTokenRelease released;
  {
    // Updates end as a whole, unless they take too long.
    const absl::Time deadline = absl::Now() + options_.patience;
    MutexLock lock(mu_);
    while (running_ > 0 && changed_.WaitUntil(mu_, deadline)) {
    }
  }
  graph_->Close(reason);
  constexpr absl::Duration kBetweenLines = absl::Seconds(10);
  absl::Time next_line = absl::Now() + kBetweenLines;
  MutexLock lock(mu_);
  while (running_ > 0 || calls_ > 0) {
    if (changed_.WaitUntil(mu_, next_line)) continue;
    TANDEM_LOG(Warning) << "a shard waits for its end: " << running_ << " updates run, and "
                        << calls_ << " calls are not answered";
    next_line = absl::Now() + kBetweenLines;
  }
}

// --- Shard

Shard::Shard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Shard::~Shard() = default;

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(ShardOptions options) {
  if (options.on_applied != nullptr && !options.ordered) {
    return errors::InvalidArgument("only an ordered shard says what it applied");
  }
  if (options.max_waiting_bytes <= 0 || options.patience <= absl::ZeroDuration()) {
    return errors::InvalidArgument("a shard with max_waiting_bytes of ", options.max_waiting_bytes,
                                   " and a patience of ", absl::FormatDuration(options.patience),
                                   "; both must be above 0");
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ShardGraph> graph,
                          ShardGraph::Create(std::move(options.session), options.variable_budget));
  return std::unique_ptr<Shard>(
      new Shard(std::make_unique<Impl>(std::move(options), std::move(graph))));
}

absl::Status Shard::Extend(const tensorflow::GraphDef& graph, const std::vector<Program>& programs,
                           const std::vector<Variable>& variables) {
  return impl_->graph().Extend(graph, programs, variables);
}
void Shard::Pull(const std::string& program, std::vector<Tensor> arguments,
                 int64_t wait_for_version, CancellationManager* cancellation, Done done) {
  impl_->Pull(program, std::move(arguments), wait_for_version, cancellation, std::move(done));
}
void Shard::Push(const PushId& id, const Round* round, const std::string& program,
                 std::vector<Tensor> arguments, int64_t pulled_version,
                 CancellationManager* cancellation, Done done) {
  impl_->Push(id, round, program, std::move(arguments), pulled_version, cancellation,
              std::move(done));
}
absl::Status Shard::Apply(const AppliedPush& push) { return impl_->Apply(push); }
absl::StatusOr<ShardState> Shard::Capture() { return impl_->Capture(); }
absl::Status Shard::Restore(ShardState state) { return impl_->Restore(std::move(state)); }
absl::StatusOr<std::vector<Tensor>> Shard::Read(const std::vector<std::string>& variables) {
  return impl_->Read(variables);
}
absl::Status Shard::Write(std::vector<std::pair<std::string, Tensor>> variables) {
  return impl_->Write(std::move(variables));
}
int64_t Shard::version() const { return impl_->version(); }
int64_t Shard::changes() const { return impl_->changes(); }
std::vector<std::string> Shard::variables() const { return impl_->graph().variables(); }
ShardStatus Shard::status() const { return impl_->status(); }
std::vector<PushId> Shard::newest() const { return impl_->newest(); }
void Shard::Close(const absl::Status& reason) { impl_->Close(reason); }

}  // namespace tandem::parameter_server
