// SparseToDense: some values at their indices, and a default everywhere else.
#include <cstdint>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/common/arguments.h"

namespace tandem::ragged {
namespace {

absl::Status DenseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(3, 0));
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(1));
  const PartialShape& indices = c.input(0);
  const PartialShape& values = c.input(2);
  if (indices.has_rank() && values.has_rank() && values.rank() == 1 && indices.rank() > 0 &&
      !PartialShape({indices.dim(0)}).IsCompatibleWith(values)) {
    return errors::InvalidArgument("sparse_indices have shape ", indices.DebugString(),
                                   " and sparse_values ", values.DebugString(),
                                   "; as many of both are wanted, or one value for all");
  }
  return c.SetOutput(0, std::move(shape));
}

// The place of each value in the dense tensor, row-major.
//
// InvalidArgument: the indices are of another rank than the tensor, or one lies outside; where
// `ordered`, also one that does not come after the one before it.
absl::StatusOr<std::vector<int64_t>> Places(const Tensor& indices, const Shape& shape,
                                            bool ordered) {
  const int rank = indices.shape().rank();
  const int64_t count = rank > 0 ? indices.shape().dim(0) : 1;
  const int64_t columns = rank > 1 ? indices.shape().dim(1) : 1;
  if (rank > 2 || columns != shape.rank()) {
    return errors::InvalidArgument("sparse_indices have shape ", indices.shape().DebugString(),
                                   "; for output_shape ", shape.DebugString(), " rows of ",
                                   shape.rank(), " numbers are wanted");
  }
  TANDEM_ASSIGN_OR_RETURN(const SmallInts numbers, IntsArgument(indices, "sparse_indices"));
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto index = absl::MakeConstSpan(numbers).subspan(static_cast<size_t>(i * columns),
                                                            static_cast<size_t>(columns));
    const auto bad = [&](absl::string_view what) {
      return errors::InvalidArgument("sparse_indices[", i, "] = [", absl::StrJoin(index, ","), "] ",
                                     what, "; output_shape is ", shape.DebugString());
    };
    int64_t place = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t at = index[static_cast<size_t>(d)];
      if (at < 0 || at >= shape.dim(d)) return bad("is out of bounds");
      place = place * shape.dim(d) + at;
    }
    if (ordered && !places.empty() && place == places.back()) return bad("is repeated");
    if (ordered && !places.empty() && place < places.back()) return bad("is out of order");
    places.push_back(place);
  }
  return places;
}

class ToDenseKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    ordered_ = init.Attr<bool>("validate_indices");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(2);
    const Tensor& default_value = c.input(3);
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(1), "output_shape"));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<int64_t> places, Places(c.input(0), shape, ordered_));
    const bool one_value = values.shape().IsScalar();
    if (!one_value && !(values.shape().IsVector() &&
                        values.num_elements() == static_cast<int64_t>(places.size()))) {
      return errors::InvalidArgument("sparse_values have shape ", values.shape().DebugString(),
                                     "; a scalar or a vector of ", places.size(),
                                     ", as many as there are indices, is wanted");
    }
    if (!default_value.shape().IsScalar()) {
      return errors::InvalidArgument("default_value must be a scalar; it has shape ",
                                     default_value.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    const DataType dtype = values.dtype();
    array::FillElements(c.parallel(), dtype, output->mutable_data(), default_value.data(),
                        output->num_elements());
    for (size_t i = 0; i < places.size(); ++i) {
      array::CopyElements(
          dtype, array::ElementAt(dtype, output->mutable_data(), places[i]),
          array::ElementAt(dtype, values.data(), one_value ? 0 : static_cast<int64_t>(i)), 1);
    }
    return absl::OkStatus();
  }

 private:
  bool ordered_ = true;
};

// With indices that come once each, as validate_indices has it.
absl::Status ToDenseGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  // One index a row, whatever form they came in.
  const Output rank = g.Call("Size", {g.input(1)});
  const Output any = g.Constant(Tensor::Scalar<int32_t>(-1));
  const Output rows = g.Call("Reshape", {g.input(0), g.Call("Pack", {any, rank}, {{"axis", 0}})});
  const Output gathered = g.Call("GatherNd", {dy, rows});
  const Output zero = g.Constant(Tensor::Vector<int32_t>({0}));
  const Output taken = g.Call("Sum", {gathered, zero});
  const PartialShape& values = g.input(2).shape();
  // A scalar that stands at all indices, or one value for each. Where it is not known which, the
  // sum over the dimensions in which the values are broadcast is right for both.
  if (values.has_rank() && values.rank() == 1) {
    g.SetInputGradient(2, gathered);
  } else if (values.has_rank()) {
    g.SetInputGradient(2, taken);
  } else {
    const Output shape = g.Call("Shape", {g.input(2)});
    const Output axes =
        g.CallMulti("BroadcastGradientArgs", {g.Call("Shape", {gathered}), shape})[1];
    g.SetInputGradient(2, g.Call("Reshape", {g.Call("Sum", {gathered, axes}), shape}));
  }
  const Output all = g.Call("Range", {g.Constant(Tensor::Scalar<int32_t>(0)), g.Call("Rank", {dy}),
                                      g.Constant(Tensor::Scalar<int32_t>(1))});
  g.SetInputGradient(3, g.Call("Sub", {g.Call("Sum", {dy, all}), taken}));
  return absl::OkStatus();
}

TANDEM_OP("SparseToDense")
    .Inputs("sparse_indices:Tindices, output_shape:Tindices, sparse_values:T, default_value:T")
    .Outputs("dense:T")
    .Attrs("validate_indices:bool=True; T:type; Tindices:type{int32,int64}")
    .Shape(DenseShape)
    .Gradient(ToDenseGradient)
    .HostMemory({"sparse_indices", "output_shape"})
    .Cpu(Make<ToDenseKernel>("T", array::AllTypesBut({kResource, kVariant})));

}  // namespace
}  // namespace tandem::ragged
