#include "runtime/rpc/master.h"

#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "core/tensor/tensor_proto.h"
#include "proto/config.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/session/session.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

// Requests that are remembered to tell a repetition, as many as a stock server does.
constexpr size_t kRememberedRequests = 10'000;

std::string NewHandle() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

absl::Status CheckConfig(const tensorflow::ConfigProto& config) {
  if (config.use_per_session_threads() || config.session_inter_op_thread_pool_size() > 0) {
    return errors::InvalidArgument(
        "use_per_session_threads and session_inter_op_thread_pool: threads belong to the server");
  }
  if (config.cluster_def().job_size() > 0) {
    return errors::Unimplemented(
        "sessions that bring a cluster of their own (cluster_def) are not supported yet");
  }
  return absl::OkStatus();
}

void Describe(const Device& device, tensorflow::DeviceAttributes* attributes) {
  attributes->set_name(device.name());
  attributes->set_device_type(device.type());
  attributes->set_memory_limit(device.memory_limit());
  attributes->set_incarnation(device.incarnation());
}

}  // namespace

// A client's session. Its steps keep it alive.
class Master::ServerSession {
 public:
  static absl::StatusOr<std::shared_ptr<ServerSession>> Create(
      const tensorflow::CreateSessionRequest& request,
      const std::shared_ptr<SessionDevices>& shared_devices) {
    TANDEM_RETURN_IF_ERROR(CheckConfig(request.config()));
    TANDEM_ASSIGN_OR_RETURN(Graph graph, ImportGraphDef(request.graph_def()));
    SessionOptions options;
    options.devices = shared_devices->shared_devices();
    if (!request.config().isolate_session_state()) options.session_devices = shared_devices;
    options.soft_placement = request.config().allow_soft_placement();
    auto session = std::make_shared<ServerSession>();
    TANDEM_ASSIGN_OR_RETURN(session->session_, Session::Create(graph, std::move(options)));
    MutexLock lock(session->mu_);
    session->TakeVersionsLocked(request.graph_def());
    return session;
  }

