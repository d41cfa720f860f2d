// OneHot: for each index a vector that is `on_value` there and `off_value` elsewhere.
#include <algorithm>

#include "core/base/status.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

absl::StatusOr<int> OneHotAxis(int64_t axis, int indices_rank) {
  if (axis < -1 || axis > indices_rank) {
    return errors::InvalidArgument("'axis' is ", axis, "; -1 or an axis of the output, in [0, ",
                                   indices_rank, "], is wanted");
  }
  return axis < 0 ? indices_rank : static_cast<int>(axis);
}

absl::Status CheckDepth(int64_t depth) {
  if (depth >= 0) return absl::OkStatus();
  return errors::InvalidArgument("'depth' is ", depth, "; it may not be negative");
}

absl::Status OneHotShape(ShapeContext& c) {
  for (const int i : {1, 2, 3}) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
  if (c.Attr<int64_t>("axis") < -1) {
    return errors::InvalidArgument("'axis' is ", c.Attr<int64_t>("axis"),
                                   "; it must be at least -1");
  }
  const absl::optional<int64_t> depth = c.InputAsInt(1);
  if (depth.has_value()) TANDEM_RETURN_IF_ERROR(CheckDepth(*depth));
  if (!c.input(0).has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  TANDEM_ASSIGN_OR_RETURN(const int axis, OneHotAxis(c.Attr<int64_t>("axis"), c.input(0).rank()));
  return c.SetOutput(0, WithDim(c.input(0), axis, depth.value_or(PartialShape::kUnknownDim)));
}

// An index of any of the types, as a number.
int64_t IndexAt(const Tensor& indices, int64_t i) {
  const size_t at = static_cast<size_t>(i);
  switch (indices.dtype()) {
    case kUint8:
      return indices.Elements<uint8_t>()[at];
    case kInt8:
      return indices.Elements<int8_t>()[at];
    case kInt32:
      return indices.Elements<int32_t>()[at];
    default:
      return indices.Elements<int64_t>()[at];
  }
}

class OneHotKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    axis_ = init.Attr<int64_t>("axis");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& indices = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const int64_t depth, ScalarArgument(c.input(1), "depth"));
    TANDEM_RETURN_IF_ERROR(CheckDepth(depth));
    if (!c.input(2).shape().IsScalar() || !c.input(3).shape().IsScalar()) {
      return errors::InvalidArgument("'on_value' and 'off_value' have shapes ",
                                     c.input(2).shape().DebugString(), " and ",
                                     c.input(3).shape().DebugString(), "; scalars are wanted");
    }
    TANDEM_ASSIGN_OR_RETURN(const int axis, OneHotAxis(axis_, indices.shape().rank()));
    const absl::Span<const int64_t> sizes = indices.shape().dims();
    Ints dims(sizes.begin(), sizes.end());
    dims.insert(dims.begin() + axis, depth);
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();

    // Seen as indices [outer, inner] and output [outer, depth, inner].
    const int64_t outer = Product(sizes, 0, axis);
    const int64_t inner = indices.num_elements() / outer;
    const DataType dtype = output->dtype();
    const void* const on = c.input(2).data();
    const void* const off = c.input(3).data();
    const double cost = kNanosecondsPerByte * static_cast<double>(depth * inner) *
                            static_cast<double>(DataTypeSize(dtype)) +
                        5 * static_cast<double>(inner);
    c.parallel().For(outer, cost, [&](int64_t begin, int64_t end) {
      char* const data = static_cast<char*>(output->mutable_data());
      FillElements(dtype, ElementAt(dtype, data, begin * depth * inner), off,
                   (end - begin) * depth * inner);
      for (int64_t i = begin * inner; i < end * inner; ++i) {
        const int64_t index = IndexAt(indices, i);
        if (index < 0 || index >= depth) continue;
        const int64_t at = (i / inner * depth + index) * inner + i % inner;
        CopyElements(dtype, ElementAt(dtype, data, at), on, 1);
      }
    });
    return absl::OkStatus();
  }

 private:
  int64_t axis_ = -1;
};

TANDEM_OP("OneHot")
    .Inputs("indices:TI, depth:int32, on_value:T, off_value:T")
    .Outputs("output:T")
    .Attrs("axis:int=-1; T:type; TI:type{uint8,int8,int32,int64}=int64")
    .Shape(OneHotShape)
    .NotDifferentiable()
    .HostMemory({"depth"})
    .Cpu(Make<OneHotKernel>("T", AllTypes()));

}  // namespace
}  // namespace tandem::array
