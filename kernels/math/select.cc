// Select, SelectV2: an element of one tensor or of another. By element size, not by type.
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/variant.h"
#include "kernels/common/broadcast.h"
#include "kernels/math/gradient_helpers.h"

namespace tandem::math {
namespace {

using Loop = void (*)(const bool* condition, const void* t, const void* e, void* to, int64_t n);

// `to` may be t's or e's memory.
template <typename T>
void Choose(const bool* condition, const void* t, const void* e, void* to, int64_t n) {
  const T* const a = static_cast<const T*>(t);
  const T* const b = static_cast<const T*>(e);
  T* const out = static_cast<T*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T x = a[i];
    const T y = b[i];
    out[i] = condition[i] ? x : y;
  }
}
struct Wide {
  uint64_t parts[2];
};

Loop LoopFor(size_t size) {
  switch (size) {
    case 1:
      return Choose<uint8_t>;
    case 2:
      return Choose<uint16_t>;
    case 4:
      return Choose<uint32_t>;
    case 8:
      return Choose<uint64_t>;
    default:
      return Choose<Wide>;
  }
}

// Types whose elements are objects.
template <typename T>
void ChooseObjects(const BroadcastPlan& plan, const Tensor& condition, const Tensor& t,
                   const Tensor& e, Tensor* to) {
  const bool* const chosen = condition.Elements<bool>().data();
  const auto out = to->MutableElements<T>();
  for (int64_t i = 0; i < plan.num_elements(); ++i) {
    const bool first = chosen[plan.InputIndex(0, i)];
    out[static_cast<size_t>(i)] = first
                                      ? t.Elements<T>()[static_cast<size_t>(plan.InputIndex(1, i))]
                                      : e.Elements<T>()[static_cast<size_t>(plan.InputIndex(2, i))];
  }
}

// All three broadcast. `condition_shape` is how the condition's elements are to be seen.
absl::Status Run(KernelContext& c, const Shape& condition_shape) {
  const Tensor& condition = c.input(0);
  const Tensor& t = c.input(1);
  const Tensor& e = c.input(2);
  TANDEM_ASSIGN_OR_RETURN(const BroadcastPlan plan,
                          BroadcastPlan::Make({&condition_shape, &t.shape(), &e.shape()}));
  if (!IsTriviallyCopyable(t.dtype())) {
    TANDEM_ASSIGN_OR_RETURN(Tensor * to, c.AllocateOutput(0, plan.output_shape()));
    if (t.dtype() == kString) {
      ChooseObjects<std::string>(plan, condition, t, e, to);
    } else if (t.dtype() == kVariant) {
      ChooseObjects<Variant>(plan, condition, t, e, to);
    } else {
      ChooseObjects<ResourceHandle>(plan, condition, t, e, to);
    }
    return absl::OkStatus();
  }
  const void* const chosen = condition.data();
  const void* const a = t.data();
  const void* const b = e.data();
  const size_t size = DataTypeSize(t.dtype());
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({1, 2}, 0, plan.output_shape()));
  char* const to = static_cast<char*>(output->mutable_data());
  const Loop loop = LoopFor(size);
  c.parallel().For(plan.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
    plan.ForEachBlock({chosen, a, b}, {1, size, size}, begin, end,
                      [&](const void* const* in, int64_t first, int64_t n) {
                        loop(static_cast<const bool*>(in[0]), in[1], in[2],
                             to + static_cast<size_t>(first) * size, n);
                      });
  });
  return absl::OkStatus();
}

absl::Status ComputeSelectV2(KernelContext& c) { return Run(c, c.input(0).shape()); }

absl::Status SelectV2Shape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const PartialShape branches, BroadcastShapes(c.input(1), c.input(2)));
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, BroadcastShapes(c.input(0), branches));
  return c.SetOutput(0, std::move(shape));
}

absl::Status SelectV2Gradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output zero = g.Call("ZerosLike", {dy});
  const Output condition = g.input(0);
  g.SetInputGradient(1, ReduceTo(g, g.Call("SelectV2", {condition, dy, zero}), g.input(1), dy));
  g.SetInputGradient(2, ReduceTo(g, g.Call("SelectV2", {condition, zero, dy}), g.input(2), dy));
  return absl::OkStatus();
}

TANDEM_OP("SelectV2")
    .Inputs("condition:bool, t:T, e:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Shape(SelectV2Shape)
    .Gradient(SelectV2Gradient)
    .Cpu(Function(ComputeSelectV2));

// Select: a scalar condition takes one of the two tensors, a vector whole rows; else all shapes are
// equal.
absl::Status ComputeSelect(KernelContext& c) {
  const Shape& condition = c.input(0).shape();
  const Shape& t = c.input(1).shape();
  const Shape& e = c.input(2).shape();
  if (t != e) {
    return errors::InvalidArgument("t and e have shapes ", t.DebugString(), " and ",
                                   e.DebugString(), "; they must be equal");
  }
  if (condition.IsScalar()) {
    c.SetOutput(0, c.TakeInput(c.input(0).ScalarValue<bool>() ? 1 : 2));
    return absl::OkStatus();
  }
  if (condition == t) return Run(c, condition);
  if (!condition.IsVector() || t.IsScalar() || condition.dim(0) != t.dim(0)) {
    return errors::InvalidArgument("the condition has shape ", condition.DebugString(),
                                   " and t has ", t.DebugString(),
                                   "; it must be a scalar, as long as t has rows, or like t");
  }
  Shape rows = condition;
  for (int d = 1; d < t.rank(); ++d) rows.AddDim(1);
  return Run(c, rows);
}

absl::Status SelectShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.input(1).MergeWith(c.input(2)));
  const PartialShape& condition = c.input(0);
  if (shape.has_rank() && condition.has_rank() && condition.rank() > 0) {
    if (condition.rank() == 1 && shape.rank() >= 1) {
      TANDEM_RETURN_IF_ERROR(
          PartialShape({condition.dim(0)}).MergeWith(PartialShape({shape.dim(0)})).status());
    } else {
      TANDEM_ASSIGN_OR_RETURN(shape, shape.MergeWith(condition));
    }
  }
  return c.SetOutput(0, std::move(shape));
}

absl::Status SelectGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output zero = g.Call("ZerosLike", {g.input(1)});
  g.SetInputGradient(1, g.Call("Select", {g.input(0), dy, zero}));
  g.SetInputGradient(2, g.Call("Select", {g.input(0), zero, dy}));
  return absl::OkStatus();
}

TANDEM_OP("Select")
    .Inputs("condition:bool, t:T, e:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Shape(SelectShape)
    .Gradient(SelectGradient)
    .Cpu(Function(ComputeSelect));

}  // namespace
}  // namespace tandem::math
