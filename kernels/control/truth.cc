#include "kernels/control/truth.h"

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace tandem {
namespace {

template <typename T>
bool IsNotZero(const Tensor& scalar) {
  return scalar.ScalarValue<T>() != T(0);
}

}  // namespace

absl::StatusOr<bool> Truth(const Tensor& value) {
  if (!value.shape().IsScalar()) return value.num_elements() > 0;
  switch (value.dtype()) {
    case kBool:
      return value.ScalarValue<bool>();
    case kString:
      return !value.ScalarValue<std::string>().empty();
    case kFloat32:
      return IsNotZero<float>(value);
    case kFloat64:
      return IsNotZero<double>(value);
    case kInt8:
      return IsNotZero<int8_t>(value);
    case kInt16:
      return IsNotZero<int16_t>(value);
    case kInt32:
      return IsNotZero<int32_t>(value);
    case kInt64:
      return IsNotZero<int64_t>(value);
    case kUint8:
      return IsNotZero<uint8_t>(value);
    default:
      return errors::InvalidArgument("a condition of type ", DataTypeName(value.dtype()),
                                     " is neither true nor false; compare it with something");
  }
}

}  // namespace tandem