  absl::Status Extend(const tensorflow::ExtendSessionRequest& request, int64_t* new_version) {
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

  // `done` is called once, after the step has let go of the session.
  void Run(const RunSignature& signature, std::vector<Tensor> feeds,
           const tensorflow::RunOptions& run_options, CancellationManager* cancellation,
           std::shared_ptr<ServerSession> self, Session::Callable::Done done,
           tensorflow::RunMetadata* metadata) {
    absl::StatusOr<std::unique_ptr<Session::Callable>> callable =
        CatchOutOfMemory([&] { return session_->MakeCallable(signature); });
    if (!callable.ok()) {
      done(callable.status());
      return;
    }
    Start(std::move(*callable), std::move(feeds), run_options, cancellation, std::move(self),
          std::move(done), metadata);
  }

  void Start(std::shared_ptr<Session::Callable> callable, std::vector<Tensor> feeds,
             const tensorflow::RunOptions& run_options, CancellationManager* cancellation,
             std::shared_ptr<ServerSession> self, Session::Callable::Done done,
             tensorflow::RunMetadata* metadata) {
    {
      MutexLock lock(mu_);
      if (closed_) {
        done(errors::FailedPrecondition("Session is closed."));
        return;
      }
      ++running_;
    }
    RunOptions options;
    options.cancellation = cancellation;
    options.trace = run_options.trace_level() == tensorflow::RunOptions::FULL_TRACE;
    auto traced = std::make_unique<RunMetadata>();
    RunMetadata* const events = traced.get();
    Session::Callable& started = *callable;
    started.Start(std::move(feeds), options, events,
                  [this, self = std::move(self), callable = std::move(callable),
                   traced = std::move(traced), metadata, trace = options.trace,
                   done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
                    if (trace && metadata != nullptr) {
                      FillStepStats(traced->events, metadata->mutable_step_stats());
                    }
                    done(std::move(results));
                    MutexLock lock(mu_);
                    --running_;
                    ended_.NotifyAll();
                  });
  }

  // Cancels the steps and waits for them. The session then refuses everything.
  void Close(const absl::Status& reason) {
    {
      MutexLock lock(mu_);
      closed_ = true;
    }
    session_->Close(reason);
    MutexLock lock(mu_);
    while (running_ > 0) ended_.Wait(mu_);
  }

  absl::StatusOr<int64_t> MakeCallable(const tensorflow::CallableOptions& options) {
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

  // False when steps run on after the deadline.
  bool WaitUntilIdle(absl::Time deadline) {
    MutexLock lock(mu_);
    while (running_ > 0) {
      if (!ended_.WaitUntil(mu_, deadline)) return running_ == 0;
    }
    return true;
  }

  struct NamedCallable {
    std::shared_ptr<Session::Callable> callable;
    tensorflow::RunOptions run_options;
  };
  absl::StatusOr<NamedCallable> FindCallable(int64_t handle) {
    MutexLock lock(mu_);
    const auto found = callables_.find(handle);
    if (found == callables_.end()) {
      return errors::InvalidArgument("there is no callable ", handle, " in this session");
    }
    return found->second;
  }
  void ReleaseCallable(int64_t handle) {
    MutexLock lock(mu_);
    callables_.erase(handle);
  }

 private:
  void TakeVersionsLocked(const tensorflow::GraphDef& def) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (has_versions_ || !def.has_versions()) return;
    has_versions_ = true;
    producer_ = def.versions().producer();
  }

  std::unique_ptr<Session> session_;
  Mutex mu_;
  CondVar ended_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_versions_ ABSL_GUARDED_BY(mu_) = false;
  int producer_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_callable_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, NamedCallable> callables_ ABSL_GUARDED_BY(mu_);
};

Master::Master(std::shared_ptr<DeviceSet> devices)
    : shared_devices_(std::make_shared<SessionDevices>(std::move(devices))) {}

Master::~Master() { CloseAll(errors::Unavailable("the server has ended")); }

absl::StatusOr<std::shared_ptr<Master::ServerSession>> Master::Find(const std::string& handle,
                                                                    absl::string_view hint) const {
  MutexLock lock(mu_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end()) {
    return errors::Aborted("Session ", handle, " is not found.", hint);
  }
  return found->second;
}

absl::Status Master::NoteRequest(int64_t id) {
  if (id == 0) return absl::OkStatus();
  MutexLock lock(mu_);
  if (!recent_requests_.insert(id).second) {
    return errors::Aborted("request ", id,
                           " came before: its answer was lost, and it is not run a second time");
  }
  request_order_.push_back(id);
  if (request_order_.size() > kRememberedRequests) {
    recent_requests_.erase(request_order_.front());
    request_order_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status Master::CreateSession(const tensorflow::CreateSessionRequest& request,
                                   tensorflow::CreateSessionResponse* response) {
  {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(drained_);
  }
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ServerSession> session,
                          ServerSession::Create(request, shared_devices_));
  const std::string handle = NewHandle();
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(drained_);
  sessions_.emplace(handle, std::move(session));
  response->set_session_handle(handle);
  return absl::OkStatus();
}

absl::Status Master::ExtendSession(const tensorflow::ExtendSessionRequest& request,
                                   tensorflow::ExtendSessionResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<ServerSession> session,
                          Find(request.session_handle()));
  int64_t version = 0;
  TANDEM_RETURN_IF_ERROR(session->Extend(request, &version));
  response->set_new_graph_version(version);
  return absl::OkStatus();
}

absl::Status Master::CloseSession(const tensorflow::CloseSessionRequest& request) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<ServerSession> session,
                          Find(request.session_handle(), " Possibly, this master has restarted."));
  {
    MutexLock lock(mu_);
    sessions_.erase(request.session_handle());
  }
  session->Close(errors::Cancelled("the session was closed"));
  return absl::OkStatus();
}

absl::Status Master::ListDevices(const tensorflow::ListDevicesRequest& request,
                                 tensorflow::ListDevicesResponse* response) {
  if (!request.session_handle().empty() && !Find(request.session_handle()).ok()) {
    return errors::InvalidArgument("Session ", request.session_handle(), " is not found.");
  }
  for (const auto& device : shared_devices_->devices().devices()) {
    Describe(*device, response->add_local_device());
  }
  return absl::OkStatus();
}

absl::Status Master::Reset(const tensorflow::ResetRequest& request) {
  CloseAll(errors::Aborted("the server was reset"));
  if (request.container_size() == 0) {
    shared_devices_->ClearContainer(ResourceManager::kDefaultContainer);
  }
  for (const std::string& container : request.container()) {
    shared_devices_->ClearContainer(container);
  }
  return absl::OkStatus();
}

