// Tensors and shapes as TensorFlow's messages, in both directions.
//
// A TensorProto comes in three forms, all of which are read: the elements' bytes (tensor_content;
// strings as varint lengths and then the characters), a typed list with one entry an element, and a
// typed list that is shorter, whose last entry repeats (an empty one: zeros, empty strings).
//
// Messages are not trusted: every size is checked before memory is taken for it. What is refused:
//   * InvalidArgument: a type that is none, a shape that is none, content whose size does not match
//     the shape, a bool that is neither 0 nor 1, a handle that does not parse.
//   * Unimplemented: a type in which Tandem holds no tensors; values of variants whose class has no
//     codec (variant_codec.h).
//   * ResourceExhausted: more memory than `max_bytes`, or than there is.
// Messages name type and shape; the caller adds where the tensor came from.
//
// Threads: all functions may be called from any thread. Tensors lie in host memory.
#ifndef TANDEM_CORE_TENSOR_TENSOR_PROTO_H_
#define TANDEM_CORE_TENSOR_TENSOR_PROTO_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class TensorProto;
class TensorShapeProto;
}  // namespace tensorflow

namespace tandem {

// A message of a few bytes may rightly stand for a large tensor, since its last entry repeats. So
// the memory of a tensor that is read is limited: elements, and what strings and handles point at.
inline constexpr size_t kMaxTensorProtoBytes = size_t{2} << 30;

absl::StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto,
                                       size_t max_bytes = kMaxTensorProtoBytes);

enum class TensorProtoForm {
  // Content for numbers, but a list for a handful of them and for all that is not a number, since
  // Python reads strings from lists only. The form for graphs, logs and whatever people look at.
  kCompact,
  // Content for every type: what sessions and workers exchange.
  kContent,
  // A list with an entry for each element: what clients of a model server read.
  kLists,
};

// Replaces the contents of `proto`. InvalidArgument: there is no tensor, or it is larger than a
// message can be (2 GiB). Unimplemented: a variant without a codec. After an error `proto` is
// unspecified.
absl::Status TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto,
                           TensorProtoForm form = TensorProtoForm::kCompact);

// InvalidArgument: an unknown rank or size, and what Shape::FromDims refuses.
absl::StatusOr<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto);
// InvalidArgument: an unknown rank together with sizes, and what PartialShape::FromDims refuses.
absl::StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto);
// Replaces the contents of `proto`; serves Shape too, which converts.
void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto);

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_TENSOR_PROTO_H_
