#include "runtime/rpc/host_transfer_service.h"

#include <string>

#include "grpcpp/grpcpp.h"
#include "proto/host_transfer.grpc.pb.h"
#include "runtime/rpc/server_call.h"

namespace tandem {
namespace {

using host_transfers::HostTransferService;

class HostTransferServiceImpl final
    : public HostTransferService::WithCallbackMethod_Introduce<HostTransferService::Service> {
 public:
  HostTransferServiceImpl(SharedMemoryEndpoint* endpoint, bool serves_clients)
      : endpoint_(*endpoint), serves_clients_(serves_clients) {}

  grpc::ServerUnaryReactor* Introduce(grpc::CallbackServerContext* context,
                                      const host_transfers::IntroduceRequest*,
                                      host_transfers::IntroduceResponse* response) override {
    response->set_version(shared_memory::kVersion);
    response->set_socket_name(endpoint_.socket_name());
    response->set_secret(std::string(endpoint_.secret()));
    response->set_serves_clients(serves_clients_);
    return EndedCall(context, absl::OkStatus());
  }

 private:
  SharedMemoryEndpoint& endpoint_;
  const bool serves_clients_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewHostTransferService(SharedMemoryEndpoint* endpoint,
                                                      bool serves_clients) {
  return std::make_unique<HostTransferServiceImpl>(endpoint, serves_clients);
}

}  // namespace tandem
