// The answer of RecvTensor, with the tensor's elements outside of any message: when sent they are
// the tensor's own memory, when received they go from gRPC's slices straight into a tensor.
//
// On the wire it is an ordinary RecvTensorResponse, which any other implementation reads and
// writes.
#ifndef TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_
#define TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/kernel/rendezvous.h"
#include "grpcpp/support/byte_buffer.h"

namespace tandem {

// The elements of tensors of at least this many bytes are not copied; for smaller ones a slice of
// their own costs more than the copy.
inline constexpr size_t kMinBytesInPlace = 1024;

// Keeps the tensor's memory for as long as the buffer, or a copy of it, lives. `sent_micros`: when
// the value was there, since 1970. InvalidArgument: what TensorToProto refuses; a tensor that is
// larger than a message can be (2 GiB).
absl::StatusOr<grpc::ByteBuffer> EncodeReceivedTensor(Rendezvous::Entry entry, int64_t sent_micros);

// Nothing in the message is trusted. InvalidArgument: it does not parse, or what TensorFromProto
// refuses; other errors are TensorFromProto's.
absl::StatusOr<Rendezvous::Entry> DecodeReceivedTensor(grpc::ByteBuffer* buffer);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_
