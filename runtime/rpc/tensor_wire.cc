#include "runtime/rpc/tensor_wire.h"

#include <limits>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tandem {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using tensorflow::TensorProto;

absl::Status Malformed() {
  return errors::InvalidArgument("a message holds a tensor that is no TensorProto");
}

}  // namespace

bool IsPlain(DataType dtype) {
  return IsSupported(dtype) && IsTriviallyCopyable(dtype) && dtype != kBool;
}

std::string TensorHeader(const Tensor& tensor) {
  std::string header;
  StringOutputStream stream(&header);
  CodedOutputStream out(&stream);
  out.WriteTag(VarintTag(TensorProto::kDtypeFieldNumber));
  out.WriteVarint32(static_cast<uint32_t>(tensor.dtype()));
  if (tensor.shape().rank() > 0) {
    tensorflow::TensorShapeProto shape;
    ShapeToProto(tensor.shape(), &shape);
    out.WriteTag(BytesTag(TensorProto::kTensorShapeFieldNumber));
    out.WriteVarint32(static_cast<uint32_t>(shape.ByteSizeLong()));
    shape.SerializeToCodedStream(&out);
  }
  if (tensor.num_bytes() > 0) {
    out.WriteTag(BytesTag(TensorProto::kTensorContentFieldNumber));
    out.WriteVarint32(static_cast<uint32_t>(tensor.num_bytes()));
  }
  // What is still in the stream's buffer goes to the string when it is trimmed.
  out.Trim();
  return header;
}

grpc::Slice ElementsOf(Tensor tensor) {
  auto holder = std::make_unique<Tensor>(std::move(tensor));
  void* const data = holder->mutable_data();
  const size_t bytes = holder->num_bytes();
  return grpc::Slice(
      data, bytes, [](void* tensor) { delete static_cast<Tensor*>(tensor); }, holder.release());
}

absl::Status TensorReader::Read(size_t most_bytes) {
  const int left = in_.BytesUntilLimit();
  if (left >= 0 && static_cast<size_t>(left) < kMinBytesInPlace) {
    return proto_.MergeFromCodedStream(&in_) ? absl::OkStatus() : Malformed();
  }
  for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
    const bool is_content = tag == BytesTag(TensorProto::kTensorContentFieldNumber) &&
                            IsPlain(static_cast<DataType>(proto_.dtype()));
    if (content_.is_valid()) {
      // Another field, where none is to be expected: the message decides what it means.
      proto_.set_tensor_content(content_.data(), content_.num_bytes());
      content_.Reset();
    }
    if (is_content) {
      uint32_t length = 0;
      if (!in_.ReadVarint32(&length) || length > message_bytes_ ||
          length > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
        return Malformed();
      }
      if (length >= kMinBytesInPlace && length <= most_bytes) {
        TANDEM_RETURN_IF_ERROR(ReadContent(length));
      } else if (!in_.ReadString(proto_.mutable_tensor_content(), static_cast<int>(length))) {
        return Malformed();
      }
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
  }
  return absl::OkStatus();
}

absl::Status TensorReader::ReadContent(uint32_t length) {
  proto_.clear_tensor_content();
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeOf(length));
  TANDEM_ASSIGN_OR_RETURN(content_,
                          Tensor::Create(static_cast<DataType>(proto_.dtype()), std::move(shape)));
  if (!in_.ReadRaw(content_.mutable_data(), static_cast<int>(length))) return Malformed();
  return absl::OkStatus();
}

absl::StatusOr<Shape> TensorReader::ShapeOf(uint64_t bytes) const {
  const auto dtype = static_cast<DataType>(proto_.dtype());
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto_.tensor_shape()));
  const size_t size = DataTypeSize(dtype);
  if (bytes % size != 0 || static_cast<uint64_t>(shape.num_elements()) != bytes / size) {
    return errors::InvalidArgument("a message holds ", bytes, " bytes for ", DataTypeName(dtype),
                                   shape.DebugString());
  }
  return shape;
}

}  // namespace tandem
