#include "runtime/rpc/worker.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "core/kernel/rendezvous_key.h"
#include "core/tensor/tensor_proto.h"
#include "proto/graph.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/session_config.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/rpc/task_rendezvous.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

// As many as a stock worker does.
constexpr size_t kRememberedRequests = 100'000;

constexpr absl::Duration kMasterAnswerTime = absl::Seconds(3);
// A master that is silent, or not there, is found lost again after one to four seconds. Sessions
// that wait for nobody can wait for it to come back.
constexpr int kMostLosses = 8;
constexpr absl::Duration kNextLossWithin = absl::Seconds(8);

}  // namespace

void DescribeDevice(const Device& device, tensorflow::DeviceAttributes* attributes) {
  attributes->set_name(device.name());
  attributes->set_device_type(device.type());
  attributes->set_memory_limit(device.memory_limit());
  attributes->set_incarnation(device.incarnation());
  attributes->set_xla_global_id(-1);
}

// A run of a registered graph.
struct Worker::Run {
  const tensorflow::RunGraphRequest* request = nullptr;
  tensorflow::RunGraphResponse* response = nullptr;
  CancellationManager* cancellation = nullptr;
  std::shared_ptr<WorkerSession> session;
  std::shared_ptr<RegisteredGraph> graph;
  std::shared_ptr<Rendezvous> rendezvous;
  RunMetadata metadata;
  // Of the values that the answer brings.
  Mutex mu;
  int missing ABSL_GUARDED_BY(mu) = 0;
  absl::Status status ABSL_GUARDED_BY(mu);
  Done done;
};

struct Worker::Anchor {
  Mutex mu;
  Worker* worker ABSL_GUARDED_BY(mu) = nullptr;  // Null: it is gone.
};

Worker::Worker(std::shared_ptr<DeviceSet> devices, const ClusterTasks* tasks,
               std::shared_ptr<ParameterStore> parameter_store)
    : tasks_(*tasks),
      shared_devices_(std::make_shared<SessionDevices>(std::move(devices))),
      parameter_store_(std::move(parameter_store)),
      default_session_(std::make_shared<WorkerSession>(shared_devices_, parameter_store_)),
      recent_requests_(kRememberedRequests),
      anchor_(std::make_shared<Anchor>()) {
  MutexLock lock(anchor_->mu);
  anchor_->worker = this;
}

Worker::~Worker() {
  {
    MutexLock lock(anchor_->mu);
    anchor_->worker = nullptr;
  }
  CloseAll(errors::Unavailable("the task has ended"));
}

void Worker::GetStatus(tensorflow::GetStatusResponse* response) const {
  for (const auto& device : shared_devices_->devices().devices()) {
    DescribeDevice(*device, response->add_device_attributes());
  }
}

absl::Status Worker::CheckNotDrained() const {
  MutexLock lock(mu_);
  return drained_;
}

absl::Status Worker::CreateSession(const tensorflow::CreateWorkerSessionRequest& request) {
  if (request.session_handle().empty()) {
    return errors::InvalidArgument("CreateWorkerSession: the session handle is empty");
  }
  if (request.server_def().cluster().job_size() > 0) {
    return errors::Unimplemented(
        "CreateWorkerSession: sessions that bring a cluster of their own (cluster_def) are not "
        "supported yet");
  }
  SessionEntry entry;
  entry.session = std::make_shared<WorkerSession>(
      request.isolate_session_state()
          ? std::make_shared<SessionDevices>(shared_devices_->shared_devices())
          : shared_devices_,
      parameter_store_);
  entry.master_task = request.master_task();
  entry.master_incarnation = request.master_incarnation();
  const std::shared_ptr<WorkerSession> session = entry.session;
  std::vector<SessionEntry> forsaken;
  {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(drained_);
    if (!entry.master_task.empty()) {
      for (auto other = sessions_.begin(); other != sessions_.end();) {
        if (other->second.master_task == entry.master_task &&
            other->second.master_incarnation != entry.master_incarnation) {
          forsaken.push_back(std::move(other->second));
          other = sessions_.erase(other);
        } else {
          ++other;
        }
      }
    }
    if (!sessions_.emplace(request.session_handle(), std::move(entry)).second) {
      return errors::AlreadyExists("CreateWorkerSession: ", tasks_.own(), " has a session ",
                                   request.session_handle(), " already");
    }
  }
  for (const SessionEntry& other : forsaken) {
    Close(other,
          errors::Aborted("the session's master, ", request.master_task(), ", has been restarted"));
  }
  FindMaster(request.session_handle(), session, request.master_task());
  return absl::OkStatus();
}

