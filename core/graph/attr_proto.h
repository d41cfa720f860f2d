// Attribute values as TensorFlow's messages, in both directions.
//
// Messages are not trusted. What is refused: a type that is none, shapes and tensors as
// core/tensor/tensor_proto.h says, a list of several kinds, function values nested too deeply.
// Messages of errors do not name the attribute; the caller adds it.
//
// Threads: all functions may be called from any thread.
#ifndef TANDEM_CORE_GRAPH_ATTR_PROTO_H_
#define TANDEM_CORE_GRAPH_ATTR_PROTO_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/op/attr_value.h"

namespace tensorflow {
class AttrValue;
class NameAttrList;
}  // namespace tensorflow

namespace tandem {

// How much memory the tensors of a message may still take. A few bytes can stand for a large
// tensor, so a graph of many small messages needs one limit for all of them.
struct TensorBudget {
  size_t bytes;
};

// A message without a value gives one of kind kNone; an empty list, an EmptyList. `budget` is
// reduced by what the tensors take; ResourceExhausted when it does not suffice.
absl::StatusOr<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto, TensorBudget* budget);
absl::StatusOr<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto);

// Replaces the contents of `proto`. Errors are those of TensorToProto.
absl::Status AttrToProto(const AttrValue& value, tensorflow::AttrValue* proto);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_ATTR_PROTO_H_
