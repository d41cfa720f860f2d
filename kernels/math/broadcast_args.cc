// Shapes as values: what two of them broadcast to, and which axes a gradient is summed over.
#include <algorithm>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"

namespace tandem::math {
namespace {

absl::Status RequireVectors(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  return c.RequireRank(1, 1);
}

// The sizes of both shapes, innermost first, padded with 1 to the same length.
absl::Status ReadPadded(KernelContext& c, SmallInts* a, SmallInts* b) {
  TANDEM_ASSIGN_OR_RETURN(*a, VectorArgument(c.input(0), "s0"));
  TANDEM_ASSIGN_OR_RETURN(*b, VectorArgument(c.input(1), "s1"));
  std::reverse(a->begin(), a->end());
  std::reverse(b->begin(), b->end());
  const size_t rank = std::max(a->size(), b->size());
  a->resize(rank, 1);
  b->resize(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = (*a)[i];
    const int64_t y = (*b)[i];
    if (x != y && x != 1 && y != 1) {
      return errors::InvalidArgument("the shapes ", c.input(0).DebugString(), " and ",
                                     c.input(1).DebugString(), " do not broadcast: sizes ", x,
                                     " and ", y, " differ and neither is 1");
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SetVector(KernelContext& c, int i, const SmallInts& values) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * output,
                          c.AllocateOutput(i, Shape({static_cast<int64_t>(values.size())})));
  T* const to = output->MutableElements<T>().data();
  for (size_t k = 0; k < values.size(); ++k) to[k] = static_cast<T>(values[k]);
  return absl::OkStatus();
}

template <typename T>
class BroadcastArgsKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    SmallInts a;
    SmallInts b;
    TANDEM_RETURN_IF_ERROR(ReadPadded(c, &a, &b));
    for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] == 1 ? b[i] : a[i];
    std::reverse(a.begin(), a.end());
    return SetVector<T>(c, 0, a);
  }
};

absl::Status BroadcastArgsShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireVectors(c));
  const auto length = [&c](int i) {
    return c.input(i).has_rank() ? c.input(i).dim(0) : PartialShape::kUnknownDim;
  };
  const bool known = length(0) >= 0 && length(1) >= 0;
  return c.SetOutput(
      0, PartialShape({known ? std::max(length(0), length(1)) : PartialShape::kUnknownDim}));
}

TANDEM_OP("BroadcastArgs")
    .Inputs("s0:T, s1:T")
    .Outputs("r0:T")
    .Attrs("T:type{int32,int64}=int32")
    .Cheap()
    .Shape(BroadcastArgsShape)
    .HostMemory({"s0", "s1", "r0"})
    .Cpu(ByType<BroadcastArgsKernel, int32_t, int64_t>("T"));

// The axes of the result that each input was broadcast along, and those of size 1 in both, where a
// sum changes nothing.
template <typename T>
class BroadcastGradientArgsKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    SmallInts a;
    SmallInts b;
    TANDEM_RETURN_IF_ERROR(ReadPadded(c, &a, &b));
    SmallInts axes[2];
    if (a != b || c.input(0).num_elements() != c.input(1).num_elements()) {
      const int64_t rank = static_cast<int64_t>(a.size());
      for (int64_t axis = 0; axis < rank; ++axis) {
        const size_t i = static_cast<size_t>(rank - 1 - axis);
        if (a[i] == 1) axes[0].push_back(axis);
        if (b[i] == 1) axes[1].push_back(axis);
      }
    }
    TANDEM_RETURN_IF_ERROR(SetVector<T>(c, 0, axes[0]));
    return SetVector<T>(c, 1, axes[1]);
  }
};

absl::Status BroadcastGradientArgsShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(RequireVectors(c));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({PartialShape::kUnknownDim})));
  return c.SetOutput(1, PartialShape({PartialShape::kUnknownDim}));
}

TANDEM_OP("BroadcastGradientArgs")
    .Inputs("s0:T, s1:T")
    .Outputs("r0:T, r1:T")
    .Attrs("T:type{int32,int64}=int32")
    .Cheap()
    .Shape(BroadcastGradientArgsShape)
    .NotDifferentiable()
    .HostMemory({"s0", "s1", "r0", "r1"})
    .Cpu(ByType<BroadcastGradientArgsKernel, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem::math
