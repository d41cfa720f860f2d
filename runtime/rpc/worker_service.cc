#include "runtime/rpc/worker_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/worker_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/executor/scheduler.h"
#include "runtime/rpc/received_tensor.h"
#include "runtime/rpc/server_call.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {
namespace {

using tensorflow::WorkerService;

// RecvTensor's messages are read and written here; those of all others by generated code.
template <typename Base>
using Raw = WorkerService::WithRawCallbackMethod_RecvTensor<Base>;

template <typename Base>
using Sessions = WorkerService::WithCallbackMethod_GetStatus<
    WorkerService::WithCallbackMethod_CreateWorkerSession<
        WorkerService::WithCallbackMethod_DeleteWorkerSession<Base>>>;
template <typename Base>
using Graphs = WorkerService::WithCallbackMethod_RegisterGraph<
    WorkerService::WithCallbackMethod_DeregisterGraph<
        WorkerService::WithCallbackMethod_RunGraph<WorkerService::WithCallbackMethod_CleanupGraph<
            WorkerService::WithCallbackMethod_CleanupAll<Base>>>>>;
template <typename Base>
using Others = WorkerService::WithCallbackMethod_MarkRecvFinished<
    WorkerService::WithCallbackMethod_Logging<WorkerService::WithCallbackMethod_Tracing<Base>>>;
template <typename Base>
using Collectives =
    WorkerService::WithCallbackMethod_RecvBuf<WorkerService::WithCallbackMethod_GetStepSequence<
        WorkerService::WithCallbackMethod_CompleteGroup<
            WorkerService::WithCallbackMethod_CompleteInstance<Base>>>>;

class WorkerServiceImpl final
    : public Raw<Sessions<Graphs<Others<Collectives<WorkerService::Service>>>>> {
 public:
  WorkerServiceImpl(Worker* worker, ControlThreads* control)
      : worker_(*worker), control_(*control) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const tensorflow::GetStatusRequest*,
                                      tensorflow::GetStatusResponse* response) override {
    worker_.GetStatus(response);
    return EndedCall(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* CreateWorkerSession(
      grpc::CallbackServerContext* context, const tensorflow::CreateWorkerSessionRequest* request,
      tensorflow::CreateWorkerSessionResponse*) override {
    return EndedCall(context, worker_.CreateSession(*request));
  }
  grpc::ServerUnaryReactor* DeleteWorkerSession(
      grpc::CallbackServerContext* context, const tensorflow::DeleteWorkerSessionRequest* request,
      tensorflow::DeleteWorkerSessionResponse*) override {
    worker_.DeleteSession(request->session_handle());
    return EndedCall(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* RegisterGraph(grpc::CallbackServerContext*,
                                          const tensorflow::RegisterGraphRequest* request,
                                          tensorflow::RegisterGraphResponse* response) override {
    auto* const call = new ServerCall;
    control_.Run([this, call, request, response] {
      call->End(CatchOutOfMemory([&] { return worker_.RegisterGraph(*request, response); }));
    });
    return call;
  }
  grpc::ServerUnaryReactor* DeregisterGraph(grpc::CallbackServerContext* context,
                                            const tensorflow::DeregisterGraphRequest* request,
                                            tensorflow::DeregisterGraphResponse*) override {
    return EndedCall(context, worker_.DeregisterGraph(*request));
  }
  grpc::ServerUnaryReactor* RunGraph(grpc::CallbackServerContext*,
                                     const tensorflow::RunGraphRequest* request,
                                     tensorflow::RunGraphResponse* response) override {
    auto* const call = new ServerCall;
    BriefWork brief;
    worker_.RunGraph(*request, response, call->cancellation(),
                     [call](const absl::Status& status) { call->End(status); });
    return call;
  }
  grpc::ServerUnaryReactor* CleanupGraph(grpc::CallbackServerContext* context,
                                         const tensorflow::CleanupGraphRequest* request,
                                         tensorflow::CleanupGraphResponse*) override {
    worker_.EndStep(request->step_id(), errors::Aborted("the step has ended"));
    return EndedCall(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* CleanupAll(grpc::CallbackServerContext* context,
                                       const tensorflow::CleanupAllRequest* request,
                                       tensorflow::CleanupAllResponse*) override {
    worker_.CleanupAll(request->container());
    return EndedCall(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* RecvTensor(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* response) override {
    tensorflow::RecvTensorRequest request;
    grpc::ByteBuffer copy = *bytes;  // Of references to its slices.
    if (!grpc::SerializationTraits<tensorflow::RecvTensorRequest>::Deserialize(&copy, &request)
             .ok()) {
      return EndedCall(context,
                       errors::InvalidArgument("RecvTensor: the request is no RecvTensorRequest"));
    }
    Loan loan = FindLender(request);
    auto* const call = new ServerCall;
    worker_.RecvTensor(
        request, call->cancellation(),
        [call, response, loan = std::move(loan)](absl::StatusOr<Rendezvous::Entry> entry) {
          absl::Status status = entry.status();
          if (status.ok()) {
            absl::StatusOr<grpc::ByteBuffer> encoded =
                CatchOutOfMemory([&] { return Encode(*std::move(entry), loan); });
            status = encoded.status();
            if (status.ok()) *response = *encoded;
          }
          call->End(status);
        });
    return call;
  }
  grpc::ServerUnaryReactor* MarkRecvFinished(grpc::CallbackServerContext* context,
                                             const tensorflow::MarkRecvFinishedRequest*,
                                             tensorflow::MarkRecvFinishedResponse*) override {
    // Answers never ask for it.
    return EndedCall(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* Logging(grpc::CallbackServerContext* context,
                                    const tensorflow::LoggingRequest* request,
                                    tensorflow::LoggingResponse* response) override {
    worker_.Logging(*request, response);
    return EndedCall(context, absl::OkStatus());
  }
  grpc::ServerUnaryReactor* Tracing(grpc::CallbackServerContext* context,
                                    const tensorflow::TracingRequest*,
                                    tensorflow::TracingResponse*) override {
    return EndedCall(context,
                     errors::Unimplemented("Tracing is not supported; trace single steps"));
  }

  grpc::ServerUnaryReactor* RecvBuf(grpc::CallbackServerContext* context,
                                    const tensorflow::RecvBufRequest*,
                                    tensorflow::RecvBufResponse*) override {
    return NoCollectives(context);
  }
  grpc::ServerUnaryReactor* GetStepSequence(grpc::CallbackServerContext* context,
                                            const tensorflow::GetStepSequenceRequest*,
                                            tensorflow::GetStepSequenceResponse*) override {
    return NoCollectives(context);
  }
  grpc::ServerUnaryReactor* CompleteGroup(grpc::CallbackServerContext* context,
                                          const tensorflow::CompleteGroupRequest*,
                                          tensorflow::CompleteGroupResponse*) override {
    return NoCollectives(context);
  }
  grpc::ServerUnaryReactor* CompleteInstance(grpc::CallbackServerContext* context,
                                             const tensorflow::CompleteInstanceRequest*,
                                             tensorflow::CompleteInstanceResponse*) override {
    return NoCollectives(context);
  }

 private:
  static grpc::ServerUnaryReactor* NoCollectives(grpc::CallbackServerContext* context) {
    return EndedCall(context, errors::Unimplemented(
                                  "collectives of TensorFlow between tasks (CollectiveReduce and "
                                  "its kin) are not supported yet"));
  }

  // To whom a value may be lent; the lender is null when it has to go in a message.
  struct Loan {
    std::shared_ptr<SegmentLender> lender;
    Ticket ticket;
    size_t least_bytes = 0;
  };
  Loan FindLender(const tensorflow::RecvTensorRequest& request) const {
    SharedMemoryEndpoint* const endpoint = worker_.tasks().shared_memory();
    if (endpoint == nullptr) return {};
    const absl::optional<LoanRequest> asked = GetLoanRequest(request);
    if (!asked.has_value()) return {};
    return {endpoint->FindLender(asked->connection), asked->ticket, endpoint->least_lent_bytes()};
  }

  static absl::StatusOr<grpc::ByteBuffer> Encode(Rendezvous::Entry entry, const Loan& loan) {
    const int64_t now = absl::ToUnixMicros(absl::Now());
    if (loan.lender != nullptr) {
      absl::optional<grpc::ByteBuffer> lent =
          EncodeLentTensor(entry, now, loan.least_bytes, loan.lender.get(), loan.ticket);
      if (lent.has_value()) return *std::move(lent);
    }
    return EncodeReceivedTensor(std::move(entry), now);
  }

  Worker& worker_;
  ControlThreads& control_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWorkerService(Worker* worker, ControlThreads* control) {
  return std::make_unique<WorkerServiceImpl>(worker, control);
}

}  // namespace tandem