void Worker::DeleteSession(const std::string& handle) {
  SessionEntry entry;
  {
    MutexLock lock(mu_);
    const auto found = sessions_.find(handle);
    if (found == sessions_.end()) return;
    entry = std::move(found->second);
    sessions_.erase(found);
  }
  Close(entry, errors::Cancelled("the session was deleted"));
}

void Worker::Close(const SessionEntry& entry, const absl::Status& reason) {
  if (entry.master != nullptr) entry.master->Unwatch(entry.watch);
  entry.session->Close(reason);
}

void Worker::FindMaster(const std::string& handle, const std::shared_ptr<WorkerSession>& session,
                        const std::string& master_task) {
  const absl::StatusOr<std::shared_ptr<WorkerClient>> master = tasks_.Find(master_task);
  // The own task, or none of the cluster's.
  if (!master.ok()) return;
  CallOptions options;
  options.deadline = absl::Now() + kMasterAnswerTime;
  (*master)->GetStatus(options, [anchor = anchor_, master = *master, handle, session](
                                    const absl::StatusOr<tensorflow::GetStatusResponse>& response) {
    if (!response.ok()) return;
    MutexLock lock(anchor->mu);
    if (anchor->worker != nullptr) {
      anchor->worker->MasterAnswers(handle, session.get(), master);
    }
  });
}

void Worker::MasterAnswers(const std::string& handle, const WorkerSession* session,
                           std::shared_ptr<WorkerClient> master) {
  MutexLock lock(mu_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end() || found->second.session.get() != session) return;
  found->second.master = std::move(master);
  WatchLocked(handle, &found->second);
}

void Worker::WatchLocked(const std::string& handle, SessionEntry* entry) {
  entry->watch = entry->master->Watch(
      [anchor = anchor_, handle, session = entry->session.get()](const absl::Status& status) {
        MutexLock lock(anchor->mu);
        if (anchor->worker != nullptr) anchor->worker->MasterIsLost(handle, session, status);
      });
}

void Worker::MasterIsLost(const std::string& handle, const WorkerSession* session,
                          const absl::Status& status) {
  SessionEntry lost;
  {
    MutexLock lock(mu_);
    const auto found = sessions_.find(handle);
    // The address of one that is gone may be another's by now, which has a watch of its own.
    if (found == sessions_.end() || found->second.session.get() != session) return;
    SessionEntry& entry = found->second;
    const absl::Time now = absl::Now();
    entry.losses = now - entry.last_loss < kNextLossWithin ? entry.losses + 1 : 1;
    entry.last_loss = now;
    if (!session->runs() && entry.losses < kMostLosses) {
      WatchLocked(handle, &entry);
      return;
    }
    lost = std::move(entry);
    sessions_.erase(found);
  }
  TANDEM_LOG(Warning) << "session " << handle << " of " << lost.master_task
                      << " is closed: " << status.message();
  Close(lost, errors::Unavailable("the session's master is gone: ", status.message()));
}

absl::StatusOr<std::shared_ptr<WorkerSession>> Worker::FindSession(const std::string& handle,
                                                                   bool was_created) const {
  if (!was_created) return default_session_;
  MutexLock lock(mu_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end()) {
    return MakeWorkerRestarted(errors::Aborted("Session handle is not found: ", handle,
                                               ". Possibly this worker (\"", tasks_.own(),
                                               "\") just restarted."));
  }
  return found->second.session;
}

absl::Status Worker::RegisterGraph(const tensorflow::RegisterGraphRequest& request,
                                   tensorflow::RegisterGraphResponse* response) {
  TANDEM_RETURN_IF_ERROR(CheckNotDrained());
  TANDEM_ASSIGN_OR_RETURN(
      const std::shared_ptr<WorkerSession> session,
      FindSession(request.session_handle(), request.create_worker_session_called()));
  TANDEM_ASSIGN_OR_RETURN(const Graph graph, ImportGraphDef(request.graph_def()));
  TANDEM_ASSIGN_OR_RETURN(*response->mutable_graph_handle(),
                          session->Register(graph, OptimizeOptionsOf(request.graph_options())));
  return absl::OkStatus();
}

absl::Status Worker::DeregisterGraph(const tensorflow::DeregisterGraphRequest& request) {
  TANDEM_ASSIGN_OR_RETURN(
      const std::shared_ptr<WorkerSession> session,
      FindSession(request.session_handle(), request.create_worker_session_called()));
  return session->Deregister(request.graph_handle());
}

