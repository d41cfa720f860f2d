// How the values of a class of variants become messages, for files and for other processes: each
// class registers a codec beside its definition.
//
//   const VariantCodecRegistration registration("tensorflow::TensorList", {Encode, Decode});
//
// A class without a codec stays in its process; who tries to send it gets Unimplemented, with the
// name of the type.
#ifndef TANDEM_CORE_TENSOR_VARIANT_CODEC_H_
#define TANDEM_CORE_TENSOR_VARIANT_CODEC_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ref_counted.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_proto.h"
#include "core/tensor/variant.h"

namespace tensorflow {
class TensorProto;
class VariantTensorDataProto;
}  // namespace tensorflow

namespace tandem {

struct VariantCodec {
  using WriteTensor = absl::FunctionRef<absl::Status(const Tensor&, tensorflow::TensorProto*)>;
  using ReadTensor = absl::FunctionRef<absl::StatusOr<Tensor>(const tensorflow::TensorProto&)>;

  // Fills metadata and tensors. `value` is of the registered class; tensors inside are written with
  // `write`.
  absl::Status (*encode)(const VariantValue& value, WriteTensor write,
                         tensorflow::VariantTensorDataProto* to) = nullptr;
  // InvalidArgument: what is no value. The message is not trusted; tensors inside are read with
  // `read`, which counts their memory.
  absl::StatusOr<RefPtr<VariantValue>> (*decode)(const tensorflow::VariantTensorDataProto& from,
                                                 ReadTensor read) = nullptr;
};

// Before main.
class VariantCodecRegistration {
 public:
  VariantCodecRegistration(absl::string_view type_name, VariantCodec codec);
};

// One variant as a message of its own, which is empty for an empty variant: what bundles hold.
// Unimplemented: a class without a codec. InvalidArgument: values in values more than
// kMaxVariantDepth deep, a message that is no value.
inline constexpr int kMaxVariantDepth = 16;
absl::Status VariantToProto(const Variant& variant, tensorflow::VariantTensorDataProto* proto);
absl::StatusOr<Variant> VariantFromProto(const tensorflow::VariantTensorDataProto& proto,
                                         size_t max_bytes = kMaxTensorProtoBytes);

}  // namespace tandem

#endif  // TANDEM_CORE_TENSOR_VARIANT_CODEC_H_
