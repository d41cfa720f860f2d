#include "runtime/rpc/server.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/io/confined_files.h"
#include "grpcpp/alarm.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/parameter_server/remote_store.h"
#include "runtime/parameter_server/shard_host.h"
#include "runtime/parameter_server/shard_service.h"
#include "runtime/rpc/accept_loop.h"
#include "runtime/rpc/control_threads.h"
#include "runtime/rpc/host_transfer_service.h"
#include "runtime/rpc/listen_address.h"
#include "runtime/rpc/master.h"
#include "runtime/rpc/master_service.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/worker.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/rpc/worker_service.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {
namespace {

std::string WithPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

// FailedPrecondition: others can reach the server at `place`, and nothing keeps them out.
absl::Status CheckMayBeReached(const std::string& place, const Security& security, bool insecure) {
  const char* const variable = std::getenv("TANDEM_INSECURE");
  insecure = insecure || (variable != nullptr && absl::string_view(variable) == "1");
  if (!security.ServesTls() && security.token.empty()) {
    if (insecure) return absl::OkStatus();
    return errors::FailedPrecondition(
        "the server would listen on ", place,
        ", where others can reach it, without TLS (--tls_cert, --tls_key, --tls_ca) and without a "
        "token (--token_file); bind it to 127.0.0.1, or say that it may (--insecure)");
  }
  if (!security.ServesTls()) {
    TANDEM_LOG(Warning) << "others may be able to read what is sent to " << place
                        << ", the token, too: the server has no TLS (--tls_cert, --tls_key)";
  } else if (security.token.empty() && security.authorities.empty()) {
    TANDEM_LOG(Warning) << "whoever can reach " << place
                        << " may use the server: it has TLS, but asks neither for certificates "
                           "(--tls_ca) nor for a token (--token_file)";
  }
  return absl::OkStatus();
}

// Null: the server is to have none, nobody would use it, or the system lets it have none.
std::unique_ptr<SharedMemoryEndpoint> NewSharedMemory(const ServerOptions& options,
                                                      bool serves_clients) {
  size_t tasks = 0;
  for (const auto& [job, of_job] : options.config.jobs) tasks += of_job.size();
  if (options.host_transfers == HostTransfers::kOff) return nullptr;
  if (tasks < 2 && !serves_clients) return nullptr;
  absl::StatusOr<std::unique_ptr<SharedMemoryEndpoint>> endpoint =
      SharedMemoryEndpoint::Create(options.least_host_transfer_bytes);
  if (endpoint.ok()) return *std::move(endpoint);
  TANDEM_LOG(Warning) << "values go to other processes of this host in messages, not through "
                         "shared memory: "
                      << endpoint.status().message();
  return nullptr;
}

// Whom the server calls because a step's route, or a shard's definition, says so. Whoever may use
// the server could otherwise have it send its token, or what it knows, to anybody. A server that is
// alone and has no token tells nothing that its callers do not know.
parameter_server::AddressCheck AddressesOf(const ClusterConfig& config, const Security& security) {
  std::set<std::string> addresses;
  for (const auto& [job, tasks] : config.jobs) {
    for (const auto& [index, address] : tasks) addresses.insert(address);
  }
  if (addresses.size() < 2 && security.token.empty() && security.key.empty()) return nullptr;
  return [addresses = std::move(addresses)](const std::string& address) -> absl::Status {
    if (addresses.count(address) > 0) return absl::OkStatus();
    return errors::PermissionDenied(
        "this server does not call a parameter server at ", address,
        ": that is no address of its cluster, which has ", absl::StrJoin(addresses, ", "),
        ". All tasks of a job have to be started with the same cluster (TF_CONFIG, --cluster)");
  };
}

parameter_server::ShardHostOptions ShardsOf(const ServerOptions& options, const Security& security,
                                            std::shared_ptr<DeviceSet> devices,
                                            std::shared_ptr<parameter_server::CallFaults> faults) {
  parameter_server::ShardHostOptions shards;
  shards.task = options.task.ToString();
  shards.devices = std::move(devices);
  shards.security = security;
  shards.faults = std::move(faults);
  shards.limits = options.limits;
  shards.replica_lost_after = options.replica_lost_after;
  shards.check_address = AddressesOf(options.config, security);
  return shards;
}

std::shared_ptr<ParameterStore> NewStore(const ServerOptions& options, const Security& security,
                                         parameter_server::ShardHost* local) {
  parameter_server::RemoteStore::Options store;
  store.security = security;
  store.local = local;
  store.faults = local->options().faults;
  store.check_address = local->options().check_address;
  store.host_transfers = options.host_transfers;
  store.least_host_transfer_bytes = options.least_host_transfer_bytes;
  return std::make_shared<parameter_server::RemoteStore>(std::move(store));
}

// Lets graphs touch what the options say, and no more.
absl::Status ConfineGraphs(const ServerOptions& options, bool is_on_loopback, DeviceSet* devices) {
  if (!options.allow_paths.has_value() && is_on_loopback) return absl::OkStatus();
  const std::vector<std::string> folders = options.allow_paths.value_or(std::vector<std::string>());
  absl::StatusOr<std::unique_ptr<FileSystem>> files = ConfinedFileSystem(
      folders, folders.empty()
                   ? "the server can be reached from other machines: --allow_paths names "
                     "the folders that graphs may touch"
                   : absl::StrCat("the server was started with --allow_paths=",
                                  absl::StrJoin(folders, ",")));
  if (!files.ok()) {
    return errors::InvalidArgument("--allow_paths: ", files.status().message());
  }
  devices->set_files(*std::move(files));
  return absl::OkStatus();
}

class GrpcServer final : public Server {
 public:
  GrpcServer(std::string listen_host, std::string own_host, int port, const ServerOptions& options,
             Security security, std::shared_ptr<DeviceSet> devices,
             std::shared_ptr<parameter_server::CallFaults> faults)
      : listen_host_(std::move(listen_host)),
        own_host_(std::move(own_host)),
        wanted_port_(port),
        security_(std::move(security)),
        serves_clients_in_memory_(!security_.ServesTls()),
        shared_memory_(NewSharedMemory(options, serves_clients_in_memory_)),
        tasks_(options.config, options.task, security_, shared_memory_.get()),
        shards_(ShardsOf(options, security_, devices, std::move(faults))),
        worker_(std::move(devices), &tasks_, NewStore(options, security_, &shards_)),
        master_(&worker_, &control_, options.start_timeout, options.limits),
        max_message_bytes_(options.limits.message_bytes),
        session_idle_limit_(options.session_idle_limit) {}

