// MatrixBandPart: the innermost matrices with zeros outside a band around the diagonal.
#include <algorithm>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

absl::Status BandShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  return c.SetOutput(0, c.input(0));
}

absl::Status CheckDiagonals(absl::string_view what, int64_t diagonals, int64_t size) {
  if (diagonals <= size) return absl::OkStatus();
  return errors::InvalidArgument("'", what, "' is ", diagonals, "; at most ", size,
                                 " (or a negative number, for all) is possible");
}

absl::Status BandPart(KernelContext& c) {
  const Tensor& input = c.input(0);
  const Shape& shape = input.shape();
  if (shape.rank() < 2) {
    return errors::InvalidArgument("the input has shape ", shape.DebugString(),
                                   "; it must have at least two dimensions");
  }
  TANDEM_ASSIGN_OR_RETURN(const int64_t lower, ScalarArgument(c.input(1), "num_lower"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t upper, ScalarArgument(c.input(2), "num_upper"));
  const int64_t rows = shape.dim(shape.rank() - 2);
  const int64_t columns = shape.dim(shape.rank() - 1);
  TANDEM_RETURN_IF_ERROR(CheckDiagonals("num_lower", lower, rows));
  TANDEM_RETURN_IF_ERROR(CheckDiagonals("num_upper", upper, columns));
  const DataType dtype = input.dtype();
  const void* const from = input.data();
  // In place where possible: then only zeros are written.
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({0}, 0, shape));
  void* const to = output->mutable_data();
  if (input.num_elements() == 0) return absl::OkStatus();
  const double cost = kNanosecondsPerByte * static_cast<double>(columns) *
                          static_cast<double>(DataTypeSize(dtype)) +
                      5;
  c.parallel().For(input.num_elements() / columns, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows;
      const int64_t first = lower < 0 ? 0 : std::clamp<int64_t>(row - lower, 0, columns);
      const int64_t last =
          upper < 0 ? columns : std::clamp<int64_t>(row + upper + 1, first, columns);
      const int64_t at = i * columns;
      ZeroElements(dtype, ElementAt(dtype, to, at), first);
      if (to != from) {
        CopyElements(dtype, ElementAt(dtype, to, at + first), ElementAt(dtype, from, at + first),
                     last - first);
      }
      ZeroElements(dtype, ElementAt(dtype, to, at + last), columns - last);
    }
  });
  return absl::OkStatus();
}

absl::Status BandGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("MatrixBandPart", {g.OutputGradient(0), g.input(1), g.input(2)}));
  return absl::OkStatus();
}

TANDEM_OP("MatrixBandPart")
    .Inputs("input:T, num_lower:Tindex, num_upper:Tindex")
    .Outputs("band:T")
    .Attrs("T:type; Tindex:type{int32,int64}=int64")
    .Shape(BandShape)
    .Gradient(BandGradient)
    .HostMemory({"num_lower", "num_upper"})
    .Cpu(ForTypes("T", AllTypesBut({kString, kResource, kVariant}), Function(BandPart)));

}  // namespace
}  // namespace tandem::array
