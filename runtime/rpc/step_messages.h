// The messages that carry a step's feeds and results (RunStep, RunCallable) in gRPC's slices, with
// the elements of large tensors outside of any message (tensor_wire.h).
//
// On the wire they are ordinary messages of TensorFlow's MasterService. Tandem's own clients and
// servers may add a field (proto/step_extras.proto), which others skip: elements that were lent in
// shared memory are in none of the others then (step_transfers.h).
#ifndef TANDEM_RUNTIME_RPC_STEP_MESSAGES_H_
#define TANDEM_RUNTIME_RPC_STEP_MESSAGES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/tensor.pb.h"

namespace tandem {

// The field of a message that has the tensors: repeated, of NamedTensorProto or of TensorProto.
struct TensorField {
  int number;
  bool is_named;
};
inline constexpr TensorField kRunStepFeeds = {2, true};
inline constexpr TensorField kRunStepResults = {1, true};
inline constexpr TensorField kRunCallableFeeds = {3, false};
inline constexpr TensorField kRunCallableResults = {1, false};

struct NamedTensor {
  std::string name;  // Empty in fields without names.
  Tensor value;
  // The message has its type and shape only. Of IsPlain types alone.
  bool is_lent = false;
};

// The number of the field with the extras, in requests and answers.
inline constexpr int kExtrasField = 100'000;

// `rest`: the message without its tensors; `extras`: what is in the field of that name; null: there
// is none. The buffer keeps the memory of large tensors. InvalidArgument: what TensorToProto
// refuses, with the name of the tensor in the message (`what`: "feed", "fetch"), or more than a
// message can hold (2 GiB).
absl::StatusOr<grpc::ByteBuffer> EncodeStepMessage(
    const google::protobuf::MessageLite& rest, TensorField field, const char* what,
    std::vector<NamedTensor> tensors, const google::protobuf::MessageLite* extras = nullptr);

// A tensor of a message that was read.
struct ReadTensor {
  std::string name;
  // What was read in place; not valid: it is all in `proto`.
  Tensor value;
  tensorflow::TensorProto proto;
};

// `rest` gets the message without its tensors, and `extras` what is in the field of that name;
// null: they are not wanted. Of the tensors, elements that take up to `most_bytes` in all are read
// in place; of those that were lent there is a `proto` with type and shape. Nothing in the message
// is trusted. InvalidArgument: it is no such message. ResourceExhausted: no memory.
absl::StatusOr<std::vector<ReadTensor>> DecodeStepMessage(
    grpc::ByteBuffer* buffer, TensorField field, size_t most_bytes,
    google::protobuf::MessageLite* rest, google::protobuf::MessageLite* extras = nullptr);

// The value of a tensor that was read. Errors: TensorFromProto's.
absl::StatusOr<Tensor> ValueOf(ReadTensor read);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_STEP_MESSAGES_H_
