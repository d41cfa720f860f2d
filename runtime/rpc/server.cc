#include "runtime/rpc/server.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "runtime/rpc/listen_address.h"
#include "runtime/rpc/master.h"
#include "runtime/rpc/master_service.h"

namespace tandem {
namespace {

std::string WithPort(const std::string& host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

class GrpcServer final : public Server {
 public:
  GrpcServer(std::string listen_host, std::string own_host, int port,
             std::shared_ptr<DeviceSet> devices)
      : listen_host_(std::move(listen_host)),
        own_host_(std::move(own_host)),
        wanted_port_(port),
        master_(std::move(devices)) {}

  ~GrpcServer() override { Stop(absl::ZeroDuration()); }

  absl::Status Start() override {
    MutexLock lock(mu_);
    if (server_ != nullptr) return errors::FailedPrecondition("the server was started already");
    grpc::EnableDefaultHealthCheckService(true);
    service_ = NewMasterService(&master_);
    grpc::ServerBuilder builder;
    // Two servers on one port would share its clients.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    int port = 0;
    builder.AddListeningPort(WithPort(listen_host_, wanted_port_),
                             grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      server_.reset();
      return errors::Unavailable("cannot listen on ", WithPort(listen_host_, wanted_port_),
                                 "; is the port taken by another process?");
    }
    port_ = port;
    return absl::OkStatus();
  }

  std::string target() const override {
    MutexLock lock(mu_);
    return absl::StrCat("grpc://", WithPort(own_host_, port_));
  }

  bool Stop(absl::Duration grace) override {
    const bool had_sessions = master_.num_sessions() > 0;
    std::unique_ptr<grpc::Server> server;
    {
      MutexLock lock(mu_);
      server = std::move(server_);
    }
    if (server == nullptr) return had_sessions;
    if (auto* health = server->GetHealthCheckService()) health->SetServingStatus(false);
    master_.Drain(errors::Unavailable("the server is shutting down"));
    master_.WaitUntilIdle(absl::Now() + grace);
    // Steps that outlast the grace are cancelled, and their clients told why, while there is still
    // a connection to tell them on.
    master_.CloseAll(errors::Unavailable("the server is ending; its steps had ",
                                         absl::FormatDuration(grace), " to end"));
    constexpr absl::Duration kLastWords = absl::Seconds(2);
    server->Shutdown(absl::ToChronoTime(absl::Now() + kLastWords));
    server->Wait();
    return had_sessions;
  }

 private:
  const std::string listen_host_;
  const std::string own_host_;
  const int wanted_port_;
  Master master_;
  std::unique_ptr<grpc::Service> service_;
  mutable Mutex mu_;
  std::unique_ptr<grpc::Server> server_ ABSL_GUARDED_BY(mu_);
  int port_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(ServerOptions options) {
  const std::string* const address = options.config.Address(options.task);
  if (address == nullptr) {
    return errors::InvalidArgument("the cluster has no task ", options.task.index, " of job '",
                                   options.task.job, "'");
  }
  if (options.config.num_tasks() > 1) {
    return errors::Unimplemented("the cluster has ", options.config.num_tasks(),
                                 " tasks; servers of more than one are not supported yet");
  }
  TANDEM_ASSIGN_OR_RETURN(const HostPort own, ParseHostPort(*address));
  const std::string& place = options.bind.empty() ? own.host : options.bind;
  if (!IsLoopback(place) && !options.insecure) {
    return errors::FailedPrecondition(
        "the server would listen on ", place,
        ", where others can reach it, without authentication; bind it to 127.0.0.1, or say that it "
        "may (--insecure)");
  }
  std::shared_ptr<DeviceSet> devices;
  const std::string prefix =
      absl::StrCat("/job:", options.task.job, "/replica:0/task:", options.task.index);
  if (options.devices.empty()) {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::FromEnvironment(prefix));
  } else {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<DeviceCount> counts,
                            ParseDeviceCounts(options.devices));
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::Create(counts, prefix));
  }
  return std::make_unique<GrpcServer>(options.bind.empty() ? ListenHost(own.host) : options.bind,
                                      own.host, options.port.value_or(own.port),
                                      std::move(devices));
}

}  // namespace tandem