absl::StatusOr<std::shared_ptr<Rendezvous>> Worker::JoinStep(int64_t step_id) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Rendezvous> own, steps_.FindOrBegin(step_id));
  return std::shared_ptr<Rendezvous>(
      std::make_shared<TaskRendezvous>(step_id, std::move(own), &tasks_, &log_));
}

void Worker::EndStep(int64_t step_id, absl::Status reason) {
  steps_.End(step_id, std::move(reason));
}

absl::Status Worker::FindGraph(const tensorflow::RunGraphRequest& request, Run* run) const {
  if (request.is_partial()) {
    return errors::Unimplemented("RunGraph: partial runs are not supported yet");
  }
  TANDEM_ASSIGN_OR_RETURN(
      const std::shared_ptr<WorkerSession> session,
      FindSession(request.session_handle(), request.create_worker_session_called()));
  absl::StatusOr<std::shared_ptr<RegisteredGraph>> graph = session->Find(request.graph_handle());
  if (!graph.ok()) return MakeWorkerRestarted(graph.status());
  run->graph = *std::move(graph);
  run->session = session;
  run->session->RunBegins();
  return absl::OkStatus();
}

void Worker::RunGraph(const tensorflow::RunGraphRequest& request,
                      tensorflow::RunGraphResponse* response, CancellationManager* cancellation,
                      Done done) {
  auto run = std::make_shared<Run>();
  run->request = &request;
  run->response = response;
  run->cancellation = cancellation;
  run->done = std::move(done);
  {
    MutexLock lock(mu_);
    ++running_;
  }
  const auto prepare = [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckNotDrained());
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    TANDEM_RETURN_IF_ERROR(FindGraph(request, run.get()));
    TANDEM_ASSIGN_OR_RETURN(run->rendezvous, JoinStep(request.step_id()));
    for (const tensorflow::NamedTensorProto& sent : request.send()) {
      Rendezvous::Entry entry;
      absl::StatusOr<Tensor> value = TensorFromProto(sent.tensor());
      if (!value.ok()) return WithContext(value.status(), absl::StrCat("'", sent.name(), "'"));
      entry.value = *std::move(value);
      TANDEM_RETURN_IF_ERROR(run->rendezvous->Send(sent.name(), std::move(entry)));
    }
    return absl::OkStatus();
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok()) {
    EndRun(*run, status);
    return;
  }
  RunOptions options;
  options.cancellation = cancellation;
  options.rendezvous = run->rendezvous.get();
  options.trace = request.exec_opts().record_timeline();
  options.partition_graphs = request.exec_opts().record_partition_graphs();
  Run& started = *run;
  started.graph->Run(
      {}, options, &started.metadata,
      [this, run = std::move(run)](absl::StatusOr<std::vector<Tensor>> results) mutable {
        Run& ended = *run;
        const int wanted = ended.request->recv_key_size();
        if (!results.ok() || wanted == 0) {
          EndRun(ended, results.status());
          return;
        }
        {
          MutexLock lock(ended.mu);
          ended.missing = wanted;
        }
        for (const std::string& key : ended.request->recv_key()) {
          ended.response->add_recv()->set_name(key);
        }
        // All that the run sends is there by now; a key that is not waits for the step's end.
        for (int i = 0; i < wanted; ++i) {
          ended.rendezvous->Receive(ended.request->recv_key(i), ended.cancellation,
                                    [this, run, i](absl::StatusOr<Rendezvous::Entry> entry) {
                                      absl::Status status = entry.status();
                                      if (status.ok()) {
                                        status = CatchOutOfMemory([&] {
                                          return TensorToProto(
                                              entry->value,
                                              run->response->mutable_recv(i)->mutable_tensor(),
                                              TensorProtoForm::kContent);
                                        });
                                      }
                                      bool is_last = false;
                                      {
                                        MutexLock lock(run->mu);
                                        if (run->status.ok()) run->status = status;
                                        is_last = --run->missing == 0;
                                        status = run->status;
                                      }
                                      if (is_last) EndRun(*run, status);
                                    });
        }
      });
}

