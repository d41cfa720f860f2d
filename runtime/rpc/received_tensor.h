// The answer of RecvTensor, with the tensor's elements outside of any message: when sent they are
// the tensor's own memory, when received they go from gRPC's slices straight into a tensor.
//
// On the wire it is an ordinary RecvTensorResponse, which any other implementation reads and
// writes. A task of this host that offered to borrow the value (runtime/transport/shared_memory)
// gets its place in shared memory instead of its elements.
#ifndef TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_
#define TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/kernel/rendezvous.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/worker.pb.h"
#include "runtime/transport/shared_memory/segment_borrower.h"
#include "runtime/transport/shared_memory/segment_lender.h"

namespace tandem {

// Keeps the tensor's memory for as long as the buffer, or a copy of it, lives. `sent_micros`: when
// the value was there, since 1970. InvalidArgument: what TensorToProto refuses; a tensor that is
// larger than a message can be (2 GiB).
absl::StatusOr<grpc::ByteBuffer> EncodeReceivedTensor(Rendezvous::Entry entry, int64_t sent_micros);

// Lends the value, and encodes where. None: it has fewer than `least_bytes` bytes, is not of plain
// numbers, or cannot be lent now. It may be larger than a message.
absl::optional<grpc::ByteBuffer> EncodeLentTensor(const Rendezvous::Entry& entry,
                                                  int64_t sent_micros, size_t least_bytes,
                                                  SegmentLender* lender, const Ticket& ticket);

// A request's offer to borrow the value.
void SetLoanRequest(const SegmentBorrower::Request& loan, tensorflow::RecvTensorRequest* request);
struct LoanRequest {
  std::string connection;
  Ticket ticket;
};
// None: there is none that this version understands.
absl::optional<LoanRequest> GetLoanRequest(const tensorflow::RecvTensorRequest& request);

struct ReceivedTensor {
  Rendezvous::Entry entry;
  bool was_lent = false;
};

// `loan`: what the request offered, if anything. Nothing in the message is trusted.
// InvalidArgument: it does not parse, or what TensorFromProto refuses; other errors are
// TensorFromProto's, and those of SegmentBorrower::Request::Take.
absl::StatusOr<ReceivedTensor> DecodeReceivedTensor(
    grpc::ByteBuffer* buffer, absl::optional<SegmentBorrower::Request> loan = absl::nullopt);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_RECEIVED_TENSOR_H_
