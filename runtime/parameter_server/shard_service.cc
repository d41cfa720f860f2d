#include "runtime/parameter_server/shard_service.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_service.grpc.pb.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/executor/scheduler.h"
#include "runtime/parameter_server/wire.h"
#include "runtime/rpc/server_call.h"
#include "runtime/rpc/step_transfers.h"

namespace tandem::parameter_server {
namespace {

// Messages with tensors are read and written here; the others by generated code.
template <typename Base>
using WithTensors = ParameterService::WithRawCallbackMethod_Call<
    ParameterService::WithRawCallbackMethod_Read<ParameterService::WithRawCallbackMethod_Write<
        ParameterService::WithRawCallbackMethod_Replicate<
            ParameterService::WithRawCallbackMethod_PutState<
                ParameterService::WithRawCallbackMethod_GetState<Base>>>>>>;
template <typename Base>
using Others = ParameterService::WithCallbackMethod_Define<
    ParameterService::WithCallbackMethod_Report<ParameterService::WithCallbackMethod_SetNote<
        ParameterService::WithCallbackMethod_GetNote<ParameterService::WithCallbackMethod_Forget<
            ParameterService::WithCallbackMethod_Hold<Base>>>>>>;

class ShardServiceImpl final : public WithTensors<Others<ParameterService::Service>> {
 public:
  ShardServiceImpl(ShardHost* host, SharedMemoryEndpoint* shared_memory)
      : host_(*host), shared_memory_(shared_memory) {}

  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* bytes,
                                 grpc::ByteBuffer* response) override {
    CallRequest request;
    std::vector<Tensor> arguments;
    grpc::ByteBuffer copy = *bytes;  // Of references to its slices.
    absl::StatusOr<StepTransfers> transfers =
        CatchOutOfMemory([&] { return ReadArguments(&copy, &request, &arguments); });
    if (absl::IsNotFound(transfers.status())) {
      // What was offered is not there, any more: nothing was done.
      step_extras::Response again;
      again.set_wants_feeds_again(true);
      return EndedCall(context,
                       Encode(CallResponse(), kCallResults, "result", {}, response, &again));
    }
    if (!transfers.ok()) return EndedCall(context, transfers.status());
    auto* const call = new ServerCall;
    BriefWork brief;
    host_.Call(
        request, std::move(arguments), call->cancellation(),
        [call, response,
         transfers = *std::move(transfers)](absl::StatusOr<ShardHost::Outcome> outcome) mutable {
          if (!outcome.ok()) {
            call->End(outcome.status());
            return;
          }
          CallResponse rest;
          rest.set_version(outcome->answer.version);
          rest.set_lost(std::move(outcome->lost));
          std::vector<NamedTensor> results = Unnamed(std::move(outcome->answer.results));
          step_extras::Response extras;
          transfers.LendResults(&results, &extras);
          call->End(Encode(rest, kCallResults, "result", std::move(results), response, &extras));
        });
    return call;
  }

  grpc::ServerUnaryReactor* Define(grpc::CallbackServerContext*, const DefineRequest* request,
                                   DefineResponse* response) override {
    auto* const call = new ServerCall;
    host_.RunCommand([this, call, request, response] {
      absl::StatusOr<DefineResponse> defined = host_.Define(*request);
      if (defined.ok()) *response = *std::move(defined);
      call->End(defined.status());
    });
    return call;
  }

  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* bytes,
                                 grpc::ByteBuffer* response) override {
    ReadRequest request;
    grpc::ByteBuffer copy = *bytes;  // Of references to its slices.
    if (const absl::Status status = ParseMessage(&copy, &request); !status.ok()) {
      return EndedCall(context, status);
    }
    auto* const call = new ServerCall;
    host_.RunCommand([this, call, request = std::move(request), response] {
      ReadResponse rest;
      call->End(EncodeResult(CatchOutOfMemory([&] { return host_.Read(request, &rest); }), rest,
                             kReadValues, response));
    });
    return call;
  }

  grpc::ServerUnaryReactor* Write(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* bytes,
                                  grpc::ByteBuffer* response) override {
    WriteRequest request;
    absl::StatusOr<NamedValues> values = TensorsOf<NamedValues>(*bytes, kWriteValues, &request);
    if (!values.ok()) return EndedCall(context, values.status());
    auto* const call = new ServerCall;
    host_.RunCommand([this, call, request = std::move(request), values = *std::move(values),
                      response]() mutable {
      const absl::Status status =
          CatchOutOfMemory([&] { return host_.Write(request, std::move(values)); });
      if (status.ok()) *response = WholeMessage(WriteResponse());
      call->End(status);
    });
    return call;
  }