void Worker::EndRun(Run& run, absl::Status status) {
  if (run.request->exec_opts().record_timeline()) {
    FillStepStats(run.metadata.events, run.response->mutable_step_stats());
  }
  for (const auto& graph : run.metadata.partition_graphs) {
    *run.response->add_partition_graph() = *graph;
  }
  const int64_t step_id = run.request->step_id();
  if (!status.ok() && run.rendezvous != nullptr) {
    // Others that wait for this task's values get the cause, and that it is not theirs.
    const absl::Status derived = MakeDerived(FromTask(status, tasks_.own()));
    if (run.cancellation->IsCancelled()) {
      // Whoever ran the step may be gone and not clean up.
      steps_.End(step_id, derived);
    } else {
      run.rendezvous->Abort(derived);
    }
  }
  if (!status.ok() && run.request->store_errors_in_response_body()) {
    run.response->set_status_code(static_cast<tensorflow::error::Code>(status.raw_code()));
    run.response->set_status_error_message(std::string(status.message()));
    status = absl::OkStatus();
  }
  run.graph.reset();
  if (run.session != nullptr) run.session->RunEnds();
  run.session.reset();
  run.rendezvous.reset();
  run.done(std::move(status));
  MutexLock lock(mu_);
  --running_;
  ended_.NotifyAll();
}

void Worker::RecvTensor(const tensorflow::RecvTensorRequest& request,
                        CancellationManager* cancellation, Rendezvous::Received received) {
  const auto find = [&]() -> absl::StatusOr<std::shared_ptr<Rendezvous>> {
    TANDEM_ASSIGN_OR_RETURN(const RendezvousKey key,
                            RendezvousKey::Parse(request.rendezvous_key()));
    const Device* const device = shared_devices_->devices().Find(key.source_device);
    if (device == nullptr) {
      return MakeWorkerRestarted(errors::Aborted("RecvTensor: '", request.rendezvous_key(),
                                                 "' is asked of ", tasks_.own(),
                                                 ", which has no such device"));
    }
    if (device->incarnation() != key.source_incarnation) {
      return MakeWorkerRestarted(errors::Aborted("RecvTensor: '", request.rendezvous_key(),
                                                 "' is of an earlier life of ", tasks_.own(),
                                                 ": the task was restarted and has lost the step"));
    }
    TANDEM_RETURN_IF_ERROR(recent_requests_.Note(request.request_id()));
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Rendezvous> step,
                            steps_.FindOrBegin(request.step_id()));
    return step;
  };
  absl::StatusOr<std::shared_ptr<Rendezvous>> step = find();
  if (!step.ok()) {
    received(step.status());
    return;
  }
  (*step)->Receive(request.rendezvous_key(), cancellation, std::move(received));
}

void Worker::CleanupAll(const google::protobuf::RepeatedPtrField<std::string>& containers) {
  std::vector<std::shared_ptr<WorkerSession>> sessions;
  {
    MutexLock lock(mu_);
    for (const auto& [handle, entry] : sessions_) sessions.push_back(entry.session);
  }
  const auto clear = [&](absl::string_view container) {
    shared_devices_->ClearContainer(container);
    for (const std::shared_ptr<WorkerSession>& session : sessions) {
      session->ClearContainer(container);
    }
  };
  if (containers.empty()) clear(ResourceManager::kDefaultContainer);
  for (const std::string& container : containers) clear(container);
}

void Worker::Logging(const tensorflow::LoggingRequest& request,
                     tensorflow::LoggingResponse* response) {
  for (const int64_t step_id : request.fetch_step_id()) {
    tensorflow::LabeledStepStats* const step = response->add_step();
    step->set_step_id(step_id);
    *step->mutable_step_stats() = log_.Fetch(step_id);
  }
  if (request.enable_rpc_logging()) {
    log_.SetEnabled(true);
  } else if (request.disable_rpc_logging() || request.fetch_step_id().empty()) {
    log_.SetEnabled(false);
  }
  if (request.clear()) log_.Clear();
}

void Worker::Drain(const absl::Status& reason) {
  MutexLock lock(mu_);
  if (drained_.ok()) drained_ = reason;
}

void Worker::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(mu_);
  while (running_ > 0) {
    if (!ended_.WaitUntil(mu_, deadline)) return;
  }
}

void Worker::CloseAll(const absl::Status& reason) {
  std::map<std::string, SessionEntry> sessions;
  {
    MutexLock lock(mu_);
    sessions.swap(sessions_);
  }
  for (const auto& [handle, entry] : sessions) Close(entry, reason);
  default_session_->Close(reason);
  steps_.EndAll(reason);
  MutexLock lock(mu_);
  while (running_ > 0) ended_.Wait(mu_);
}

int Worker::num_sessions() const {
  MutexLock lock(mu_);
  return static_cast<int>(sessions_.size());
}

}  // namespace tandem
