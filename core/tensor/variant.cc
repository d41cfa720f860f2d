#include "core/tensor/variant.h"

#include "core/tensor/tensor.h"

namespace tandem {

absl::StatusOr<RefPtr<VariantValue>> VariantValue::ZerosLike(ZerosLikeFunction) const {
  return errors::Unimplemented("there are no zeros like a variant of type ", TypeName());
}

absl::StatusOr<RefPtr<VariantValue>> VariantValue::Add(const VariantValue&, AddFunction) const {
  return errors::Unimplemented("variants of type ", TypeName(), " cannot be added");
}

}  // namespace tandem
