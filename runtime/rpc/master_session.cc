#include "runtime/rpc/master_session.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/cost_graph.h"
#include "runtime/rpc/signature_key.h"
#include "runtime/session/step_stats.h"

namespace tandem {

namespace {

// Each holds the state of a step once it has begun, for a client that may never come back.
constexpr size_t kMostPartialRuns = 10'000;

void LogPlacement(const RunMetadata& metadata) {
  for (const auto& graph : metadata.partition_graphs) {
    for (const tensorflow::NodeDef& node : graph->node()) {
      // Names with an underscore are the runtime's own.
      if (absl::StartsWith(node.name(), "_")) continue;
      TANDEM_LOG(Info) << node.name() << ": (" << node.op() << "): " << node.device();
    }
  }
}

}  // namespace

MasterSession::MasterSession(std::unique_ptr<Session> session,
                             std::vector<tensorflow::DeviceAttributes> devices,
                             const tensorflow::CreateSessionRequest& request,
                             const ServerLimits& limits)
    : devices_(std::move(devices)),
      limits_(limits),
      operation_timeout_in_ms_(request.config().operation_timeout_in_ms()),
      allows_partition_graphs_(!request.config().experimental().disable_output_partition_graphs()),
      logs_placement_(request.config().log_device_placement()),
      costs_every_(request.config().graph_options().build_cost_model()),
      costs_after_(request.config().graph_options().build_cost_model_after()),
      session_(std::move(session)) {
  MutexLock lock(mu_);
  last_use_ = absl::Now();
  nodes_ = CountNodes(request.graph_def());
  TakeVersionsLocked(request.graph_def());
}

void MasterSession::TakeVersionsLocked(const tensorflow::GraphDef& def) {
  if (has_versions_ || !def.has_versions()) return;
  has_versions_ = true;
  producer_ = def.versions().producer();
}

absl::Status MasterSession::Extend(const tensorflow::ExtendSessionRequest& request,
                                   int64_t* new_version) {
  MutexLock lock(mu_);
  if (request.current_graph_version() != version_) {
    return errors::Aborted("Current version is ", version_, " but caller expected ",
                           request.current_graph_version(), ".");
  }
  if (closed_) return errors::FailedPrecondition("Session is closed.");
  const tensorflow::GraphDef& def = request.graph_def();
  if (has_versions_ && def.has_versions() && def.versions().producer() != producer_) {
    return errors::InvalidArgument("the session's graph was made by producer version ", producer_,
                                   ", its extension by ", def.versions().producer());
  }
  const int64_t nodes = nodes_ + CountNodes(def);
  TANDEM_RETURN_IF_ERROR(CheckNodes(nodes, limits_));
  TANDEM_RETURN_IF_ERROR(session_->Extend([this, &def](Graph& graph) {
    ImportOptions options = LimitedImport(limits_);
    options.inputs_from_graph = true;
    return ExplainImport(ImportInto(&graph, def, options), limits_);
  }));
  nodes_ = nodes;
  TakeVersionsLocked(def);
  *new_version = ++version_;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MasterSession::MakeCallable(const tensorflow::CallableOptions& options) {
  if (options.tensor_connection_size() > 0) {
    return errors::Unimplemented("callables with tensor_connection are not supported");
  }
  RunSignature signature;
  signature.feeds.assign(options.feed().begin(), options.feed().end());
  signature.fetches.assign(options.fetch().begin(), options.fetch().end());
  signature.targets.assign(options.target().begin(), options.target().end());
  TANDEM_RETURN_IF_ERROR(Enter());
  absl::StatusOr<std::unique_ptr<Session::Callable>> callable =
      CatchOutOfMemory([&] { return session_->MakeCallable(signature); });
  absl::StatusOr<int64_t> handle = int64_t{0};
  if (!callable.ok()) {
    handle = callable.status();
  } else {
    NamedCallable made;
    made.callable = *std::move(callable);
    made.run_options = options.run_options();
    MutexLock lock(mu_);
    handle = next_callable_++;
    callables_.emplace(*handle, std::move(made));
  }
  Leave();
  return handle;
}

absl::StatusOr<MasterSession::NamedCallable> MasterSession::FindCallable(int64_t handle) {
  MutexLock lock(mu_);
  const auto found = callables_.find(handle);
  if (found == callables_.end()) {
    return errors::InvalidArgument("there is no callable ", handle, " in this session");
  }
  return found->second;
}

void MasterSession::ReleaseCallable(int64_t handle) {
  MutexLock lock(mu_);
  callables_.erase(handle);
}

absl::StatusOr<std::string> MasterSession::SetUpPartialRun(const RunSignature& signature) {
  TANDEM_RETURN_IF_ERROR(Enter());
  absl::StatusOr<std::unique_ptr<Session::PartialRun>> made =
      CatchOutOfMemory([&] { return session_->SetUpPartialRun(signature); });
  absl::StatusOr<std::string> name = std::string();
  {
    MutexLock lock(mu_);
    if (!made.ok()) {
      name = made.status();
    } else if (closed_) {
      name = errors::FailedPrecondition("Session is closed.");
    } else if (partial_runs_.size() >= kMostPartialRuns) {
      name = errors::ResourceExhausted("the session has ", partial_runs_.size(),
                                       " partial runs that are not over; finish some, or close the "
                                       "session");
    } else {
      name = absl::StrCat(next_partial_run_++);
      partial_runs_.emplace(*name, *std::move(made));
      ++running_;
    }
  }
  if (made.ok()) made->reset();
  Leave();
  return name;
}

void MasterSession::EndPartialRun(const std::string& name, absl::AnyInvocable<void()> ended) {
  std::shared_ptr<Session::PartialRun> run;
  {
    MutexLock lock(mu_);
    const auto found = partial_runs_.find(name);
    if (found != partial_runs_.end()) {
      run = std::move(found->second);
      partial_runs_.erase(found);
    }
  }
  if (run == nullptr) {
    ended();
    return;
  }
  Session::PartialRun& ending = *run;
  ending.End(errors::Cancelled("the partial run is over"),
             [self = shared_from_this(), run = std::move(run), ended = std::move(ended)]() mutable {
               ended();
               run.reset();  // It is the session's, which may go now.
               self->Leave();
             });
}

void MasterSession::RunPartially(const std::string& name, Session::Feeds feeds,
                                 std::vector<std::string> fetches,
                                 const tensorflow::RunOptions& run_options,
                                 CancellationManager* cancellation,
                                 tensorflow::RunMetadata* metadata, bool* is_over,
                                 Session::Callable::Done done) {
  absl::Status status = Enter();
  if (!status.ok()) {
    *is_over = true;
    done(std::move(status));
    return;
  }
  std::shared_ptr<Session::PartialRun> run;
  {
    MutexLock lock(mu_);
    const auto found = partial_runs_.find(name);
    if (found != partial_runs_.end()) run = found->second;
    // In this very moment: its runs went with it.
    if (closed_) status = errors::FailedPrecondition("Session is closed.");
  }
  absl::StatusOr<Shown> shown = ReadOptions(run_options);
  if (run == nullptr) *is_over = true;
  if (run == nullptr && status.ok()) {
    status = errors::InvalidArgument(
        "Must run PartialRunSetup before performing partial runs: there is no run '", name,
        "', or it is over");
  } else if (status.ok()) {
    status = shown.status();
  }
  if (!status.ok()) {
    done(std::move(status));
    run.reset();
    Leave();
    return;
  }
  auto traced = std::make_unique<RunMetadata>();
  RunMetadata* const events = traced.get();
  Session::PartialRun& started = *run;
  started.Start(
      OptionsFor(*shown, cancellation), std::move(feeds), std::move(fetches), events,
      [self = shared_from_this(), name, run = std::move(run), traced = std::move(traced), metadata,
       is_over, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        *is_over = run->is_over();
        run.reset();
        if (*is_over) self->EndPartialRun(name, [] {});
        // The first call said what is wanted, and this one may be the last.
        Shown wanted;
        wanted.trace = !traced->events.empty();
        wanted.graphs = !traced->partition_graphs.empty();
        FillMetadata(*traced, wanted, metadata);
        done(std::move(results));
        self->Leave();
      });
}

int64_t MasterSession::Timeout(const tensorflow::RunOptions& run_options) const {
  return run_options.timeout_in_ms() > 0 ? run_options.timeout_in_ms() : operation_timeout_in_ms_;
}

RunOptions MasterSession::OptionsFor(const Shown& shown, CancellationManager* cancellation) {
  RunOptions options;
  options.cancellation = cancellation;
  options.trace = shown.trace || shown.costs;
  options.partition_graphs = shown.graphs || shown.costs || shown.placement;
  return options;
}

void MasterSession::FillMetadata(const RunMetadata& from, const Shown& shown,
                                 tensorflow::RunMetadata* to) {
  if (shown.placement) LogPlacement(from);
  if (to == nullptr) return;
  if (shown.trace) FillStepStats(from.events, to->mutable_step_stats());
  if (shown.graphs) {
    for (const auto& graph : from.partition_graphs) *to->add_partition_graphs() = *graph;
  }
  if (shown.costs) FillCostGraph(from, to->mutable_cost_graph());
}

absl::StatusOr<MasterSession::Shown> MasterSession::ReadOptions(
    const tensorflow::RunOptions& run_options) const {
  if (run_options.output_partition_graphs() && !allows_partition_graphs_) {
    return errors::InvalidArgument(
        "RunOptions.output_partition_graphs: the session was made with "
        "ConfigProto.experimental.disable_output_partition_graphs");
  }
  Shown shown;
  shown.trace = run_options.trace_level() == tensorflow::RunOptions::FULL_TRACE;
  shown.graphs = run_options.output_partition_graphs();
  return shown;
}

bool MasterSession::CountsCosts() {
  if (costs_every_ <= 0) return false;
  MutexLock lock(mu_);
  const int64_t step = ++steps_ - costs_after_;
  return step >= 0 && step % costs_every_ == 0;
}

std::shared_ptr<Session::Callable> MasterSession::FindRun(const RunSignature& signature) {
  const std::string key = SignatureKey(signature);
  MutexLock lock(mu_);
  const auto found = signatures_.find(key);
  return found == signatures_.end() ? nullptr : found->second;
}

void MasterSession::Run(const RunSignature& signature, std::vector<Tensor> feeds,
                        const tensorflow::RunOptions& run_options,
                        CancellationManager* cancellation, tensorflow::RunMetadata* metadata,
                        Session::Callable::Done done) {
  absl::Status status = Enter();
  if (!status.ok()) {
    done(std::move(status));
    return;
  }
  absl::StatusOr<std::unique_ptr<Session::Callable>> made =
      CatchOutOfMemory([&] { return session_->MakeCallable(signature); });
  if (made.ok()) {
    std::shared_ptr<Session::Callable> callable = *std::move(made);
    bool is_new = false;
    {
      MutexLock lock(mu_);
      is_new = signatures_.emplace(SignatureKey(signature), callable).second;
    }
    Start(std::move(callable), std::move(feeds), run_options, cancellation, metadata,
          std::move(done), is_new);
  } else {
    done(made.status());
  }
  Leave();
}

void MasterSession::Start(std::shared_ptr<Session::Callable> callable, std::vector<Tensor> feeds,
                          const tensorflow::RunOptions& run_options,
                          CancellationManager* cancellation, tensorflow::RunMetadata* metadata,
                          Session::Callable::Done done, bool is_new_signature) {
  absl::Status status = Enter();
  if (!status.ok()) {
    done(std::move(status));
    return;
  }
  absl::StatusOr<Shown> shown = ReadOptions(run_options);
  if (!shown.ok()) {
    done(shown.status());
    callable.reset();
    Leave();
    return;
  }
  shown->costs = CountsCosts();
  shown->placement = is_new_signature && logs_placement_;
  auto traced = std::make_unique<RunMetadata>();
  RunMetadata* const events = traced.get();
  Session::Callable& started = *callable;
  started.Start(std::move(feeds), OptionsFor(*shown, cancellation), events,
                [self = shared_from_this(), callable = std::move(callable),
                 traced = std::move(traced), metadata, shown = *shown,
                 done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
                  FillMetadata(*traced, shown, metadata);
                  done(std::move(results));
                  callable.reset();  // It is the session's, which may go now.
                  self->Leave();
                });
}

void MasterSession::NoteCall() {
  MutexLock lock(mu_);
  last_use_ = absl::Now();
}

absl::Time MasterSession::LastUse(absl::Time now) {
  MutexLock lock(mu_);
  // Partial runs between two calls wait for the client, who may be gone.
  return running_ > static_cast<int>(partial_runs_.size()) ? now : last_use_;
}

absl::Status MasterSession::Enter() {
  MutexLock lock(mu_);
  if (closed_) return errors::FailedPrecondition("Session is closed.");
  ++running_;
  return absl::OkStatus();
}

void MasterSession::Leave() {
  std::vector<absl::AnyInvocable<void()>> waiting;
  std::map<int64_t, NamedCallable> callables;
  absl::flat_hash_map<std::string, std::shared_ptr<Session::Callable>> signatures;
  std::unique_ptr<Session> session;
  {
    MutexLock lock(mu_);
    --running_;
    last_use_ = absl::Now();
    ended_.NotifyAll();
    if (running_ > 0 || !closed_) return;
    waiting.swap(wait_for_end_);
    callables.swap(callables_);
    signatures.swap(signatures_);
    session = std::move(session_);
  }
  callables.clear();
  signatures.clear();
  session.reset();
  for (auto& closed : waiting) closed();
}

void MasterSession::Close(const absl::Status& reason, absl::AnyInvocable<void()> closed) {
  bool is_gone = false;
  std::map<std::string, std::shared_ptr<Session::PartialRun>> partial_runs;
  {
    MutexLock lock(mu_);
    closed_ = true;
    partial_runs.swap(partial_runs_);
    is_gone = session_ == nullptr;
    if (!is_gone) {
      ++running_;
      wait_for_end_.push_back(std::move(closed));
    }
  }
  if (is_gone) {
    closed();
    return;
  }
  session_->Close(reason);
  for (auto& [name, run] : partial_runs) {
    Session::PartialRun& ending = *run;
    ending.End(reason, [self = shared_from_this(), run = std::move(run)]() mutable {
      run.reset();
      self->Leave();
    });
  }
  Leave();
}

bool MasterSession::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(mu_);
  while (running_ > 0) {
    if (!ended_.WaitUntil(mu_, deadline)) return running_ == 0;
  }
  return true;
}

}  // namespace tandem
