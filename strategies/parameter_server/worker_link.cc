#include "strategies/parameter_server/worker_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/rpc/remote_session.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
constexpr absl::Duration kLongestSessionTimeout = absl::Minutes(1);

// For a server that has just answered.
absl::Duration FirstSessionTimeout(const WorkerLinkOptions& options) {
  return std::min(options.lost_after, absl::Seconds(3));
}

// Whether another worker, or this one later, may have more luck with the same graph.
bool IsWorkersFault(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct WorkerLink::Connection {
  struct Program {
    std::unique_ptr<Session> session;
    std::unique_ptr<Session::Callable> callable;  // Goes before its session.
  };

  explicit Connection(RemoteServer remote) : server(std::move(remote)) {}

  RemoteServer server;
  uint64_t incarnation = 0;
  std::string device_filter;
  CancellationManager lost;
  Mutex mu;
  CondVar ended;
  std::map<int, Program> programs ABSL_GUARDED_BY(mu);
  int running ABSL_GUARDED_BY(mu) = 0;
};

WorkerLink::WorkerLink(WorkerLinkOptions options, Watcher* watcher)
    : options_(std::move(options)),
      watcher_(watcher),
      session_timeout_(FirstSessionTimeout(options_)),
      status_(errors::Unavailable("it has not been reached yet")),
      thread_([this] { Run(); }) {}

WorkerLink::~WorkerLink() { Stop(); }

void WorkerLink::Stop() {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    ends_ = true;
    connection = connection_;
    changed_.NotifyAll();
  }
  if (connection != nullptr) connection->lost.Cancel(errors::Cancelled("the training ends"));
  connection.reset();
  if (thread_.joinable()) thread_.join();
}

void WorkerLink::Want(int number, std::shared_ptr<const WorkerProgram> program) {
  MutexLock lock(mu_);
  if (wanted_.emplace(number, std::move(program)).second) changed_.NotifyAll();
}

bool WorkerLink::CanRun(int program) const {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    if (is_suspect_ || ends_ || connection_ == nullptr) return false;
    connection = connection_;
  }
  MutexLock lock(connection->mu);
  return connection->programs.find(program) != connection->programs.end();
}

void WorkerLink::Suspect() {
  MutexLock lock(mu_);
  if (connection_ == nullptr) return;
  is_suspect_ = true;
  changed_.NotifyAll();
}

absl::Status WorkerLink::status() const {
  MutexLock lock(mu_);
  return status_;
}

void WorkerLink::Start(int program, std::vector<Tensor> feeds, CancellationManager* cancellation,
                       Done done) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    connection = connection_;
  }
  Session::Callable* callable = nullptr;
  if (connection != nullptr) {
    MutexLock lock(connection->mu);
    const auto found = connection->programs.find(program);
    if (found != connection->programs.end()) {
      callable = found->second.callable.get();
      ++connection->running;
    }
  }
  if (callable == nullptr) {
    done(errors::Unavailable(member(), " is not there"));
    return;
  }
  // Ended by whoever started it, and with the connection.
  struct Ends {
    explicit Ends(CancellationManager* lost) : cancellation(lost) {}
    CancellationManager cancellation;
    CancellationManager* caller = nullptr;
    CancellationManager::Token token = 0;
  };
  auto ends = std::make_shared<Ends>(&connection->lost);
  ends->caller = cancellation;
  ends->token = cancellation->NewToken();
  // Holds itself while it cancels.
  if (!cancellation->Register(ends->token, [weak = std::weak_ptr<Ends>(ends), cancellation] {
        if (const auto held = weak.lock()) held->cancellation.Cancel(cancellation->status());
      })) {
    ends->cancellation.Cancel(cancellation->status());
  }
  RunOptions options;
  options.cancellation = &ends->cancellation;
  callable->Start(std::move(feeds), options, nullptr,
                  [connection, ends,
                   done = std::move(done)](absl::StatusOr<std::vector<Tensor>> result) mutable {
                    ends->caller->Deregister(ends->token);
                    ends.reset();
                    done(std::move(result));
                    MutexLock lock(connection->mu);
                    --connection->running;
                    connection->ended.NotifyAll();
                  });
}

bool WorkerLink::Pause(absl::Duration duration) {
  const absl::Time end = absl::Now() + duration;
  MutexLock lock(mu_);
  while (!ends_ && absl::Now() < end) changed_.WaitUntil(mu_, end);
  return !ends_;
}

