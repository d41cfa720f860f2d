#include "runtime/rpc/step_messages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/named_tensor.pb.h"
#include "runtime/rpc/tensor_wire.h"

namespace tandem {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using tensorflow::NamedTensorProto;

constexpr size_t kMaxMessage = std::numeric_limits<int32_t>::max();

// What a message is put together from: bytes that were written, and elements in their own memory.
class Pieces {
 public:
  // To append to.
  std::string& bytes() { return bytes_; }
  void Add(Tensor elements) {
    Flush();
    size_ += elements.num_bytes();
    slices_.push_back(ElementsOf(std::move(elements)));
  }
  size_t size() const { return size_ + bytes_.size(); }
  grpc::ByteBuffer Finish() {
    Flush();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Flush() {
    if (bytes_.empty()) return;
    size_ += bytes_.size();
    slices_.emplace_back(bytes_);
    bytes_.clear();
  }

  std::string bytes_;
  size_t size_ = 0;
  std::vector<grpc::Slice> slices_;
};

void AppendVarint(uint64_t value, std::string* bytes) {
  while (value >= 0x80) {
    bytes->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  bytes->push_back(static_cast<char>(value));
}

size_t VarintSize(uint64_t value) { return CodedOutputStream::VarintSize64(value); }

// Appends the field with one tensor.
absl::Status Append(TensorField field, NamedTensor tensor, Pieces* pieces) {
  tensor.value.Localize();
  std::string proto;
  size_t elements = 0;
  if (tensor.is_lent) {
    tensorflow::TensorProto header;
    header.set_dtype(static_cast<tensorflow::DataType>(tensor.value.dtype()));
    ShapeToProto(tensor.value.shape(), header.mutable_tensor_shape());
    proto = header.SerializeAsString();
  } else if (tensor.value.is_valid() && IsPlain(tensor.value.dtype()) &&
             tensor.value.num_bytes() >= kMinBytesInPlace) {
    elements = tensor.value.num_bytes();
    if (elements > kMaxMessage) {
      return errors::InvalidArgument(DataTypeName(tensor.value.dtype()),
                                     tensor.value.shape().DebugString(), " takes ", elements,
                                     " bytes, and a message can hold 2 GiB");
    }
    proto = TensorHeader(tensor.value);
  } else {
    tensorflow::TensorProto whole;
    TANDEM_RETURN_IF_ERROR(TensorToProto(tensor.value, &whole, TensorProtoForm::kContent));
    proto = whole.SerializeAsString();
  }
  const size_t size = proto.size() + elements;
  std::string& bytes = pieces->bytes();
  if (field.is_named) {
    AppendVarint(BytesTag(field.number), &bytes);
    AppendVarint(2 + VarintSize(tensor.name.size()) + tensor.name.size() + VarintSize(size) + size,
                 &bytes);
    AppendVarint(BytesTag(NamedTensorProto::kNameFieldNumber), &bytes);
    AppendVarint(tensor.name.size(), &bytes);
    bytes.append(tensor.name);
    AppendVarint(BytesTag(NamedTensorProto::kTensorFieldNumber), &bytes);
  } else {
    AppendVarint(BytesTag(field.number), &bytes);
  }
  AppendVarint(size, &bytes);
  bytes.append(proto);
  if (elements > 0) pieces->Add(std::move(tensor.value));
  return absl::OkStatus();
}

class Decoder {
 public:
  Decoder(google::protobuf::io::ZeroCopyInputStream* stream, size_t size, TensorField field,
          size_t most_bytes)
      : in_(stream), size_(size), field_(field), left_(most_bytes) {
    in_.SetTotalBytesLimit(std::numeric_limits<int>::max());
  }

  absl::StatusOr<std::vector<ReadTensor>> Read(google::protobuf::MessageLite* rest,
                                               google::protobuf::MessageLite* extras) {
    std::vector<ReadTensor> tensors;
    std::string others;
    {
      StringOutputStream stream(&others);
      CodedOutputStream out(&stream);
      for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
        if (tag == BytesTag(field_.number)) {
          const CodedInputStream::Limit limit = in_.ReadLengthAndPushLimit();
          ReadTensor read;
          TANDEM_RETURN_IF_ERROR(field_.is_named ? ReadNamed(&read) : ReadOne(&read));
          if (!in_.CheckEntireMessageConsumedAndPopLimit(limit)) return Malformed();
          tensors.push_back(std::move(read));
        } else if (tag == BytesTag(kExtrasField) && extras != nullptr) {
          std::string bytes;
          if (!WireFormatLite::ReadBytes(&in_, &bytes) || !extras->ParseFromString(bytes)) {
            return Malformed();
          }
        } else if (!WireFormatLite::SkipField(&in_, tag, &out)) {
          return Malformed();
        }
      }
    }
    if (!in_.ConsumedEntireMessage() || !rest->ParseFromString(others)) return Malformed();
    return tensors;
  }

 private:
  static absl::Status Malformed() {
    return errors::InvalidArgument("a message with the tensors of a step does not parse");
  }

  absl::Status ReadNamed(ReadTensor* read) {
    for (uint32_t tag = in_.ReadTag(); tag != 0; tag = in_.ReadTag()) {
      if (tag == BytesTag(NamedTensorProto::kNameFieldNumber)) {
        if (!WireFormatLite::ReadString(&in_, &read->name)) return Malformed();
      } else if (tag == BytesTag(NamedTensorProto::kTensorFieldNumber)) {
        const CodedInputStream::Limit limit = in_.ReadLengthAndPushLimit();
        TANDEM_RETURN_IF_ERROR(ReadOne(read));
        if (!in_.CheckEntireMessageConsumedAndPopLimit(limit)) return Malformed();
      } else if (!WireFormatLite::SkipField(&in_, tag)) {
        return Malformed();
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadOne(ReadTensor* read) {
    TensorReader reader(&in_, size_);
    TANDEM_RETURN_IF_ERROR(reader.Read(left_));
    if (reader.content().is_valid()) left_ -= reader.content().num_bytes();
    read->value = std::move(reader.content());
    read->proto = std::move(reader.proto());
    return absl::OkStatus();
  }

  CodedInputStream in_;
  const size_t size_;
  const TensorField field_;
  size_t left_;
};

}  // namespace

absl::StatusOr<grpc::ByteBuffer> EncodeStepMessage(const google::protobuf::MessageLite& rest,
                                                   TensorField field, const char* what,
                                                   std::vector<NamedTensor> tensors,
                                                   const google::protobuf::MessageLite* extras) {
  Pieces pieces;
  if (!rest.AppendToString(&pieces.bytes())) {
    return errors::InvalidArgument("a message is larger than 2 GiB");
  }
  if (extras != nullptr) {
    AppendVarint(BytesTag(kExtrasField), &pieces.bytes());
    AppendVarint(extras->ByteSizeLong(), &pieces.bytes());
    if (!extras->AppendToString(&pieces.bytes())) {
      return errors::InvalidArgument("a message is larger than 2 GiB");
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = field.is_named ? absl::StrCat(what, " '", tensors[i].name, "'")
                                            : absl::StrCat(what, " ", i);
    const absl::Status status = Append(field, std::move(tensors[i]), &pieces);
    if (!status.ok()) return WithContext(status, name);
    if (pieces.size() > kMaxMessage) {
      return errors::InvalidArgument("up to ", name, " the tensors of a step take ", pieces.size(),
                                     " bytes, and a message can hold 2 GiB");
    }
  }
  return pieces.Finish();
}

absl::StatusOr<std::vector<ReadTensor>> DecodeStepMessage(grpc::ByteBuffer* buffer,
                                                          TensorField field, size_t most_bytes,
                                                          google::protobuf::MessageLite* rest,
                                                          google::protobuf::MessageLite* extras) {
  rest->Clear();
  if (extras != nullptr) extras->Clear();
  // An empty message has no slices.
  if (!buffer->Valid() || buffer->Length() == 0) return std::vector<ReadTensor>();
  grpc::ProtoBufferReader reader(buffer);
  if (!reader.status().ok()) {
    return errors::InvalidArgument("a message cannot be read: ", reader.status().error_message());
  }
  return Decoder(&reader, buffer->Length(), field, most_bytes).Read(rest, extras);
}

absl::StatusOr<Tensor> ValueOf(ReadTensor read) {
  if (read.value.is_valid()) return std::move(read.value);
  return TensorFromProto(read.proto);
}

}  // namespace tandem
