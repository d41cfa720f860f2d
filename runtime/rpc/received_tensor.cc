#include "runtime/rpc/received_tensor.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "proto/host_transfer.pb.h"
#include "runtime/rpc/tensor_wire.h"

namespace tandem {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using tensorflow::RecvTensorResponse;

constexpr size_t kMaxMessage = std::numeric_limits<int32_t>::max();

grpc::ByteBuffer WholeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// What precedes the content of a plain tensor: RecvTensorResponse's scalars, then TensorProto up to
// and with the content's length.
std::string HeaderOf(const Tensor& tensor, int64_t sent_micros) {
  const std::string inner = TensorHeader(tensor);
  std::string header;
  StringOutputStream stream(&header);
  CodedOutputStream out(&stream);
  out.WriteTag(VarintTag(RecvTensorResponse::kSendStartMicrosFieldNumber));
  out.WriteVarint64(static_cast<uint64_t>(sent_micros));
  out.WriteTag(BytesTag(RecvTensorResponse::kTensorFieldNumber));
  out.WriteVarint32(static_cast<uint32_t>(inner.size() + tensor.num_bytes()));
  out.WriteString(inner);
  out.Trim();
  return header;
}

absl::Status Malformed() {
  return errors::InvalidArgument("the answer of RecvTensor is no RecvTensorResponse");
}

absl::StatusOr<Tensor> Borrow(const host_transfers::Loan& lent, const TensorReader& reader,
                              SegmentBorrower::Request loan) {
  const auto dtype = static_cast<DataType>(reader.proto().dtype());
  if (!IsPlain(dtype)) {
    return errors::InvalidArgument("the answer of RecvTensor lends a value of ",
                                   IsSupported(dtype) ? DataTypeName(dtype) : "no type",
                                   "; only plain numbers can be lent");
  }
  TANDEM_ASSIGN_OR_RETURN(Shape shape, reader.ShapeOf(lent.bytes()));
  TANDEM_ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                          std::move(loan).Take(lent.segment(), lent.bytes()));
  void* const data = buffer->data();
  return Tensor::FromBuffer(dtype, std::move(shape), std::move(buffer), data);
}

absl::StatusOr<ReceivedTensor> Decode(CodedInputStream* in, size_t size,
                                      absl::optional<SegmentBorrower::Request> loan) {
  ReceivedTensor received;
  TensorReader reader(in, size);
  google::protobuf::Any options;
  for (uint32_t tag = in->ReadTag(); tag != 0; tag = in->ReadTag()) {
    if (tag == BytesTag(RecvTensorResponse::kTensorFieldNumber)) {
      const CodedInputStream::Limit limit = in->ReadLengthAndPushLimit();
      TANDEM_RETURN_IF_ERROR(reader.Read(std::numeric_limits<size_t>::max()));
      if (!in->CheckEntireMessageConsumedAndPopLimit(limit)) return Malformed();
    } else if (tag == VarintTag(RecvTensorResponse::kIsDeadFieldNumber)) {
      uint64_t value = 0;
      if (!in->ReadVarint64(&value)) return Malformed();
      received.entry.is_dead = value != 0;
    } else if (tag == BytesTag(RecvTensorResponse::kTransportOptionsFieldNumber) &&
               loan.has_value()) {
      std::string bytes;
      if (!WireFormatLite::ReadBytes(in, &bytes) || !options.ParseFromString(bytes)) {
        return Malformed();
      }
    } else if (!WireFormatLite::SkipField(in, tag)) {
      return Malformed();
    }
  }
  if (!in->ConsumedEntireMessage()) return Malformed();
  if (received.entry.is_dead) return received;
  if (host_transfers::Loan lent; options.UnpackTo(&lent)) {
    TANDEM_ASSIGN_OR_RETURN(received.entry.value, Borrow(lent, reader, *std::move(loan)));
    received.was_lent = true;
  } else if (reader.content().is_valid()) {
    received.entry.value = std::move(reader.content());
  } else {
    // In another form than the one that senders choose for large values. A list whose last entry
    // repeats is none that tasks send.
    constexpr size_t kMostRepeated = size_t{64} << 20;
    constexpr size_t kMostForAByte = 64;  // An empty string.
    TANDEM_ASSIGN_OR_RETURN(received.entry.value,
                            TensorFromProto(reader.proto(), kMostRepeated + kMostForAByte * size));
  }
  return received;
}

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeReceivedTensor(Rendezvous::Entry entry,
                                                      int64_t sent_micros) {
  if (entry.is_dead) {
    RecvTensorResponse response;
    response.set_is_dead(true);
    response.set_send_start_micros(sent_micros);
    // Some readers want a tensor in any case.
    response.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
    response.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(0);
    return WholeMessage(response);
  }
  entry.value.Localize();
  const size_t bytes = entry.value.is_valid() ? entry.value.num_bytes() : 0;
  constexpr size_t kRoomForHeader = 4096;
  if (bytes > kMaxMessage - kRoomForHeader) {
    return errors::InvalidArgument(
        "a value of ", DataTypeName(entry.value.dtype()), entry.value.shape().DebugString(),
        " is sent to another task; it takes ", bytes,
        " bytes, and a message can hold 2 GiB. Place both ends in one task, or split it");
  }
  if (!entry.value.is_valid() || !IsPlain(entry.value.dtype())) {
    RecvTensorResponse response;
    response.set_send_start_micros(sent_micros);
    TANDEM_RETURN_IF_ERROR(
        TensorToProto(entry.value, response.mutable_tensor(), TensorProtoForm::kContent));
    return WholeMessage(response);
  }
  std::string header = HeaderOf(entry.value, sent_micros);
  if (bytes < kMinBytesInPlace) {
    header.append(static_cast<const char*>(entry.value.data()), bytes);
    const grpc::Slice slice(header);
    return grpc::ByteBuffer(&slice, 1);
  }
  const grpc::Slice slices[] = {grpc::Slice(header), ElementsOf(std::move(entry.value))};
  return grpc::ByteBuffer(slices, 2);
}