  ~GrpcServer() override { Stop(absl::ZeroDuration()); }

  absl::Status Start() override {
    MutexLock lock(mu_);
    if (server_ != nullptr) return errors::FailedPrecondition("the server was started already");
    TANDEM_ASSIGN_OR_RETURN(OwnedFd listener, ListenOn(listen_host_, wanted_port_));
    TANDEM_ASSIGN_OR_RETURN(port_, PortOf(listener));
    const int listens = listener.get();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    master_service_ = NewMasterService(&master_, &control_,
                                       serves_clients_in_memory_ ? shared_memory_.get() : nullptr);
    worker_service_ = NewWorkerService(&worker_, &control_);
    shard_service_ = parameter_server::NewShardService(
        &shards_, serves_clients_in_memory_ ? shared_memory_.get() : nullptr);
    if (shared_memory_ != nullptr) {
      host_transfer_service_ =
          NewHostTransferService(shared_memory_.get(), serves_clients_in_memory_);
    }
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(max_message_bytes_);
    builder.SetMaxSendMessageSize(-1);
    std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
        builder.experimental().AddExternalConnectionAcceptor(
            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
            NewServerCredentials(security_));
    builder.RegisterService(master_service_.get());
    builder.RegisterService(worker_service_.get());
    builder.RegisterService(shard_service_.get());
    if (host_transfer_service_ != nullptr) builder.RegisterService(host_transfer_service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return errors::Internal("gRPC makes no server");
    TANDEM_ASSIGN_OR_RETURN(
        accept_loop_, AcceptLoop::Start(std::move(listener), [acceptor, listens](OwnedFd fd) {
          grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
          connection.listener_fd = listens;
          connection.fd = fd.Release();
          acceptor->HandleNewConnection(&connection);
        }));
    LookForIdleSessionsLocked();
    return absl::OkStatus();
  }

  std::string target() const override {
    MutexLock lock(mu_);
    return absl::StrCat("grpc://", WithPort(own_host_, port_));
  }

  bool Stop(absl::Duration grace) override {
    const bool had_sessions = master_.num_sessions() > 0 || worker_.num_sessions() > 0;
    std::unique_ptr<grpc::Server> server;
    std::unique_ptr<AcceptLoop> accept_loop;
    {
      MutexLock lock(mu_);
      server = std::move(server_);
      accept_loop = std::move(accept_loop_);
    }
    if (server == nullptr) return had_sessions;
    StopLookingForIdleSessions();
    if (auto* health = server->GetHealthCheckService()) health->SetServingStatus(false);
    const absl::Status drained =
        errors::Unavailable("the server of ", tasks_.own(), " is shutting down");
    master_.Drain(drained);
    worker_.Drain(drained);
    const absl::Time deadline = absl::Now() + grace;
    master_.WaitUntilIdle(deadline);
    worker_.WaitUntilIdle(deadline);
    // After the steps, which may call them.
    shards_.Drain(drained);
    shards_.WaitUntilIdle(deadline);
    // Steps that outlast the grace are cancelled, and their clients told why, while there is still
    // a connection to tell them on.
    const absl::Status ending =
        errors::Unavailable("the server of ", tasks_.own(), " is ending; its steps had ",
                            absl::FormatDuration(grace), " to end");
    master_.CloseAll(ending);
    worker_.CloseAll(ending);
    shards_.CloseAll(ending);
    accept_loop.reset();
    constexpr absl::Duration kLastWords = absl::Seconds(2);
    server->Shutdown(absl::ToChronoTime(absl::Now() + kLastWords));
    server->Wait();
    return had_sessions;
  }

 private:
  void LookForIdleSessionsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (session_idle_limit_ == absl::InfiniteDuration()) return;
    looks_ = true;
    constexpr absl::Duration kLeast = absl::Milliseconds(10);
    // A new one each time: the last one's callback may not have returned yet.
    idle_alarm_ = std::make_unique<grpc::Alarm>();
    idle_alarm_->Set(absl::ToChronoTime(absl::Now() + std::max(session_idle_limit_ / 4, kLeast)),
                     [this](bool went_off) {
                       if (went_off) master_.CloseIdleSessions(session_idle_limit_);
                       MutexLock lock(mu_);
                       looks_ = false;
                       if (server_ != nullptr) LookForIdleSessionsLocked();
                       looked_.NotifyAll();
                     });
  }

