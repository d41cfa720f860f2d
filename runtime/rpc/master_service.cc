#include "runtime/rpc/master_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/master_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/executor/scheduler.h"
#include "runtime/rpc/server_call.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/step_transfers.h"

namespace tandem {
namespace {

using tensorflow::MasterService;

// The messages with the values of steps are read and written here; all others by generated code.
template <typename Base>
using Steps = MasterService::WithRawCallbackMethod_RunStep<
    MasterService::WithRawCallbackMethod_RunCallable<Base>>;
template <typename Base>
using Sessions = MasterService::WithCallbackMethod_CreateSession<
    MasterService::WithCallbackMethod_ExtendSession<MasterService::WithCallbackMethod_CloseSession<
        MasterService::WithCallbackMethod_ListDevices<
            MasterService::WithCallbackMethod_Reset<Base>>>>>;
template <typename Base>
using Signatures = MasterService::WithCallbackMethod_PartialRunSetup<
    MasterService::WithCallbackMethod_MakeCallable<
        MasterService::WithCallbackMethod_ReleaseCallable<Base>>>;

class MasterServiceImpl final : public Steps<Sessions<Signatures<MasterService::Service>>> {
 public:
  MasterServiceImpl(Master* master, ControlThreads* control, SharedMemoryEndpoint* shared_memory)
      : master_(*master), control_(*control), shared_memory_(shared_memory) {}

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

  grpc::ServerUnaryReactor* RunStep(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* bytes,
                                    grpc::ByteBuffer* response) override {
    auto request = std::make_shared<tensorflow::RunStepRequest>();
    step_extras::Request extras;
    absl::StatusOr<std::vector<ReadTensor>> feeds =
        Decode(*bytes, kRunStepFeeds, request.get(), &extras);
    if (!feeds.ok()) return EndedCall(context, feeds.status());
    auto* const call = new ServerCall;
    call->CancelAfter(master_.StepTimeout(*request), "timeout_in_ms");
    BriefWork brief;
    master_.RunStep(*request, *std::move(feeds), StepTransfers(shared_memory_, std::move(extras)),
                    response, call->cancellation(),
                    [call, request](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* RunCallable(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* bytes,
                                        grpc::ByteBuffer* response) override {
    auto request = std::make_shared<tensorflow::RunCallableRequest>();
    step_extras::Request extras;
    absl::StatusOr<std::vector<ReadTensor>> feeds =
        Decode(*bytes, kRunCallableFeeds, request.get(), &extras);
    if (!feeds.ok()) return EndedCall(context, feeds.status());
    auto* const call = new ServerCall;
    call->CancelAfter(master_.CallableTimeout(*request), "timeout_in_ms");
    BriefWork brief;
    master_.RunCallable(
        *request, *std::move(feeds), StepTransfers(shared_memory_, std::move(extras)), response,
        call->cancellation(), [call, request](const absl::Status& status) { call->End(status); });
    return call;
  }

 private:
  // `bytes`: a copy of references to its slices.
  absl::StatusOr<std::vector<ReadTensor>> Decode(grpc::ByteBuffer bytes, TensorField field,
                                                 google::protobuf::MessageLite* request,
                                                 step_extras::Request* extras) const {
    return CatchOutOfMemory([&] {
      return DecodeStepMessage(&bytes, field,
                               static_cast<size_t>(master_.limits().request_tensor_bytes), request,
                               extras);
    });
  }

  Master& master_;
  ControlThreads& control_;
  SharedMemoryEndpoint* const shared_memory_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewMasterService(Master* master, ControlThreads* control,
                                                SharedMemoryEndpoint* shared_memory) {
  return std::make_unique<MasterServiceImpl>(master, control, shared_memory);
}

}  // namespace tandem