  grpc::ServerUnaryReactor* Report(grpc::CallbackServerContext* context,
                                   const ReportRequest* request,
                                   ReportResponse* response) override {
    return EndedCall(context, host_.Report(*request, response));
  }
  grpc::ServerUnaryReactor* SetNote(grpc::CallbackServerContext*, const SetNoteRequest* request,
                                    SetNoteResponse*) override {
    auto* const call = new ServerCall;
    host_.RunCommand([this, call, request] { call->End(host_.SetNote(*request)); });
    return call;
  }
  grpc::ServerUnaryReactor* GetNote(grpc::CallbackServerContext* context,
                                    const GetNoteRequest* request,
                                    GetNoteResponse* response) override {
    return EndedCall(context, host_.GetNote(*request, response));
  }
  grpc::ServerUnaryReactor* Forget(grpc::CallbackServerContext*, const ForgetRequest* request,
                                   ForgetResponse*) override {
    auto* const call = new ServerCall;
    host_.RunCommand([this, call, request] { call->End(host_.Forget(*request)); });
    return call;
  }
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const HoldRequest* request,
                                 HoldResponse* response) override {
    absl::StatusOr<HoldResponse> held = host_.Hold(*request);
    if (held.ok()) *response = *std::move(held);
    return EndedCall(context, held.status());
  }

  grpc::ServerUnaryReactor* Replicate(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* bytes,
                                      grpc::ByteBuffer* response) override {
    ReplicateRequest request;
    absl::StatusOr<std::vector<Tensor>> arguments =
        TensorsOf<std::vector<Tensor>>(*bytes, kReplicateArguments, &request);
    if (!arguments.ok()) return EndedCall(context, arguments.status());
    auto* const call = new ServerCall;
    host_.RunReplication([this, call, request = std::move(request),
                          arguments = *std::move(arguments), response]() mutable {
      call->End(
          Answer(CatchOutOfMemory([&] { return host_.Replicate(request, std::move(arguments)); }),
                 response));
    });
    return call;
  }

  grpc::ServerUnaryReactor* PutState(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* bytes,
                                     grpc::ByteBuffer* response) override {
    PutStateRequest request;
    absl::StatusOr<NamedValues> values = TensorsOf<NamedValues>(*bytes, kPutStateValues, &request);
    if (!values.ok()) return EndedCall(context, values.status());
    auto* const call = new ServerCall;
    host_.RunReplication([this, call, request = std::move(request), values = *std::move(values),
                          response]() mutable {
      call->End(Answer(CatchOutOfMemory([&] { return host_.PutState(request, std::move(values)); }),
                       response));
    });
    return call;
  }

  grpc::ServerUnaryReactor* GetState(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* bytes,
                                     grpc::ByteBuffer* response) override {
    GetStateRequest request;
    grpc::ByteBuffer copy = *bytes;
    if (const absl::Status status = ParseMessage(&copy, &request); !status.ok()) {
      return EndedCall(context, status);
    }
    auto* const call = new ServerCall;
    host_.RunReplication([this, call, request = std::move(request), response] {
      GetStateResponse rest;
      call->End(EncodeResult(CatchOutOfMemory([&] { return host_.GetState(request, &rest); }), rest,
                             kGetStateValues, response));
    });
    return call;
  }

 private:
  // The arguments of a call, in the message or in shared memory. NotFound: they are not there.
  absl::StatusOr<StepTransfers> ReadArguments(grpc::ByteBuffer* bytes, CallRequest* request,
                                              std::vector<Tensor>* arguments) const {
    const ServerLimits& limits = host_.options().limits;
    step_extras::Request extras;
    TANDEM_ASSIGN_OR_RETURN(
        std::vector<ReadTensor> read,
        DecodeStepMessage(bytes, kCallArguments, static_cast<size_t>(limits.request_tensor_bytes),
                          request, &extras));
    StepTransfers transfers(shared_memory_, std::move(extras));
    RequestTensors budget(limits);
    for (const ReadTensor& argument : read) budget.Count(argument.value);
    TANDEM_RETURN_IF_ERROR(budget.Count(transfers.OfferedBytes()));
    TANDEM_ASSIGN_OR_RETURN(const bool are_there, transfers.TakeFeeds(&read));
    if (!are_there) return errors::NotFound("the arguments that were offered");
    for (ReadTensor& argument : read) {
      if (!argument.value.is_valid()) {
        TANDEM_ASSIGN_OR_RETURN(argument.value, budget.Read(argument.proto));
      }
      arguments->push_back(std::move(argument.value));
    }
    return transfers;
  }

  // The tensors of a request, with or without names.
  template <typename Values>
  absl::StatusOr<Values> TensorsOf(const grpc::ByteBuffer& bytes, TensorField field,
                                   google::protobuf::MessageLite* rest) const {
    grpc::ByteBuffer copy = bytes;  // Of references to its slices.
    TANDEM_ASSIGN_OR_RETURN(NamedValues values, CatchOutOfMemory([&] {
                              return ReadTensors(&copy, field, host_.options().limits, rest);
                            }));
    if constexpr (std::is_same_v<Values, NamedValues>) {
      return values;
    } else {
      return WithoutNames(std::move(values));
    }
  }

  static absl::Status Encode(const google::protobuf::MessageLite& rest, TensorField field,
                             const char* what, std::vector<NamedTensor> tensors,
                             grpc::ByteBuffer* response,
                             const step_extras::Response* extras = nullptr) {
    if (extras != nullptr && extras->ByteSizeLong() == 0) extras = nullptr;
    absl::StatusOr<grpc::ByteBuffer> encoded = CatchOutOfMemory(
        [&] { return EncodeStepMessage(rest, field, what, std::move(tensors), extras); });
    if (encoded.ok()) *response = *std::move(encoded);
    return encoded.status();
  }
  static absl::Status EncodeResult(absl::StatusOr<std::vector<NamedTensor>> values,
                                   const google::protobuf::MessageLite& rest, TensorField field,
                                   grpc::ByteBuffer* response) {
    TANDEM_RETURN_IF_ERROR(values.status());
    return Encode(rest, field, "variable", *std::move(values), response);
  }
  template <typename Response>
  static absl::Status Answer(const absl::StatusOr<Response>& result, grpc::ByteBuffer* response) {
    if (result.ok()) *response = WholeMessage(*result);
    return result.status();
  }

  ShardHost& host_;
  SharedMemoryEndpoint* const shared_memory_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewShardService(ShardHost* host,
                                               SharedMemoryEndpoint* shared_memory) {
  return std::make_unique<ShardServiceImpl>(host, shared_memory);
}

}  // namespace tandem::parameter_server
