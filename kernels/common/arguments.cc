#include "kernels/common/arguments.h"

#include "core/base/status.h"

namespace tandem {
namespace {

template <typename T>
void Append(const Tensor& tensor, SmallInts* values) {
  for (const T value : tensor.Elements<T>()) values->push_back(static_cast<int64_t>(value));
}

}  // namespace

absl::StatusOr<SmallInts> IntsArgument(const Tensor& tensor, absl::string_view name) {
  SmallInts values;
  switch (tensor.dtype()) {
    case kInt32:
      Append<int32_t>(tensor, &values);
      return values;
    case kInt64:
      Append<int64_t>(tensor, &values);
      return values;
    case kInt16:
      Append<int16_t>(tensor, &values);
      return values;
    case kInt8:
      Append<int8_t>(tensor, &values);
      return values;
    default:
      return errors::InvalidArgument(name, " is of type ", DataTypeName(tensor.dtype()),
                                     "; an integer type is wanted");
  }
}

absl::StatusOr<int64_t> ScalarArgument(const Tensor& tensor, absl::string_view name) {
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument(name, " must be a scalar, but has shape ",
                                   tensor.shape().DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(SmallInts values, IntsArgument(tensor, name));
  return values[0];
}

absl::StatusOr<SmallInts> VectorArgument(const Tensor& tensor, absl::string_view name,
                                         bool scalar_is_vector) {
  if (!tensor.shape().IsVector() && !(scalar_is_vector && tensor.shape().IsScalar())) {
    return errors::InvalidArgument(name, " must be a vector, but has shape ",
                                   tensor.shape().DebugString());
  }
  return IntsArgument(tensor, name);
}

absl::StatusOr<Shape> ShapeArgument(const Tensor& tensor, absl::string_view name) {
  TANDEM_ASSIGN_OR_RETURN(SmallInts sizes, VectorArgument(tensor, name));
  absl::StatusOr<Shape> shape = Shape::FromDims(sizes);
  if (!shape.ok()) return WithContext(shape.status(), name);
  return shape;
}

absl::StatusOr<int> AxisArgument(const Tensor& tensor, absl::string_view name, int rank) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t axis, ScalarArgument(tensor, name));
  if (axis < -rank || axis >= rank) {
    return errors::InvalidArgument(name, " is ", axis, ", outside [", -rank, ", ", rank,
                                   "), the axes of a tensor of rank ", rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace tandem
