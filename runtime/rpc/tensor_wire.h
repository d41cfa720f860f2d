// Tensors as parts of messages in gRPC's slices: the elements of large ones leave in their own
// memory, and go from the slices straight into a tensor.
//
// On the wire they are ordinary TensorProtos.
#ifndef TANDEM_RUNTIME_RPC_TENSOR_WIRE_H_
#define TANDEM_RUNTIME_RPC_TENSOR_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"
#include "proto/tensor.pb.h"

namespace tandem {

// The elements of tensors of at least this many bytes are not copied; for smaller ones a slice of
// their own costs more than the copy.
inline constexpr size_t kMinBytesInPlace = 1024;

// The tags of fields with bytes (messages, strings) and with numbers.
constexpr uint32_t BytesTag(int field) {
  using google::protobuf::internal::WireFormatLite;
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr uint32_t VarintTag(int field) {
  using google::protobuf::internal::WireFormatLite;
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}

// Elements that are their own wire form. Bools are not: each byte has to be looked at.
bool IsPlain(DataType dtype);

// A TensorProto's bytes up to, and without, its elements. REQUIRES: IsPlain; the elements take less
// than 2 GiB.
std::string TensorHeader(const Tensor& tensor);

// The tensor's elements as a slice that holds the tensor.
grpc::Slice ElementsOf(Tensor tensor);

// Reads a TensorProto field by field. Nothing in it is trusted.
class TensorReader {
 public:
  // `in` outlives it. What is claimed has to fit into `message_bytes`, those of the whole message,
  // before memory is taken for it.
  TensorReader(google::protobuf::io::CodedInputStream* in, size_t message_bytes)
      : in_(*in), message_bytes_(message_bytes) {}

  // To the end of what the stream's limit allows. Elements of plain types that take at most
  // `most_bytes` are read in place. InvalidArgument: it is no TensorProto, or has another number of
  // elements than its shape. ResourceExhausted: no memory.
  absl::Status Read(size_t most_bytes);

  // What was read in place; not valid: all of the tensor is in `proto`.
  const Tensor& content() const { return content_; }
  Tensor& content() { return content_; }
  // What was read but for that.
  const tensorflow::TensorProto& proto() const { return proto_; }
  tensorflow::TensorProto& proto() { return proto_; }

  // The tensor's shape. InvalidArgument: it is none, or so many bytes are not its elements.
  // REQUIRES: IsPlain(proto().dtype()).
  absl::StatusOr<Shape> ShapeOf(uint64_t bytes) const;

 private:
  absl::Status ReadContent(uint32_t length);

  google::protobuf::io::CodedInputStream& in_;
  const size_t message_bytes_;
  tensorflow::TensorProto proto_;
  Tensor content_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TENSOR_WIRE_H_
