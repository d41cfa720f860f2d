// The messages of ParameterService that carry tensors: their fields, and what both ends do with
// them. Elements of large tensors are outside of any message (runtime/rpc/step_messages.h).
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_WIRE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/parameter_service.pb.h"
#include "runtime/parameter_server/pieces.h"
#include "runtime/rpc/server_limits.h"
#include "runtime/rpc/step_messages.h"

namespace tandem::parameter_server {

inline constexpr TensorField kCallArguments = {CallRequest::kArgumentsFieldNumber, false};
inline constexpr TensorField kCallResults = {CallResponse::kResultsFieldNumber, false};
inline constexpr TensorField kReadValues = {ReadResponse::kValuesFieldNumber, true};
inline constexpr TensorField kWriteValues = {WriteRequest::kValuesFieldNumber, true};
inline constexpr TensorField kReplicateArguments = {ReplicateRequest::kArgumentsFieldNumber, false};
inline constexpr TensorField kPutStateValues = {PutStateRequest::kValuesFieldNumber, true};
inline constexpr TensorField kGetStateValues = {GetStateResponse::kValuesFieldNumber, true};

// Tensors without names, for EncodeStepMessage.
std::vector<NamedTensor> Unnamed(std::vector<Tensor> tensors);
std::vector<NamedTensor> Named(NamedValues values);

// A message that was received: `rest` gets it without its tensors. Nothing in it is trusted; all
// tensors together take at most what the limits say. InvalidArgument: it cannot be read.
// ResourceExhausted: too much.
absl::StatusOr<NamedValues> ReadTensors(grpc::ByteBuffer* buffer, TensorField field,
                                        const ServerLimits& limits,
                                        google::protobuf::MessageLite* rest);
std::vector<Tensor> WithoutNames(NamedValues values);

// A message without tensors. InvalidArgument: it cannot be read.
absl::Status ParseMessage(grpc::ByteBuffer* buffer, google::protobuf::MessageLite* message);
grpc::ByteBuffer WholeMessage(const google::protobuf::MessageLite& message);

// InvalidArgument: the message is none that a client sends. Of keys: a job of 1 to 256 bytes, a
// number from 0 to 99999.
absl::Status CheckKey(const ShardKey& key);
absl::Status CheckCall(const CallRequest& request);

// "shard 2 of 'job'", "the replica of shard 2 of 'job'".
std::string NameOf(const ShardKey& key);
ShardKey KeyOf(const std::string& job, int number, bool is_replica = false);
// Random, and not 0.
uint64_t RandomNumber();

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_WIRE_H_