absl::optional<grpc::ByteBuffer> EncodeLentTensor(const Rendezvous::Entry& entry,
                                                  int64_t sent_micros, size_t least_bytes,
                                                  SegmentLender* lender, const Ticket& ticket) {
  if (entry.is_dead || !entry.value.is_valid() || !IsPlain(entry.value.dtype()) ||
      entry.value.num_bytes() < least_bytes) {
    return absl::nullopt;
  }
  Tensor value = entry.value;
  value.Localize();
  const absl::optional<uint64_t> segment =
      lender->Lend(ticket, {static_cast<const char*>(value.data()), value.num_bytes()});
  if (!segment.has_value()) return absl::nullopt;
  host_transfers::Loan lent;
  lent.set_segment(*segment);
  lent.set_bytes(value.num_bytes());
  RecvTensorResponse response;
  response.set_send_start_micros(sent_micros);
  response.mutable_tensor()->set_dtype(static_cast<tensorflow::DataType>(value.dtype()));
  ShapeToProto(value.shape(), response.mutable_tensor()->mutable_tensor_shape());
  response.mutable_transport_options()->PackFrom(lent);
  return WholeMessage(response);
}

void SetLoanRequest(const SegmentBorrower::Request& loan, tensorflow::RecvTensorRequest* request) {
  const absl::string_view connection = shared_memory::View(loan.connection());
  host_transfers::LoanRequest offered;
  offered.set_connection(connection.data(), connection.size());
  offered.set_row(loan.ticket().row);
  offered.set_number(loan.ticket().number);
  request->set_dma_ok(true);
  request->mutable_transport_options()->PackFrom(offered);
}

absl::optional<LoanRequest> GetLoanRequest(const tensorflow::RecvTensorRequest& request) {
  host_transfers::LoanRequest offered;
  if (!request.dma_ok() || !request.transport_options().UnpackTo(&offered)) return absl::nullopt;
  return LoanRequest{offered.connection(), {offered.row(), offered.number()}};
}

absl::StatusOr<ReceivedTensor> DecodeReceivedTensor(grpc::ByteBuffer* buffer,
                                                    absl::optional<SegmentBorrower::Request> loan) {
  if (!buffer->Valid()) {
    return errors::InvalidArgument("the answer of RecvTensor is empty");
  }
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) {
    return errors::InvalidArgument("the answer of RecvTensor cannot be read: ",
                                   reader.status().error_message());
  }
  CodedInputStream in(&reader);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  return Decode(&in, buffer->Length(), std::move(loan));
}

}  // namespace tandem
