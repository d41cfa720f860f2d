#include "runtime/rpc/master_session.h"

#include <utility>

#include "core/base/status.h"
#include "core/graph/import.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/signature_key.h"
#include "runtime/session/step_stats.h"

namespace tandem {

MasterSession::MasterSession(std::unique_ptr<Session> session,
                             std::vector<tensorflow::DeviceAttributes> devices,
                             const tensorflow::GraphDef& graph)
    : session_(std::move(session)), devices_(std::move(devices)) {
  MutexLock lock(mu_);
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
  TANDEM_RETURN_IF_ERROR(session_->Extend([&def](Graph& graph) {
    ImportOptions options;
    options.inputs_from_graph = true;
    return ImportInto(&graph, def, options);
  }));
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
  NamedCallable made;
  TANDEM_ASSIGN_OR_RETURN(made.callable, session_->MakeCallable(signature));
  made.run_options = options.run_options();
  MutexLock lock(mu_);
  if (closed_) return errors::FailedPrecondition("Session is closed.");
  callables_.emplace(next_callable_, std::move(made));
  return next_callable_++;
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
  absl::StatusOr<std::unique_ptr<Session::Callable>> callable =
      CatchOutOfMemory([&] { return session_->MakeCallable(signature); });
  if (!callable.ok()) {
    done(callable.status());
    return;
  }
  {
    MutexLock lock(mu_);
    signatures_.insert(SignatureKey(signature));
  }
  Start(*std::move(callable), std::move(feeds), run_options, cancellation, metadata,
        std::move(done));
}

void MasterSession::Start(std::shared_ptr<Session::Callable> callable, std::vector<Tensor> feeds,
                          const tensorflow::RunOptions& run_options,
                          CancellationManager* cancellation, tensorflow::RunMetadata* metadata,
                          Session::Callable::Done done) {
  {
    MutexLock lock(mu_);
    if (!closed_) ++running_;
    if (closed_) callable = nullptr;
  }
  if (callable == nullptr) {
    done(errors::FailedPrecondition("Session is closed."));
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
                  self->StepEnded();
                });
}

void MasterSession::StepEnded() {
  std::vector<absl::AnyInvocable<void()>> waiting;
  {
    MutexLock lock(mu_);
    if (--running_ == 0) waiting.swap(wait_for_end_);
    ended_.NotifyAll();
  }
  for (auto& closed : waiting) closed();
}

void MasterSession::Close(const absl::Status& reason, absl::AnyInvocable<void()> closed) {
  {
    MutexLock lock(mu_);
    closed_ = true;
  }
  session_->Close(reason);
  {
    MutexLock lock(mu_);
    if (running_ > 0) {
      wait_for_end_.push_back(std::move(closed));
      return;
    }
  }
  closed();
}

bool MasterSession::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(mu_);
  while (running_ > 0) {
    if (!ended_.WaitUntil(mu_, deadline)) return running_ == 0;
  }
  return true;
}

}  // namespace tandem
