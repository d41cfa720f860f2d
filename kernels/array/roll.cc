// Roll: elements move along axes, and those that leave at one end come in at the other.
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

absl::Status RollShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  for (int i = 1; i <= 2; ++i) {
    if (c.input(i).has_rank() && c.input(i).rank() > 1) return c.RequireRank(i, 1);
  }
  return UnchangedShape(c);
}

absl::Status Roll(KernelContext& c) {
  const Tensor& input = c.input(0);
  const Shape& shape = input.shape();
  if (shape.rank() < 1) return errors::InvalidArgument("a scalar cannot be rolled");
  TANDEM_ASSIGN_OR_RETURN(const Ints shifts, VectorArgument(c.input(1), "shift", true));
  TANDEM_ASSIGN_OR_RETURN(const Ints axes, VectorArgument(c.input(2), "axis", true));
  if (shifts.size() != axes.size() || c.input(1).shape() != c.input(2).shape()) {
    return errors::InvalidArgument("shift of shape ", c.input(1).shape().DebugString(),
                                   " and axis of shape ", c.input(2).shape().DebugString(),
                                   " must have the same shape");
  }
  // How far each dimension moves, in [0, size). An axis may be named several times.
  std::vector<int64_t> moves(static_cast<size_t>(shape.rank()), 0);
  bool any = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(const int axis, ResolveAxis(axes[i], shape.rank()));
    const int64_t size = shape.dim(axis);
    if (size == 0) continue;
    int64_t& move = moves[static_cast<size_t>(axis)];
    move = ((move + shifts[i] % size) % size + size) % size;
  }
  for (const int64_t move : moves) any = any || move != 0;
  if (!any || input.num_elements() == 0) {
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, shape));
  const auto strides = Strides(shape.dims());
  // A dimension that moves is two pieces, so that there are 2^n pieces of the whole. Each of them
  // has an element, which bounds their number.
  std::vector<size_t> moving;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (moves[i] != 0) moving.push_back(i);
  }
  for (uint64_t piece = 0; piece < (uint64_t{1} << moving.size()); ++piece) {
    LoopDims dims;
    int64_t to = 0;
    int64_t from = 0;
    for (size_t i = 0; i < moves.size(); ++i) {
      dims.push_back({shape.dim(static_cast<int>(i)), strides[i], strides[i]});
    }
    for (size_t k = 0; k < moving.size(); ++k) {
      const size_t i = moving[k];
      const int64_t size = dims[i].size;
      const bool wraps = (piece >> k & 1) != 0;
      dims[i].size = wraps ? moves[i] : size - moves[i];
      (wraps ? from : to) += (wraps ? size - moves[i] : moves[i]) * strides[i];
    }
    CopyStrided(c.parallel(), input.dtype(), ElementAt(input.dtype(), output->mutable_data(), to),
                ElementAt(input.dtype(), input.data(), from), std::move(dims));
  }
  return absl::OkStatus();
}

absl::Status RollGradient(GradientContext& g) {
  const Output back = g.Call("Neg", {g.input(1)});
  g.SetInputGradient(0, g.Call("Roll", {g.OutputGradient(0), back, g.input(2)}));
  return absl::OkStatus();
}

TANDEM_OP("Roll")
    .Inputs("input:T, shift:Tshift, axis:Taxis")
    .Outputs("output:T")
    .Attrs("T:type; Tshift:type{int32,int64}; Taxis:type{int32,int64}")
    .Shape(RollShape)
    .Gradient(RollGradient)
    .HostMemory({"shift", "axis"})
    .Cpu(ForTypes("T", AllTypes(), Function(Roll)));

}  // namespace
}  // namespace tandem::array
