// Range and LinSpace: evenly spaced numbers.
#include <cmath>
#include <limits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"

namespace tandem::math {
namespace {

absl::Status RequireScalars(ShapeContext& c, int count) {
  for (int i = 0; i < count; ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
  return absl::OkStatus();
}
absl::Status RequireScalars(KernelContext& c, std::initializer_list<const char*> names) {
  int i = 0;
  for (const char* name : names) {
    const Shape& shape = c.input(i++).shape();
    if (!shape.IsScalar()) {
      return errors::InvalidArgument(name, " must be a scalar, but has shape ",
                                     shape.DebugString());
    }
  }
  return absl::OkStatus();
}

// --- Range ---------------------------------------------------------------------------------------

// Types whose arithmetic is done in another: half types in float.
template <typename T>
using Computed =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>, float, T>;

// How many numbers there are from `start` in steps of `delta` before `limit`.
template <typename T>
absl::StatusOr<int64_t> RangeLength(T start, T limit, T delta) {
  if (delta == 0) return errors::InvalidArgument("a range in steps of 0");
  if (delta > 0 ? start > limit : start < limit) {
    return errors::InvalidArgument("a range from ", start, " to ", limit, " in steps of ", delta,
                                   ", which lead away from it");
  }
  if constexpr (std::is_integral_v<T>) {
    // In unsigned numbers, where the largest distance still fits.
    const uint64_t distance = delta > 0
                                  ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
    const uint64_t length = distance / step + (distance % step != 0 ? 1 : 0);
    if (length > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return errors::InvalidArgument("a range from ", start, " to ", limit, " in steps of ", delta,
                                     " has too many numbers");
    }
    return static_cast<int64_t>(length);
  } else {
    const double length = std::ceil(std::abs((limit - start) / delta));
    if (!(length < 9.2e18)) {
      return errors::InvalidArgument("a range from ", start, " to ", limit, " in steps of ", delta,
                                     " has too many numbers, or an end that is no number");
    }
    return static_cast<int64_t>(length);
  }
}

template <typename T>
class RangeKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(RequireScalars(c, {"start", "limit", "delta"}));
    using C = Computed<T>;
    const C start = static_cast<C>(c.input(0).ScalarValue<T>());
    const C limit = static_cast<C>(c.input(1).ScalarValue<T>());
    const C delta = static_cast<C>(c.input(2).ScalarValue<T>());
    TANDEM_ASSIGN_OR_RETURN(const int64_t length, RangeLength(start, limit, delta));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape({length})));
    T* const to = output->MutableElements<T>().data();
    for (int64_t i = 0; i < length; ++i) {
      if constexpr (std::is_integral_v<T>) {
        // Unsigned: i * delta alone may not fit where the sum does.
        using U = std::make_unsigned_t<T>;
        to[i] = static_cast<T>(static_cast<U>(start) + static_cast<U>(i) * static_cast<U>(delta));
      } else {
        to[i] = static_cast<T>(start + static_cast<C>(i) * delta);
      }
    }
    return absl::OkStatus();
  }
};

template <typename T>
absl::StatusOr<int64_t> LengthOf(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  using C = Computed<T>;
  return RangeLength(static_cast<C>(start.ScalarValue<T>()), static_cast<C>(limit.ScalarValue<T>()),
                     static_cast<C>(delta.ScalarValue<T>()));
}

absl::Status RangeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireScalars(c, 3));
  const absl::optional<Tensor> start = c.InputValue(0);
  const absl::optional<Tensor> limit = c.InputValue(1);
  const absl::optional<Tensor> delta = c.InputValue(2);
  if (!start || !limit || !delta) {
    return c.SetOutput(0, PartialShape({PartialShape::kUnknownDim}));
  }
  absl::StatusOr<int64_t> length = PartialShape::kUnknownDim;
  switch (start->dtype()) {
#define TANDEM_CASE_(T)                           \
  case DataTypeOf<T>():                           \
    length = LengthOf<T>(*start, *limit, *delta); \
    break;
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
#undef TANDEM_CASE_
    default:
      break;
  }
  if (!length.ok()) return length.status();
  return c.SetOutput(0, PartialShape({*length}));
}

TANDEM_OP("Range")
    .Inputs("start:Tidx, limit:Tidx, delta:Tidx")
    .Outputs("output:Tidx")
    .Attrs(
        "Tidx:type{bfloat16,float16,float32,float64,int8,int16,int32,int64,uint16,uint32,uint64}"
        "=int32")
    .Shape(RangeShape)
    .NotDifferentiable()
    .HostMemory({"start", "limit", "delta", "output"})
    .Cpu(ByType<RangeKernel, float, double, Float16, Bfloat16, int32_t, int64_t>("Tidx"));

// --- LinSpace ------------------------------------------------------------------------------------

template <typename T>
class LinSpaceKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(RequireScalars(c, {"start", "stop", "num"}));
    const T start = c.input(0).ScalarValue<T>();
    const T stop = c.input(1).ScalarValue<T>();
    TANDEM_ASSIGN_OR_RETURN(const int64_t count, ScalarArgument(c.input(2), "num"));
    if (count <= 0) return errors::InvalidArgument("num is ", count, "; it must be positive");
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape({count})));
    T* const to = output->MutableElements<T>().data();
    const T step = count > 1 ? (stop - start) / static_cast<T>(count - 1) : T(0);
    for (int64_t i = 0; i < count; ++i) to[i] = start + step * static_cast<T>(i);
    if (count > 1) to[count - 1] = stop;  // Not a rounding error beside it.
    return absl::OkStatus();
  }
};

absl::Status LinSpaceShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireScalars(c, 3));
  const absl::optional<int64_t> count = c.InputAsInt(2);
  if (count.has_value() && *count <= 0) {
    return errors::InvalidArgument("num is ", *count, "; it must be positive");
  }
  return c.SetOutput(0, PartialShape({count.value_or(PartialShape::kUnknownDim)}));
}

TANDEM_OP("LinSpace")
    .Inputs("start:T, stop:T, num:Tidx")
    .Outputs("output:T")
    .Attrs("T:type{bfloat16,float16,float32,float64}; Tidx:type{int32,int64}=int32")
    .Shape(LinSpaceShape)
    .NotDifferentiable()
    .HostMemory({"start", "stop", "num"})
    .Cpu(ByType<LinSpaceKernel, float, double>("T"));

}  // namespace
}  // namespace tandem::math
