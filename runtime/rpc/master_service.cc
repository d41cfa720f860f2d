#include "runtime/rpc/master_service.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/rpc/server_call.h"

namespace tandem {
namespace {

class MasterServiceImpl final : public tensorflow::MasterService::CallbackService {
 public:
  MasterServiceImpl(Master* master, ControlThreads* control)
      : master_(*master), control_(*control) {}

  grpc::ServerUnaryReactor* CreateSession(grpc::CallbackServerContext*,
                                          const tensorflow::CreateSessionRequest* request,
                                          tensorflow::CreateSessionResponse* response) override {
    auto* const call = new ServerCall;
    control_.Run([this, call, request, response] {
      master_.CreateSession(*request, response, call->cancellation(),
                            [call](const absl::Status& status) { call->End(status); });
    });
    return call;
  }
  grpc::ServerUnaryReactor* ExtendSession(grpc::CallbackServerContext*,
                                          const tensorflow::ExtendSessionRequest* request,
                                          tensorflow::ExtendSessionResponse* response) override {
    auto* const call = new ServerCall;
    control_.Run([this, call, request, response] {
      call->End(CatchOutOfMemory([&] { return master_.ExtendSession(*request, response); }));
    });
    return call;
  }
  grpc::ServerUnaryReactor* PartialRunSetup(
      grpc::CallbackServerContext*, const tensorflow::PartialRunSetupRequest* request,
      tensorflow::PartialRunSetupResponse* response) override {
    auto* const call = new ServerCall;
    control_.Run([this, call, request, response] {
      call->End(CatchOutOfMemory([&] { return master_.PartialRunSetup(*request, response); }));
    });
    return call;
  }
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext*,
                                         const tensorflow::CloseSessionRequest* request,
                                         tensorflow::CloseSessionResponse*) override {
    auto* const call = new ServerCall;
    master_.CloseSession(*request, [call](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext*,
                                        const tensorflow::ListDevicesRequest* request,
                                        tensorflow::ListDevicesResponse* response) override {
    auto* const call = new ServerCall;
    master_.ListDevices(*request, response,
                        [call](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* Reset(grpc::CallbackServerContext*,
                                  const tensorflow::ResetRequest* request,
                                  tensorflow::ResetResponse*) override {
    auto* const call = new ServerCall;
    master_.Reset(*request, [call](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* MakeCallable(grpc::CallbackServerContext*,
                                         const tensorflow::MakeCallableRequest* request,
                                         tensorflow::MakeCallableResponse* response) override {
    auto* const call = new ServerCall;
    control_.Run([this, call, request, response] {
      call->End(CatchOutOfMemory([&] { return master_.MakeCallable(*request, response); }));
    });
    return call;
  }
  grpc::ServerUnaryReactor* ReleaseCallable(grpc::CallbackServerContext* context,
                                            const tensorflow::ReleaseCallableRequest* request,
                                            tensorflow::ReleaseCallableResponse*) override {
    return EndedCall(context, master_.ReleaseCallable(*request));
  }

  grpc::ServerUnaryReactor* RunStep(grpc::CallbackServerContext*,
                                    const tensorflow::RunStepRequest* request,
                                    tensorflow::RunStepResponse* response) override {
    auto* const call = new ServerCall;
    call->CancelAfter(master_.StepTimeout(*request), "timeout_in_ms");
    master_.RunStep(*request, response, call->cancellation(),
                    [call](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* RunCallable(grpc::CallbackServerContext*,
                                        const tensorflow::RunCallableRequest* request,
                                        tensorflow::RunCallableResponse* response) override {
    auto* const call = new ServerCall;
    call->CancelAfter(master_.CallableTimeout(*request), "timeout_in_ms");
    master_.RunCallable(*request, response, call->cancellation(),
                        [call](const absl::Status& status) { call->End(status); });
    return call;
  }

 private:
  Master& master_;
  ControlThreads& control_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewMasterService(Master* master, ControlThreads* control) {
  return std::make_unique<MasterServiceImpl>(master, control);
}

}  // namespace tandem
