// RaggedRange: rows of numbers, each from a start up to a limit, in steps.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/ragged/splits.h"

namespace tandem::ragged {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

absl::Status RangeShape(ShapeContext& c) {
  // All that are vectors have one length.
  PartialShape rows({kUnknown});
  bool all_scalars = true;
  for (int i = 0; i < 3; ++i) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank()) {
      all_scalars = false;
      continue;
    }
    if (shape.rank() == 0) continue;
    all_scalars = false;
    TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
    TANDEM_ASSIGN_OR_RETURN(rows, rows.MergeWith(shape));
  }
  const int64_t count = all_scalars ? 1 : rows.dim(0);
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({count < 0 ? kUnknown : count + 1})));
  return c.SetOutput(1, PartialShape({kUnknown}));
}

// How many numbers there are from `start` to `limit`. InvalidArgument: delta is 0, or there are too
// many for int64.
template <typename T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == T{0}) return errors::InvalidArgument("a delta is 0");
  if constexpr (std::is_integral_v<T>) {
    if ((delta > 0 && start >= limit) || (delta < 0 && start <= limit)) return 0;
    // Unsigned: the distance of two int64 may not fit into one.
    const uint64_t distance = delta > 0
                                  ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
    const uint64_t size = (distance - 1) / step + 1;
    if (size <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(size);
  } else {
    if (!(delta > 0 ? start < limit : start > limit)) return 0;
    const T size = std::ceil(std::abs((limit - start) / delta));
    if (size < static_cast<T>(INT64_MAX)) return static_cast<int64_t>(size);
  }
  return errors::InvalidArgument("a row from ", start, " to ", limit, " in steps of ", delta,
                                 " has more numbers than int64 can count");
}

template <typename T>
class RangeKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    int64_t rows = 1;
    bool has_vector = false;
    for (int i = 0; i < 3; ++i) {
      const Shape& shape = c.input(i).shape();
      if (shape.IsScalar()) continue;
      if (!shape.IsVector() || (has_vector && shape.dim(0) != rows)) {
        return errors::InvalidArgument(
            "starts, limits and deltas have shapes ", c.input(0).shape().DebugString(), ", ",
            c.input(1).shape().DebugString(), " and ", c.input(2).shape().DebugString(),
            "; they must be scalars or vectors of one length");
      }
      rows = shape.dim(0);
      has_vector = true;
    }
    RowSplits splits = {0};
    splits.reserve(static_cast<size_t>(rows) + 1);
    for (int64_t row = 0; row < rows; ++row) {
      TANDEM_ASSIGN_OR_RETURN(const int64_t size,
                              RangeSize(At(c, 0, row), At(c, 1, row), At(c, 2, row)));
      if (size > INT64_MAX - splits.back()) {
        return errors::InvalidArgument("the rows have more numbers than int64 can count");
      }
      splits.push_back(splits.back() + size);
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * ends, c.AllocateOutput(0, Shape({rows + 1})));
    TANDEM_RETURN_IF_ERROR(WriteSplits(splits, ends));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(1, Shape({splits.back()})));
    T* to = output->MutableElements<T>().data();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t size = splits[static_cast<size_t>(row) + 1] - splits[static_cast<size_t>(row)];
      T value = At(c, 0, row);
      for (int64_t i = 0; i < size; ++i) {
        *to++ = value;
        // Not one step beyond the last number, which may not fit. Added up, not multiplied, as
        // TensorFlow does: the last bits of floats tell.
        if (i + 1 < size) value = static_cast<T>(value + At(c, 2, row));
      }
    }
    return absl::OkStatus();
  }

 private:
  static T At(KernelContext& c, int input, int64_t row) {
    const auto values = c.input(input).Elements<T>();
    return values[c.input(input).shape().IsScalar() ? 0 : static_cast<size_t>(row)];
  }
};

TANDEM_OP("RaggedRange")
    .Inputs("starts:T, limits:T, deltas:T")
    .Outputs("rt_nested_splits:Tsplits, rt_dense_values:T")
    .Attrs("T:type{bfloat16,float32,float64,int32,int64}=int32; Tsplits:type{int32,int64}=int64")
    .Shape(RangeShape)
    .NotDifferentiable()
    .HostMemory({"starts", "limits", "deltas"})
    .Cpu(ByType<RangeKernel, float, double, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem::ragged
