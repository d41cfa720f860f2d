#include "runtime/rpc/master.h"

#include <atomic>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "proto/config.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/cluster_session.h"
#include "runtime/rpc/session_config.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

// Requests that are remembered to tell a repetition, as many as a stock server does.
constexpr size_t kRememberedRequests = 10'000;

constexpr absl::Duration kListTimeout = absl::Seconds(5);
constexpr absl::Duration kCleanupTimeout = absl::Seconds(30);

std::string NewHandle() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

// As many devices of each type as `devices` has, under another task's name.
absl::StatusOr<std::shared_ptr<DeviceSet>> Renamed(const DeviceSet& devices, const TaskId& task) {
  std::vector<DeviceCount> counts;
  for (const auto& device : devices.devices()) {
    const auto same = absl::c_find_if(
        counts, [&](const DeviceCount& count) { return count.type == device->type(); });
    if (same == counts.end()) {
      counts.push_back({device->type(), 1});
    } else {
      ++same->count;
    }
  }
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<DeviceSet> renamed,
                          DeviceSet::Create(counts, task.ToString()));
  renamed->set_files(devices.files());
  return renamed;
}

// Calls `done` with the first error, or OK, when as many have ended as were announced.
class AllDone {
 public:
  AllDone(size_t count, Master::Done done) : pending_(count), done_(std::move(done)) {}

  void One(const absl::Status& status) {
    {
      MutexLock lock(mu_);
      if (error_.ok()) error_ = status;
      if (--pending_ > 0) return;
    }
    done_(first_error());
  }

 private:
  absl::Status first_error() {
    MutexLock lock(mu_);
    return error_;
  }

  Mutex mu_;
  size_t pending_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  Master::Done done_;
};

}  // namespace

struct Master::Creation {
  const tensorflow::CreateSessionRequest* request = nullptr;
  tensorflow::CreateSessionResponse* response = nullptr;
  std::string handle;
  // The client's or the master's end.
  std::optional<CancellationManager> cancellation;
  CancellationManager* outer = nullptr;
  CancellationManager::Token token = 0;
  Done done;
};

Master::Master(Worker* worker, ControlThreads* control, absl::Duration start_timeout,
               const ServerLimits& limits)
    : worker_(*worker),
      control_(*control),
      start_timeout_(start_timeout),
      limits_(limits),
      recent_requests_(kRememberedRequests) {}

Master::~Master() { CloseAll(errors::Unavailable("the server has ended")); }

absl::StatusOr<std::shared_ptr<MasterSession>> Master::Find(const std::string& handle,
                                                            absl::string_view hint) const {
  MutexLock lock(mu_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end()) {
    return errors::Aborted("Session ", handle, " is not found.", hint);
  }
  found->second->NoteCall();
  return found->second;
}

absl::Status Master::CheckNotDrained() const {
  MutexLock lock(mu_);
  return drained_;
}

absl::Status Master::CheckRoomLocked() const {
  TANDEM_RETURN_IF_ERROR(drained_);
  if (static_cast<int64_t>(sessions_.size()) < limits_.sessions) return absl::OkStatus();
  return errors::ResourceExhausted("there are ", sessions_.size(),
                                   " sessions already, and this server's limit is ",
                                   limits_.sessions,
                                   " (--max_sessions); close some, or have abandoned ones closed "
                                   "(--session_idle_limit)");
}

absl::StatusOr<std::unique_ptr<Session>> Master::MakeLocalSession(
    const tensorflow::ConfigProto& config, const absl::optional<TaskId>& task, const Graph& graph) {
  SessionOptions options;
  options.devices = worker_.shared_devices()->shared_devices();
  if (task.has_value()) {
    TANDEM_ASSIGN_OR_RETURN(options.devices, Renamed(*options.devices, *task));
  } else if (!config.isolate_session_state()) {
    options.session_devices = worker_.shared_devices();
  }
  options.optimize = OptimizeOptionsOf(config.graph_options());
  options.soft_placement = config.allow_soft_placement();
  options.dead_fetch_code = absl::StatusCode::kInternal;
  options.parameter_store = worker_.parameter_store();
  return Session::Create(graph, std::move(options));
}

absl::Status Master::Add(const std::string& handle, std::shared_ptr<MasterSession> session,
                         tensorflow::CreateSessionResponse* response) {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(CheckRoomLocked());
  sessions_.emplace(handle, std::move(session));
  response->set_session_handle(handle);
  return absl::OkStatus();
}

void Master::CreationEnded() {
  MutexLock lock(mu_);
  --creations_;
  creation_ended_.NotifyAll();
}

