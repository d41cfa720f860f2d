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
#include "proto/worker.pb.h"

namespace tandem {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using tensorflow::RecvTensorResponse;
using tensorflow::TensorProto;

constexpr uint32_t Bytes(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr uint32_t Varint(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}

constexpr size_t kMaxMessage = std::numeric_limits<int32_t>::max();

grpc::ByteBuffer WholeMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// The tensor's elements as a slice that holds the tensor.
grpc::Slice ElementsOf(Tensor tensor) {
  auto holder = std::make_unique<Tensor>(std::move(tensor));
  void* const data = holder->mutable_data();
  const size_t bytes = holder->num_bytes();
  return grpc::Slice(
      data, bytes, [](void* tensor) { delete static_cast<Tensor*>(tensor); }, holder.release());
}

// Elements that are their own wire form. Bools are not: each byte has to be looked at.
bool IsPlain(DataType dtype) {
  return IsSupported(dtype) && IsTriviallyCopyable(dtype) && dtype != kBool;
}

// What precedes the content of a plain tensor: RecvTensorResponse's scalars, then TensorProto up to
// and with the content's length.
std::string HeaderOf(const Tensor& tensor, int64_t sent_micros) {
  std::string inner;
  {
    StringOutputStream stream(&inner);
    CodedOutputStream out(&stream);
    out.WriteTag(Varint(TensorProto::kDtypeFieldNumber));
    out.WriteVarint32(static_cast<uint32_t>(tensor.dtype()));
    if (tensor.shape().rank() > 0) {
      tensorflow::TensorShapeProto shape;
      ShapeToProto(tensor.shape(), &shape);
      out.WriteTag(Bytes(TensorProto::kTensorShapeFieldNumber));
      out.WriteVarint32(static_cast<uint32_t>(shape.ByteSizeLong()));
      shape.SerializeToCodedStream(&out);
    }
    if (tensor.num_bytes() > 0) {
      out.WriteTag(Bytes(TensorProto::kTensorContentFieldNumber));
      out.WriteVarint32(static_cast<uint32_t>(tensor.num_bytes()));
    }
  }
  std::string header;
  StringOutputStream stream(&header);
  CodedOutputStream out(&stream);
  out.WriteTag(Varint(RecvTensorResponse::kSendStartMicrosFieldNumber));
  out.WriteVarint64(static_cast<uint64_t>(sent_micros));
  out.WriteTag(Bytes(RecvTensorResponse::kTensorFieldNumber));
  out.WriteVarint32(static_cast<uint32_t>(inner.size() + tensor.num_bytes()));
  out.WriteString(inner);
  return header;
}

// Reads messages field by field, and the content of plain tensors into their memory.
class Decoder {
 public:
  explicit Decoder(google::protobuf::io::ZeroCopyInputStream* stream, size_t size)
      : in_(stream), size_(size) {
    in_.SetTotalBytesLimit(std::numeric_limits<int>::max());
  }

  absl::StatusOr<Rendezvous::Entry> Read() {
    Rendezvous::Entry entry;
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      if (tag == Bytes(RecvTensorResponse::kTensorFieldNumber)) {
        const CodedInputStream::Limit limit = in_.ReadLengthAndPushLimit();
        TANDEM_RETURN_IF_ERROR(ReadTensor());
        if (!in_.CheckEntireMessageConsumedAndPopLimit(limit)) return Malformed();
      } else if (tag == Varint(RecvTensorResponse::kIsDeadFieldNumber)) {
        uint64_t value = 0;
        if (!in_.ReadVarint64(&value)) return Malformed();
        entry.is_dead = value != 0;
      } else if (!WireFormatLite::SkipField(&in_, tag)) {
        return Malformed();
      }
    }
    if (!in_.ConsumedEntireMessage()) return Malformed();
    if (entry.is_dead) return entry;
    if (!content_.is_valid()) {
      // A tensor in another form than the one that senders choose for large values.
      TANDEM_ASSIGN_OR_RETURN(content_, TensorFromProto(proto_));
    }
    entry.value = std::move(content_);
    return entry;
  }

 private:
  static absl::Status Malformed() {
    return errors::InvalidArgument("the answer of RecvTensor is no RecvTensorResponse");
  }

  absl::Status ReadTensor() {
    content_.Reset();
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      if (tag == Bytes(TensorProto::kTensorContentFieldNumber) &&
          IsPlain(static_cast<DataType>(proto_.dtype()))) {
        TANDEM_RETURN_IF_ERROR(ReadContent());
        continue;
      }
      // Everything else is small or needs to be looked at: it goes through the message.
      std::string field;
      {
        StringOutputStream stream(&field);
        CodedOutputStream out(&stream);
        if (!WireFormatLite::SkipField(&in_, tag, &out)) return Malformed();
      }
      if (!proto_.MergeFromString(field)) return Malformed();
      content_.Reset();
    }
    return absl::OkStatus();
  }

  absl::Status ReadContent() {
    uint32_t length = 0;
    // What is claimed must be there before memory is taken for it.
    if (!in_.ReadVarint32(&length) || length > size_ ||
        length > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
      return Malformed();
    }
    const auto dtype = static_cast<DataType>(proto_.dtype());
    absl::StatusOr<Shape> shape = ShapeFromProto(proto_.tensor_shape());
    if (!shape.ok()) return shape.status();
    const size_t size = DataTypeSize(dtype);
    if (length % size != 0 || static_cast<uint64_t>(shape->num_elements()) != length / size) {
      return errors::InvalidArgument("the answer of RecvTensor holds ", length, " bytes for ",
                                     DataTypeName(dtype), shape->DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(content_, Tensor::Create(dtype, *std::move(shape)));
    if (!in_.ReadRaw(content_.mutable_data(), static_cast<int>(length))) return Malformed();
    return absl::OkStatus();
  }

  CodedInputStream in_;
  const size_t size_;
  TensorProto proto_;  // What was read but for the content of a plain tensor.
  Tensor content_;
};

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

absl::StatusOr<Rendezvous::Entry> DecodeReceivedTensor(grpc::ByteBuffer* buffer) {
  if (!buffer->Valid()) {
    return errors::InvalidArgument("the answer of RecvTensor is empty");
  }
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) {
    return errors::InvalidArgument("the answer of RecvTensor cannot be read: ",
                                   reader.status().error_message());
  }
  return Decoder(&reader, buffer->Length()).Read();
}

}  // namespace tandem
