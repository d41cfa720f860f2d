// Signatures of ops as TensorFlow's OpDef messages: for tools and clients that ask for them, and
// for functions, whose signature is one.
//
// Threads: all functions may be called from any thread.
#ifndef TANDEM_CORE_GRAPH_OP_DEF_PROTO_H_
#define TANDEM_CORE_GRAPH_OP_DEF_PROTO_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/op/op_def.h"

namespace tensorflow {
class OpDef;
}  // namespace tensorflow

namespace tandem {

// Replaces the contents of `proto` by the signature; shape function, gradient and kernels have no
// counterpart there.
absl::Status OpDefToProto(const OpDef& def, tensorflow::OpDef* proto);

// The signature alone. The message is not trusted; the result is consistent: names are there and
// differ, each argument has exactly one type, and the attributes that it refers to are declared
// with the right kind. InvalidArgument names the op and the argument or attribute.
absl::StatusOr<OpDef> OpDefFromProto(const tensorflow::OpDef& proto);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_OP_DEF_PROTO_H_
