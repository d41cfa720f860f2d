#include "runtime/rpc/master_service.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"

namespace tandem {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()));
}

// A call that runs a step. Deletes itself when gRPC has done with it.
class StepCall final : public grpc::ServerUnaryReactor {
 public:
  StepCall() : cancellation_(std::make_shared<CancellationManager>()) {}

  CancellationManager* cancellation() { return cancellation_.get(); }

  void CancelAfter(int64_t milliseconds) {
    if (milliseconds <= 0) return;
    alarm_.Set(absl::ToChronoTime(absl::Now() + absl::Milliseconds(milliseconds)),
               // The call may be over, and deleted, when the alarm goes off.
               [cancellation = cancellation_, milliseconds](bool went_off) {
                 if (!went_off) return;
                 cancellation->Cancel(errors::DeadlineExceeded(
                     "the step was not done after ", milliseconds, " ms (timeout_in_ms)"));
               });
  }

  void End(const absl::Status& status) {
    alarm_.Cancel();
    Finish(ToGrpc(status));
  }

  void OnCancel() override {
    cancellation_->Cancel(
        errors::Cancelled("the client cancelled the call, or its deadline passed"));
  }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<CancellationManager> cancellation_;
  grpc::Alarm alarm_;
};

class MasterServiceImpl final : public tensorflow::MasterService::CallbackService {
 public:
  explicit MasterServiceImpl(Master* master) : master_(*master) {}

  grpc::ServerUnaryReactor* CreateSession(grpc::CallbackServerContext* context,
                                          const tensorflow::CreateSessionRequest* request,
                                          tensorflow::CreateSessionResponse* response) override {
    return Ended(context,
                 CatchOutOfMemory([&] { return master_.CreateSession(*request, response); }));
  }
  grpc::ServerUnaryReactor* ExtendSession(grpc::CallbackServerContext* context,
                                          const tensorflow::ExtendSessionRequest* request,
                                          tensorflow::ExtendSessionResponse* response) override {
    return Ended(context,
                 CatchOutOfMemory([&] { return master_.ExtendSession(*request, response); }));
  }
  grpc::ServerUnaryReactor* PartialRunSetup(grpc::CallbackServerContext* context,
                                            const tensorflow::PartialRunSetupRequest*,
                                            tensorflow::PartialRunSetupResponse*) override {
    return Ended(context, errors::Unimplemented("partial runs are not supported yet"));
  }
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const tensorflow::CloseSessionRequest* request,
                                         tensorflow::CloseSessionResponse*) override {
    return Ended(context, master_.CloseSession(*request));
  }
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext* context,
                                        const tensorflow::ListDevicesRequest* request,
                                        tensorflow::ListDevicesResponse* response) override {
    return Ended(context, master_.ListDevices(*request, response));
  }
  grpc::ServerUnaryReactor* Reset(grpc::CallbackServerContext* context,
                                  const tensorflow::ResetRequest* request,
                                  tensorflow::ResetResponse*) override {
    return Ended(context, master_.Reset(*request));
  }
  grpc::ServerUnaryReactor* MakeCallable(grpc::CallbackServerContext* context,
                                         const tensorflow::MakeCallableRequest* request,
                                         tensorflow::MakeCallableResponse* response) override {
    return Ended(context,
                 CatchOutOfMemory([&] { return master_.MakeCallable(*request, response); }));
  }
  grpc::ServerUnaryReactor* ReleaseCallable(grpc::CallbackServerContext* context,
                                            const tensorflow::ReleaseCallableRequest* request,
                                            tensorflow::ReleaseCallableResponse*) override {
    return Ended(context, master_.ReleaseCallable(*request));
  }

  grpc::ServerUnaryReactor* RunStep(grpc::CallbackServerContext*,
                                    const tensorflow::RunStepRequest* request,
                                    tensorflow::RunStepResponse* response) override {
    auto* const call = new StepCall;
    call->CancelAfter(request->options().timeout_in_ms());
    master_.RunStep(*request, response, call->cancellation(),
                    [call](absl::Status status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* RunCallable(grpc::CallbackServerContext*,
                                        const tensorflow::RunCallableRequest* request,
                                        tensorflow::RunCallableResponse* response) override {
    auto* const call = new StepCall;
    call->CancelAfter(master_.CallableTimeout(*request));
    master_.RunCallable(*request, response, call->cancellation(),
                        [call](absl::Status status) { call->End(status); });
    return call;
  }

 private:
  static grpc::ServerUnaryReactor* Ended(grpc::CallbackServerContext* context,
                                         const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  Master& master_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewMasterService(Master* master) {
  return std::make_unique<MasterServiceImpl>(master);
}

}  // namespace tandem
