#include "runtime/rpc/master_session.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/signature_key.h"
#include "runtime/session/step_stats.h"

namespace tandem {

MasterSession::MasterSession(std::unique_ptr<Session> session,
                             std::vector<tensorflow::DeviceAttributes> devices,
                             const tensorflow::GraphDef& graph, const ServerLimits& limits)
    : devices_(std::move(devices)), limits_(limits), session_(std::move(session)) {
  MutexLock lock(mu_);
  last_use_ = absl::Now();
  nodes_ = CountNodes(graph);
  TakeVersionsLocked(graph);
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

bool MasterSession::HasRun(const RunSignature& signature) {
  MutexLock lock(mu_);
  return signatures_.contains(SignatureKey(signature));
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
  absl::StatusOr<std::unique_ptr<Session::Callable>> callable =
      CatchOutOfMemory([&] { return session_->MakeCallable(signature); });
  if (callable.ok()) {
    {
      MutexLock lock(mu_);
      signatures_.insert(SignatureKey(signature));
    }
    Start(*std::move(callable), std::move(feeds), run_options, cancellation, metadata,
          std::move(done));
  } else {
    done(callable.status());
  }
  Leave();
}

void MasterSession::Start(std::shared_ptr<Session::Callable> callable, std::vector<Tensor> feeds,
                          const tensorflow::RunOptions& run_options,
                          CancellationManager* cancellation, tensorflow::RunMetadata* metadata,
                          Session::Callable::Done done) {
  absl::Status status = Enter();
  if (!status.ok()) {
    done(std::move(status));
    return;
  }
  RunOptions options;
  options.cancellation = cancellation;
  options.trace = run_options.trace_level() == tensorflow::RunOptions::FULL_TRACE;
  auto traced = std::make_unique<RunMetadata>();
  RunMetadata* const events = traced.get();
  Session::Callable& started = *callable;
  started.Start(std::move(feeds), options, events,
                [self = shared_from_this(), callable = std::move(callable),
                 traced = std::move(traced), metadata, trace = options.trace,
                 done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
                  if (trace && metadata != nullptr) {
                    FillStepStats(traced->events, metadata->mutable_step_stats());
                  }
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
  return running_ > 0 ? now : last_use_;
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
  std::unique_ptr<Session> session;
  {
    MutexLock lock(mu_);
    --running_;
    last_use_ = absl::Now();
    ended_.NotifyAll();
    if (running_ > 0 || !closed_) return;
    waiting.swap(wait_for_end_);
    callables.swap(callables_);
    session = std::move(session_);
  }
  callables.clear();
  session.reset();
  for (auto& closed : waiting) closed();
}

void MasterSession::Close(const absl::Status& reason, absl::AnyInvocable<void()> closed) {
  bool is_gone = false;
  {
    MutexLock lock(mu_);
    closed_ = true;
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