void Master::CreateSession(const tensorflow::CreateSessionRequest& request,
                           tensorflow::CreateSessionResponse* response,
                           CancellationManager* cancellation, Done done) {
  std::optional<Graph> graph;
  std::vector<std::shared_ptr<WorkerClient>> others;
  const std::string handle = NewHandle();
  const auto prepare = [&]() -> absl::Status {
    {
      // Before the work, and again at its end.
      MutexLock lock(mu_);
      TANDEM_RETURN_IF_ERROR(CheckRoomLocked());
    }
    TANDEM_ASSIGN_OR_RETURN(
        const absl::optional<TaskId> task,
        OwnTaskIn(request.config().cluster_def(), request.target(), worker_.tasks().own()));
    TANDEM_RETURN_IF_ERROR(CheckNodes(CountNodes(request.graph_def()), limits_));
    absl::StatusOr<Graph> imported = ImportGraphDef(request.graph_def(), LimitedImport(limits_));
    if (!imported.ok()) return ExplainImport(imported.status(), limits_);
    graph = *std::move(imported);
    if (!task.has_value()) {
      TANDEM_ASSIGN_OR_RETURN(others,
                              FilterTasks(worker_.tasks(), request.config().device_filters()));
      if (!others.empty()) return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                            MakeLocalSession(request.config(), task, *graph));
    std::vector<tensorflow::DeviceAttributes> devices;
    for (const auto& device : session->devices().devices()) {
      DescribeDevice(*device, &devices.emplace_back());
    }
    return Add(
        handle,
        std::make_shared<MasterSession>(std::move(session), std::move(devices), request, limits_),
        response);
  };
  const absl::Status status = CatchOutOfMemory(prepare);
  if (!status.ok() || others.empty()) {
    done(status);
    return;
  }
  auto creation = std::make_shared<Creation>();
  creation->request = &request;
  creation->response = response;
  creation->handle = handle;
  creation->done = std::move(done);
  creation->cancellation.emplace(&creations_cancellation_);
  {
    MutexLock lock(mu_);
    ++creations_;
  }
  creation->token = cancellation->NewToken();
  Creation* const raw = creation.get();
  if (cancellation->Register(
          raw->token, [raw, cancellation] { raw->cancellation->Cancel(cancellation->status()); })) {
    creation->outer = cancellation;
  } else {
    creation->cancellation->Cancel(cancellation->status());
  }
  ClusterSessionOptions options;
  options.handle = handle;
  options.config = request.config();
  options.others = std::move(others);
  options.start_timeout = start_timeout_;
  CreateClusterSession(
      *std::move(graph), std::move(options), &worker_, &*raw->cancellation,
      [this, creation = std::move(creation)](absl::StatusOr<ClusterSession> made) mutable {
        absl::Status status = made.status();
        if (creation->outer != nullptr) creation->outer->Deregister(creation->token);
        creation->cancellation.reset();
        if (status.ok()) {
          status = Add(
              creation->handle,
              std::make_shared<MasterSession>(std::move(made->session), std::move(made->devices),
                                              *creation->request, limits_),
              creation->response);
        }
        creation->done(WithContext(status, "CreateSession"));
        CreationEnded();
      });
}

absl::Status Master::ExtendSession(const tensorflow::ExtendSessionRequest& request,
                                   tensorflow::ExtendSessionResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session,
                          Find(request.session_handle()));
  int64_t version = 0;
  TANDEM_RETURN_IF_ERROR(session->Extend(request, &version));
  response->set_new_graph_version(version);
  return absl::OkStatus();
}

void Master::CloseSession(const tensorflow::CloseSessionRequest& request, Done done) {
  const absl::StatusOr<std::shared_ptr<MasterSession>> found =
      Find(request.session_handle(), " Possibly, this master has restarted.");
  if (!found.ok()) {
    done(found.status());
    return;
  }
  {
    MutexLock lock(mu_);
    sessions_.erase(request.session_handle());
  }
  (*found)->Close(errors::Cancelled("the session was closed"),
                  [done = std::move(done)]() mutable { done(absl::OkStatus()); });
}