void Master::RunStep(const tensorflow::RunStepRequest& request,
                     tensorflow::RunStepResponse* response, CancellationManager* cancellation,
                     Done done) {
  Done finish = [response, in_body = request.store_errors_in_response_body(),
                 done = std::move(done)](absl::Status status) mutable {
    if (!status.ok() && in_body) {
      response->set_status_code(static_cast<tensorflow::error::Code>(status.raw_code()));
      response->set_status_error_message(std::string(status.message()));
      status = absl::OkStatus();
    }
    done(std::move(status));
  };
  RunSignature signature;
  std::vector<Tensor> feeds;
  std::shared_ptr<ServerSession> session;
  const auto prepare = [&]() -> absl::Status {
    {
      MutexLock lock(mu_);
      TANDEM_RETURN_IF_ERROR(drained_);
    }
    if (!request.partial_run_handle().empty()) {
      return errors::Unimplemented("partial runs are not supported yet");
    }
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_RETURN_IF_ERROR(NoteRequest(request.request_id()));
    for (const tensorflow::NamedTensorProto& feed : request.feed()) {
      absl::StatusOr<Tensor> value = TensorFromProto(feed.tensor());
      if (!value.ok()) {
        return WithContext(value.status(), absl::StrCat("feed '", feed.name(), "'"));
      }
      signature.feeds.push_back(feed.name());
      feeds.push_back(*std::move(value));
    }
    signature.fetches.assign(request.fetch().begin(), request.fetch().end());
    signature.targets.assign(request.target().begin(), request.target().end());
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    finish(status);
    return;
  }
  // The answer's names are the very words of the request.
  std::vector<std::string> names = signature.fetches;
  ServerSession& running = *session;
  running.Run(
      signature, std::move(feeds), request.options(), cancellation, std::move(session),
      [response, names = std::move(names),
       finish = std::move(finish)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        absl::Status status = results.status();
        for (size_t i = 0; i < names.size() && status.ok(); ++i) {
          tensorflow::NamedTensorProto* const named = response->add_tensor();
          named->set_name(names[i]);
          status = CatchOutOfMemory([&] {
            return TensorToProto((*results)[i], named->mutable_tensor(), TensorProtoForm::kContent);
          });
          if (!status.ok()) {
            status = WithContext(status, absl::StrCat("fetch '", names[i], "'"));
            response->clear_tensor();
          }
        }
        finish(std::move(status));
      },
      response->mutable_metadata());
}

absl::Status Master::MakeCallable(const tensorflow::MakeCallableRequest& request,
                                  tensorflow::MakeCallableResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<ServerSession> session,
                          Find(request.session_handle()));
  TANDEM_RETURN_IF_ERROR(NoteRequest(request.request_id()));
  TANDEM_ASSIGN_OR_RETURN(const int64_t handle, session->MakeCallable(request.options()));
  response->set_handle(handle);
  return absl::OkStatus();
}

absl::Status Master::ReleaseCallable(const tensorflow::ReleaseCallableRequest& request) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<ServerSession> session,
                          Find(request.session_handle()));
  session->ReleaseCallable(request.handle());
  return absl::OkStatus();
}

int64_t Master::CallableTimeout(const tensorflow::RunCallableRequest& request) const {
  const auto session = Find(request.session_handle());
  if (!session.ok()) return 0;
  const auto callable = (*session)->FindCallable(request.handle());
  return callable.ok() ? callable->run_options.timeout_in_ms() : 0;
}

void Master::RunCallable(const tensorflow::RunCallableRequest& request,
                         tensorflow::RunCallableResponse* response,
                         CancellationManager* cancellation, Done done) {
  std::shared_ptr<ServerSession> session;
  ServerSession::NamedCallable callable;
  std::vector<Tensor> feeds;
  const auto prepare = [&]() -> absl::Status {
    {
      MutexLock lock(mu_);
      TANDEM_RETURN_IF_ERROR(drained_);
    }
    TANDEM_ASSIGN_OR_RETURN(session, Find(request.session_handle()));
    TANDEM_ASSIGN_OR_RETURN(callable, session->FindCallable(request.handle()));
    TANDEM_RETURN_IF_ERROR(NoteRequest(request.request_id()));
    for (int i = 0; i < request.feed_size(); ++i) {
      absl::StatusOr<Tensor> value = TensorFromProto(request.feed(i));
      if (!value.ok()) return WithContext(value.status(), absl::StrCat("feed ", i));
      feeds.push_back(*std::move(value));
    }
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    done(status);
    return;
  }
  ServerSession& running = *session;
  running.Start(
      std::move(callable.callable), std::move(feeds), callable.run_options, cancellation,
      std::move(session),
      [response, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        absl::Status status = results.status();
        if (status.ok()) {
          for (const Tensor& value : *results) {
            status = CatchOutOfMemory([&] {
              return TensorToProto(value, response->add_fetch(), TensorProtoForm::kContent);
            });
            if (!status.ok()) break;
          }
        }
        done(std::move(status));
      },
      response->mutable_metadata());
}

void Master::Drain(const absl::Status& reason) {
  MutexLock lock(mu_);
  if (drained_.ok()) drained_ = reason;
}

void Master::WaitUntilIdle(absl::Time deadline) {
  std::map<std::string, std::shared_ptr<ServerSession>> sessions;
  {
    MutexLock lock(mu_);
    sessions = sessions_;
  }
  for (const auto& [handle, session] : sessions) {
    if (!session->WaitUntilIdle(deadline)) return;
  }
}

void Master::CloseAll(const absl::Status& reason) {
  std::map<std::string, std::shared_ptr<ServerSession>> sessions;
  {
    MutexLock lock(mu_);
    sessions.swap(sessions_);
  }
  for (const auto& [handle, session] : sessions) session->Close(reason);
}

int Master::num_sessions() const {
  MutexLock lock(mu_);
  return static_cast<int>(sessions_.size());
}

}  // namespace tandem