  // REQUIRES: `server_` is null.
  void StopLookingForIdleSessions() {
    MutexLock lock(mu_);
    if (idle_alarm_ != nullptr) idle_alarm_->Cancel();
    while (looks_) looked_.Wait(mu_);
  }

  const std::string listen_host_;
  const std::string own_host_;
  const int wanted_port_;
  const Security security_;
  // As many graphs are compiled at once.
  static constexpr size_t kControlThreads = 4;
  ControlThreads control_{kControlThreads};
  const bool serves_clients_in_memory_;
  const std::unique_ptr<SharedMemoryEndpoint> shared_memory_;  // Null: values go in messages.
  const ClusterTasks tasks_;
  parameter_server::ShardHost shards_;
  Worker worker_;
  Master master_;
  const int max_message_bytes_;
  const absl::Duration session_idle_limit_;
  std::unique_ptr<grpc::Service> master_service_;
  std::unique_ptr<grpc::Service> worker_service_;
  std::unique_ptr<grpc::Service> shard_service_;
  std::unique_ptr<grpc::Service> host_transfer_service_;
  mutable Mutex mu_;
  std::unique_ptr<grpc::Server> server_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<AcceptLoop> accept_loop_ ABSL_GUARDED_BY(mu_);
  int port_ ABSL_GUARDED_BY(mu_) = 0;
  CondVar looked_;
  bool looks_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::Alarm> idle_alarm_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(ServerOptions options) {
  const std::string* const address = options.config.Address(options.task);
  if (address == nullptr) {
    return errors::InvalidArgument("the cluster has no task ", options.task.index, " of job '",
                                   options.task.job, "'");
  }
  TANDEM_ASSIGN_OR_RETURN(const HostPort own, ParseHostPort(*address));
  TANDEM_RETURN_IF_ERROR(CheckLimits(options.limits));
  if (options.session_idle_limit <= absl::ZeroDuration()) {
    return errors::InvalidArgument(
        "--session_idle_limit=", absl::FormatDuration(options.session_idle_limit),
        ": it has to be positive");
  }
  std::string bind;
  if (!options.bind.empty()) {
    TANDEM_ASSIGN_OR_RETURN(bind, ResolveBindAddress(options.bind));
  }
  TANDEM_ASSIGN_OR_RETURN(Security security, SecurityOrEnvironment(options.security));
  if (!security.authorities.empty() && !security.ServesTls()) {
    return errors::InvalidArgument(
        "a TLS certificate authority (--tls_ca) asks clients for certificates; the server needs "
        "its own for that (--tls_cert, --tls_key)");
  }
  const std::string& place = options.bind.empty() ? own.host : bind;
  if (!IsLoopback(place)) {
    TANDEM_RETURN_IF_ERROR(CheckMayBeReached(place, security, options.insecure));
  }
  std::shared_ptr<DeviceSet> devices;
  const std::string prefix = options.task.ToString();
  if (options.devices.empty()) {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::FromEnvironment(prefix));
  } else {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<DeviceCount> counts,
                            ParseDeviceCounts(options.devices));
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::Create(counts, prefix));
  }
  TANDEM_RETURN_IF_ERROR(ConfineGraphs(options, IsLoopback(place), devices.get()));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<parameter_server::CallFaults> faults,
                          parameter_server::CallFaults::FromEnvironment());
  return std::make_unique<GrpcServer>(bind.empty() ? ListenHost(own.host) : bind, own.host,
                                      options.port.value_or(own.port), options, std::move(security),
                                      std::move(devices), std::move(faults));
}

}  // namespace tandem