void WorkerLink::Run() {
  absl::Duration pause = kFirstPause;
  for (;;) {
    absl::StatusOr<std::shared_ptr<Connection>> connection = Connect();
    absl::Status status = connection.status();
    if (status.ok()) {
      status = Keep(*connection);
      bool was_there = false;
      {
        MutexLock lock(mu_);
        was_there = std::exchange(connection_, nullptr) != nullptr;
        is_suspect_ = false;
        status_ = status.ok() ? errors::Cancelled("the training ends") : status;
      }
      // Before its steps end: whoever sees them run again shall find the reason.
      if (was_there && !status.ok()) watcher_->WorkerLeft(this, status);
      Drop(*std::move(connection), status);
      if (status.ok()) return;
      if (was_there) pause = kFirstPause;
    }
    {
      MutexLock lock(mu_);
      status_ = status;
    }
    if (!Pause(pause)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::StatusOr<std::shared_ptr<WorkerLink::Connection>> WorkerLink::Connect() {
  TANDEM_ASSIGN_OR_RETURN(
      RemoteServer server,
      RemoteServer::Create(absl::StrCat("grpc://", options_.address), options_.security));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<RemoteDevice> devices,
                          server.OwnDevices(options_.lost_after));
  if (devices.empty()) return errors::Unavailable(options_.address, " has no devices");
  // Its own task by the name that its server has for it: nobody else is waited for.
  TANDEM_ASSIGN_OR_RETURN(const DeviceName name, DeviceName::Parse(devices[0].name));
  auto connection = std::make_shared<Connection>(std::move(server));
  connection->incarnation = devices[0].incarnation;
  connection->device_filter = name.TaskName();
  return connection;
}

absl::Status WorkerLink::Keep(const std::shared_ptr<Connection>& connection) {
  // Before it counts as there: one that refuses its sessions would come and go for ever.
  TANDEM_RETURN_IF_ERROR(MakePrograms(connection));
  {
    MutexLock lock(mu_);
    if (ends_) return absl::OkStatus();
    connection_ = connection;
    status_ = absl::OkStatus();
    is_suspect_ = false;
  }
  watcher_->WorkerJoined(this);
  watcher_->WorkerIsReady(this);
  absl::Time next = absl::Now() + options_.heartbeat;
  for (;;) {
    size_t known = 0;
    {
      MutexLock lock(mu_);
      {
        MutexLock programs(connection->mu);
        known = connection->programs.size();
      }
      while (!ends_ && !is_suspect_ && wanted_.size() == known + bad_.size() &&
             absl::Now() < next) {
        changed_.WaitUntil(mu_, next);
      }
      if (ends_) return absl::OkStatus();
    }
    TANDEM_RETURN_IF_ERROR(MakePrograms(connection));
    // Also when it is suspected.
    const absl::StatusOr<std::vector<RemoteDevice>> devices =
        connection->server.OwnDevices(options_.lost_after);
    if (!devices.ok()) {
      return errors::Unavailable("does not answer: ", devices.status().message());
    }
    if (devices->empty() || (*devices)[0].incarnation != connection->incarnation) {
      return errors::Unavailable("was started again");
    }
    next = absl::Now() + options_.heartbeat;
    {
      MutexLock lock(mu_);
      is_suspect_ = false;
    }
    watcher_->WorkerIsReady(this);
  }
}

absl::Status WorkerLink::MakePrograms(const std::shared_ptr<Connection>& connection) {
  for (;;) {
    int number = -1;
    std::shared_ptr<const WorkerProgram> program;
    {
      MutexLock lock(mu_);
      MutexLock programs(connection->mu);
      for (const auto& [wanted, value] : wanted_) {
        if (ends_) return absl::OkStatus();
        if (bad_.count(wanted) > 0 || connection->programs.count(wanted) > 0) continue;
        number = wanted;
        program = value;
        break;
      }
    }
    if (program == nullptr) return absl::OkStatus();
    RemoteSessionOptions options;
    options.device_filters = {connection->device_filter};
    // Its random ops and iterators are those of nobody else.
    options.isolated = true;
    options.security = options_.security;
    options.start_timeout = session_timeout_;
    Connection::Program made;
    absl::StatusOr<std::unique_ptr<Session>> session =
        ConnectSession(absl::StrCat("grpc://", options_.address), program->graph, options);
    absl::Status status = session.status();
    if (status.ok()) {
      made.session = *std::move(session);
      absl::StatusOr<std::unique_ptr<Session::Callable>> callable =
          made.session->MakeCallable(program->signature);
      status = callable.status();
      if (status.ok()) made.callable = *std::move(callable);
    }
    if (status.ok()) {
      session_timeout_ = FirstSessionTimeout(options_);
      MutexLock programs(connection->mu);
      connection->programs.emplace(number, std::move(made));
      continue;
    }
    if (IsWorkersFault(status)) {
      session_timeout_ = std::min(2 * session_timeout_, kLongestSessionTimeout);
      return errors::Unavailable("takes no graph: ", status.message());
    }
    {
      MutexLock lock(mu_);
      bad_.insert(number);
    }
    watcher_->ProgramIsBad(number, WithContext(status, member()));
  }
}

void WorkerLink::Drop(std::shared_ptr<Connection> connection, const absl::Status& reason) {
  connection->lost.Cancel(reason.ok()
                              ? errors::Cancelled("the training ends")
                              : errors::Unavailable(member(), " was lost: ", reason.message()));
  std::map<int, Connection::Program> programs;
  {
    MutexLock lock(connection->mu);
    // A call that is cancelled ends at once, whatever its server does.
    while (connection->running > 0) connection->ended.Wait(connection->mu);
    programs.swap(connection->programs);
  }
  for (auto& [number, program] : programs) program.callable.reset();
  programs.clear();
}

}  // namespace tandem::parameter_server
