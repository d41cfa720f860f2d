#include "runtime/rpc/remote_server.h"

#include <utility>

#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "proto/worker_service.grpc.pb.h"
#include "runtime/cluster/cluster_config.h"
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

std::shared_ptr<grpc::Channel> ConnectToServer(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

RemoteServer::RemoteServer(std::string target, std::shared_ptr<grpc::Channel> channel)
    : target_(std::move(target)), channel_(std::move(channel)) {}

absl::StatusOr<RemoteServer> RemoteServer::Create(absl::string_view target) {
  TANDEM_ASSIGN_OR_RETURN(const std::string address, AddressOfTarget(target));
  return RemoteServer(std::string(target), ConnectToServer(address));
}

absl::StatusOr<std::vector<RemoteDevice>> RemoteServer::OwnDevices(absl::Duration timeout) const {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  tensorflow::GetStatusResponse response;
  const grpc::Status status =
      tensorflow::WorkerService::NewStub(channel_)->GetStatus(&context, {}, &response);
  if (!status.ok()) return WithContext(FromGrpc(status), target_);
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
  if (!status.ok()) return WithContext(FromGrpc(status), target_);
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
  return WithContext(FromGrpc(status), target_);
}

}  // namespace tandem