void Master::ListDevices(const tensorflow::ListDevicesRequest& request,
                         tensorflow::ListDevicesResponse* response, Done done) {
  if (!request.session_handle().empty()) {
    const absl::StatusOr<std::shared_ptr<MasterSession>> session = Find(request.session_handle());
    if (!session.ok()) {
      done(errors::InvalidArgument("Session ", request.session_handle(), " is not found."));
      return;
    }
    for (const tensorflow::DeviceAttributes& device : (*session)->devices()) {
      *response->add_local_device() = device;
    }
    done(absl::OkStatus());
    return;
  }
  tensorflow::GetStatusResponse own;
  worker_.GetStatus(&own);
  *response->mutable_local_device() = std::move(*own.mutable_device_attributes());
  // One more, so that `done` is not called before all are asked.
  const auto all = std::make_shared<AllDone>(worker_.tasks().others().size() + 1, std::move(done));
  const auto mu = std::make_shared<Mutex>();
  CallOptions options;
  options.deadline = absl::Now() + kListTimeout;
  for (const auto& [task, client] : worker_.tasks().others()) {
    client->GetStatus(
        options, [all, mu, response](absl::StatusOr<tensorflow::GetStatusResponse> status) {
          if (status.ok()) {
            MutexLock lock(*mu);
            for (tensorflow::DeviceAttributes& device : *status->mutable_device_attributes()) {
              *response->add_remote_device() = std::move(device);
            }
          } else {
            TANDEM_LOG(Warning) << "ListDevices leaves a task out: " << status.status().message();
          }
          all->One(absl::OkStatus());
        });
  }
  all->One(absl::OkStatus());
}

void Master::Reset(const tensorflow::ResetRequest& request, Done done) {
  StartClosingAll(errors::Aborted("the server was reset"),
                  [this, &request, done = std::move(done)]() mutable {
                    ClearContainers(request, std::move(done));
                  });
}

void Master::ClearContainers(const tensorflow::ResetRequest& request, Done done) {
  worker_.CleanupAll(request.container());
  const absl::StatusOr<std::vector<std::shared_ptr<WorkerClient>>> others =
      FilterTasks(worker_.tasks(), request.device_filters());
  if (!others.ok()) {
    done(others.status());
    return;
  }
  const auto all = std::make_shared<AllDone>(others->size() + 1, std::move(done));
  CallOptions options;
  options.deadline = absl::Now() + kCleanupTimeout;
  for (const std::shared_ptr<WorkerClient>& client : *others) {
    tensorflow::CleanupAllRequest clean;
    *clean.mutable_container() = request.container();
    client->CleanupAll(
        std::move(clean), options,
        [all, client](const absl::StatusOr<tensorflow::CleanupAllResponse>& response) {
          all->One(FromTask(response.status(), client->task()));
        });
  }
  all->One(absl::OkStatus());
}

void Master::Drain(const absl::Status& reason) {
  MutexLock lock(mu_);
  if (drained_.ok()) drained_ = reason;
}

void Master::WaitUntilIdle(absl::Time deadline) {
  std::map<std::string, std::shared_ptr<MasterSession>> sessions;
  {
    MutexLock lock(mu_);
    sessions = sessions_;
  }
  for (const auto& [handle, session] : sessions) {
    if (!session->WaitUntilIdle(deadline)) return;
  }
}

void Master::StartClosingAll(const absl::Status& reason, absl::AnyInvocable<void()> closed) {
  std::map<std::string, std::shared_ptr<MasterSession>> sessions;
  {
    MutexLock lock(mu_);
    sessions.swap(sessions_);
  }
  const auto all = std::make_shared<AllDone>(
      sessions.size() + 1, [closed = std::move(closed)](const absl::Status&) mutable { closed(); });
  for (const auto& [handle, session] : sessions) {
    session->Close(reason, [all] { all->One(absl::OkStatus()); });
  }
  sessions.clear();
  all->One(absl::OkStatus());
}

void Master::CloseAll(const absl::Status& reason) {
  creations_cancellation_.Cancel(reason);
  {
    MutexLock lock(mu_);
    while (creations_ > 0) creation_ended_.Wait(mu_);
  }
  Event closed;
  StartClosingAll(reason, [&closed] { closed.Set(); });
  closed.Wait();
}

void Master::CloseIdleSessions(absl::Duration limit) {
  std::vector<std::shared_ptr<MasterSession>> idle;
  const absl::Time now = absl::Now();
  {
    MutexLock lock(mu_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      if (it->second->LastUse(now) + limit <= now) {
        TANDEM_LOG(Info) << "session " << it->first << " is closed: it had no call for "
                         << absl::FormatDuration(limit) << " (--session_idle_limit)";
        idle.push_back(std::move(it->second));
        it = sessions_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const std::shared_ptr<MasterSession>& session : idle) {
    session->Close(errors::Aborted("the session had no call for ", absl::FormatDuration(limit)),
                   [] {});
  }
}

int Master::num_sessions() const {
  MutexLock lock(mu_);
  return static_cast<int>(sessions_.size());
}

}  // namespace tandem
