#include "runtime/rpc/remote_server.h"

#include <utility>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "proto/worker_service.grpc.pb.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/rpc/secure_channel.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

void Take(const google::protobuf::RepeatedPtrField<tensorflow::DeviceAttributes>& from,
          std::vector<RemoteDevice>* to) {
  for (const tensorflow::DeviceAttributes& device : from) {
    to->push_back(
        {device.name(), device.device_type(), device.memory_limit(), device.incarnation()});
  }
}

}  // namespace

absl::StatusOr<std::string> AddressOfTarget(absl::string_view target) {
  absl::string_view address = target;
  absl::ConsumePrefix(&address, "grpc://");
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return errors::InvalidArgument("target '", target, "': ", parsed.status().message(),
                                   "; a target is grpc://host:port");
  }
  return std::string(address);
}

std::shared_ptr<grpc::Channel> ConnectToServer(const std::string& address,
                                               const Security& security) {
  return NewChannel(address, security);
}

RemoteServer::RemoteServer(std::string target, std::shared_ptr<grpc::Channel> channel,
                           bool with_tls)
    : target_(std::move(target)), with_tls_(with_tls), channel_(std::move(channel)) {}

absl::StatusOr<RemoteServer> RemoteServer::Create(absl::string_view target,
                                                  const absl::optional<Security>& security) {
  TANDEM_ASSIGN_OR_RETURN(const std::string address, AddressOfTarget(target));
  TANDEM_ASSIGN_OR_RETURN(const Security own, SecurityOrEnvironment(security));
  return RemoteServer(std::string(target), ConnectToServer(address, own), own.ConnectsWithTls());
}

absl::Status RemoteServer::StatusOf(const grpc::Status& status) const {
  return WithContext(ExplainConnection(FromGrpc(status), with_tls_), target_);
}

absl::StatusOr<std::vector<RemoteDevice>> RemoteServer::OwnDevices(absl::Duration timeout) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  tensorflow::GetStatusResponse response;
  const grpc::Status status =
      tensorflow::WorkerService::NewStub(channel_)->GetStatus(&context, {}, &response);
  if (!status.ok()) return StatusOf(status);
  std::vector<RemoteDevice> devices;
  Take(response.device_attributes(), &devices);
  return devices;
}

absl::StatusOr<std::vector<RemoteDevice>> RemoteServer::ListDevices(absl::Duration timeout) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  tensorflow::ListDevicesResponse response;
  const grpc::Status status =
      tensorflow::MasterService::NewStub(channel_)->ListDevices(&context, {}, &response);
  if (!status.ok()) return StatusOf(status);
  std::vector<RemoteDevice> devices;
  Take(response.local_device(), &devices);
  Take(response.remote_device(), &devices);
  return devices;
}

absl::Status RemoteServer::Reset(const std::vector<std::string>& containers,
                                 const std::vector<std::string>& device_filters,
                                 absl::Duration timeout) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  tensorflow::ResetRequest request;
  for (const std::string& container : containers) request.add_container(container);
  for (const std::string& filter : device_filters) request.add_device_filters(filter);
  tensorflow::ResetResponse response;
  const grpc::Status status =
      tensorflow::MasterService::NewStub(channel_)->Reset(&context, request, &response);
  return StatusOf(status);
}

}  // namespace tandem
