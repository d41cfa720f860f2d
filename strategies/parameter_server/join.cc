#include "strategies/parameter_server/join.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

// Calls `f` with a value of the type of numbers that `dtype` is. False: it is none of these.
template <typename F>
bool WithNumberType(DataType dtype, F f) {
  switch (dtype) {
    case kFloat32:
      f(float{});
      return true;
    case kFloat64:
      f(double{});
      return true;
    case kInt32:
      f(int32_t{});
      return true;
    case kInt64:
      f(int64_t{});
      return true;
    default:
      return false;
  }
}

template <typename T>
T Scaled(double value, double scale) {
  if (std::is_integral_v<T>) return static_cast<T>(std::llround(value * scale));
  return static_cast<T>(value * scale);
}

template <typename T>
void AddPart(Join join, absl::Span<const T> part, absl::Span<T> whole) {
  for (size_t i = 0; i < whole.size(); ++i) {
    switch (join) {
      case Join::kMin:
        whole[i] = std::min(whole[i], part[i]);
        break;
      case Join::kMax:
        whole[i] = std::max(whole[i], part[i]);
        break;
      case Join::kProduct:
        whole[i] *= part[i];
        break;
      default:
        whole[i] += part[i];
        break;
    }
  }
}

bool IsPlain(DataType dtype) { return dtype != kString && dtype != kResource && dtype != kVariant; }

absl::StatusOr<Tensor> Concat(const std::vector<Tensor>& parts) {
  std::vector<int64_t> dims(parts[0].shape().dims().begin(), parts[0].shape().dims().end());
  if (dims.empty()) return errors::InvalidArgument("scalars of several workers cannot be joined");
  int64_t rows = 0;
  for (const Tensor& part : parts) {
    std::vector<int64_t> other(part.shape().dims().begin(), part.shape().dims().end());
    if (other.size() == dims.size()) {
      rows += other[0];
      other[0] = dims[0];
    }
    if (other != dims || part.dtype() != parts[0].dtype()) {
      return errors::InvalidArgument("results of two workers are ", parts[0].shape().DebugString(),
                                     " and ", part.shape().DebugString(),
                                     "; they may differ in the first size only");
    }
  }
  dims[0] = rows;
  TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(parts[0].dtype(), Shape(dims)));
  int64_t offset = 0;
  for (const Tensor& part : parts) {
    TANDEM_RETURN_IF_ERROR(PutRows(part, {offset, 1}, &whole));
    offset += part.shape().dim(0);
  }
  return whole;
}

}  // namespace

absl::Status CheckJoin(Join join, DataType dtype) {
  if (join == Join::kConcat ? IsPlain(dtype) : WithNumberType(dtype, [](auto) {})) {
    return absl::OkStatus();
  }
  return errors::Unimplemented("results of type ", DataTypeName(dtype),
                               " of several workers cannot be made into one");
}

absl::StatusOr<Tensor> JoinResults(Join join, const std::vector<Tensor>& parts, double scale) {
  if (parts.empty()) return errors::InvalidArgument("there are no results to be joined");
  const bool is_scaled = join == Join::kSum && scale != 1;
  if (parts.size() == 1 && !is_scaled) return parts[0];
  TANDEM_RETURN_IF_ERROR(CheckJoin(join, parts[0].dtype()));
  if (join == Join::kConcat) return Concat(parts);
  TANDEM_ASSIGN_OR_RETURN(Tensor whole, parts[0].Clone());
  for (const Tensor& part : parts) {
    if (part.dtype() == whole.dtype() && part.shape() == whole.shape()) continue;
    return errors::InvalidArgument("results of two workers are ", whole.shape().DebugString(),
                                   " and ", part.shape().DebugString(),
                                   "; to be made into one they must have one shape");
  }
  WithNumberType(whole.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const absl::Span<T> values = whole.MutableElements<T>();
    for (size_t i = 1; i < parts.size(); ++i) AddPart(join, parts[i].Elements<T>(), values);
    const double factor = join == Join::kMean ? 1.0 / static_cast<double>(parts.size())
                          : is_scaled         ? scale
                                              : 1;
    if (factor == 1) return;
    for (T& value : values) value = Scaled<T>(static_cast<double>(value), factor);
  });
  return whole;
}

absl::Status PutRows(const Tensor& part, const RowRange& rows, Tensor* whole) {
  const Shape& from = part.shape();
  const Shape& to = whole->shape();
  bool fits = part.dtype() == whole->dtype() && IsPlain(part.dtype()) && from.rank() >= 1 &&
              from.rank() == to.rank() && rows.offset >= 0 && rows.stride >= 1;
  for (int i = 1; fits && i < from.rank(); ++i) fits = from.dim(i) == to.dim(i);
  const int64_t count = fits ? from.dim(0) : 0;
  if (fits && count > 0) fits = rows.offset + (count - 1) * rows.stride < to.dim(0);
  if (!fits) {
    return errors::InvalidArgument("rows ", from.DebugString(), " from ", rows.offset,
                                   " in steps of ", rows.stride, " are none of ", to.DebugString());
  }
  if (count == 0 || part.num_bytes() == 0) return absl::OkStatus();
  const size_t row = part.num_bytes() / static_cast<size_t>(count);
  const char* source = static_cast<const char*>(part.data());
  char* const target = static_cast<char*>(whole->mutable_data());
  if (rows.stride == 1) {
    std::memcpy(target + row * static_cast<size_t>(rows.offset), source, part.num_bytes());
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < count; ++i, source += row) {
    std::memcpy(target + row * static_cast<size_t>(rows.offset + i * rows.stride), source, row);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TakeRows(const Tensor& whole, const RowRange& rows, const Shape& shape) {
  if (whole.shape() == shape && rows.offset == 0 && rows.stride == 1) return whole;
  const Shape& from = whole.shape();
  bool fits = IsPlain(whole.dtype()) && shape.rank() >= 1 && shape.rank() == from.rank() &&
              rows.offset >= 0 && rows.stride >= 1;
  for (int i = 1; fits && i < shape.rank(); ++i) fits = shape.dim(i) == from.dim(i);
  const int64_t count = fits ? shape.dim(0) : 0;
  if (fits && count > 0) fits = rows.offset + (count - 1) * rows.stride < from.dim(0);
  if (!fits) {
    return errors::InvalidArgument("rows ", shape.DebugString(), " from ", rows.offset,
                                   " in steps of ", rows.stride, " are none of ",
                                   from.DebugString());
  }
  if (rows.stride == 1) return whole.Slice(rows.offset, rows.offset + count);
  TANDEM_ASSIGN_OR_RETURN(Tensor part, Tensor::Create(whole.dtype(), shape));
  if (count == 0 || part.num_bytes() == 0) return part;
  const size_t row = part.num_bytes() / static_cast<size_t>(count);
  const char* const source = static_cast<const char*>(whole.data());
  char* target = static_cast<char*>(part.mutable_data());
  for (int64_t i = 0; i < count; ++i, target += row) {
    std::memcpy(target, source + row * static_cast<size_t>(rows.offset + i * rows.stride), row);
  }
  return part;
}

}  // namespace tandem::parameter_server
