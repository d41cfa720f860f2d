// ResourceGather: rows of a variable by index, read without a copy of the whole.
//
// With batch_dims = b the variable is seen as [batch, rows, inner] and the indices as [batch,
// count], where batch is the product of their first b dimensions.
#include <algorithm>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/rows.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

absl::StatusOr<PartialShape> GatherShape(const PartialShape& params, const PartialShape& indices,
                                         int64_t batch_dims) {
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims >= params.rank()) {
    return errors::InvalidArgument("batch_dims ", batch_dims, " does not fit indices of shape ",
                                   indices.DebugString(), " into a variable of shape ",
                                   params.DebugString());
  }
  PartialShape output({});
  for (int i = 0; i < static_cast<int>(batch_dims); ++i) {
    const absl::StatusOr<int64_t> size = array::MergeSizes(params.dim(i), indices.dim(i));
    if (!size.ok()) {
      return errors::InvalidArgument("a variable of shape ", params.DebugString(),
                                     " and indices of shape ", indices.DebugString(),
                                     " differ in batch dimension ", i);
    }
    output.AddDim(*size);
  }
  for (int i = static_cast<int>(batch_dims); i < indices.rank(); ++i) output.AddDim(indices.dim(i));
  for (int i = static_cast<int>(batch_dims) + 1; i < params.rank(); ++i)
    output.AddDim(params.dim(i));
  return output;
}

absl::Status ResourceGatherShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckHandleType(c, 0, c.Attr<DataType>("dtype")));
  const PartialShape params = VariableShapeOf(c, 0);
  if (!params.has_rank() || !c.input(1).has_rank()) {
    return c.SetOutput(0, PartialShape::Unknown());
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape output,
                          GatherShape(params, c.input(1), c.Attr<int64_t>("batch_dims")));
  return c.SetOutput(0, std::move(output));
}

class ResourceGatherKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    batch_dims_ = init.Attr<int64_t>("batch_dims");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    constexpr absl::StatusCode kMissing = absl::StatusCode::kNotFound;
    TANDEM_ASSIGN_OR_RETURN(const VariableInput variable, GetVariable(c, 0, kMissing));
    TANDEM_RETURN_IF_ERROR(CheckType(variable, c.output_dtype(0)));
    Tensor params;  // Keeps the value as it is now.
    {
      MutexLock lock(variable->mu());
      const Tensor& value = variable->value();
      if (!value.is_valid()) return variable.NotInitialized(kMissing);
      // While somebody else holds the value an update copies all of it, so that a few rows of a
      // large table are better copied under the lock.
      if (IsSmallPart(value, c.input(1))) return Gather(c, variable, value);
      params = value;
    }
    return Gather(c, variable, params);
  }

 private:
  bool IsSmallPart(const Tensor& value, const Tensor& indices) const {
    constexpr int64_t kPart = 16;
    return batch_dims_ == 0 && value.shape().rank() >= 1 &&
           indices.num_elements() <= value.shape().dim(0) / kPart;
  }

  absl::Status Gather(KernelContext& c, const VariableInput& variable, const Tensor& params) {
    const Tensor& indices = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const PartialShape known,
                            GatherShape(params.shape(), indices.shape(), batch_dims_));
    TANDEM_ASSIGN_OR_RETURN(Shape shape, known.ToShape());
    const int batch_dims =
        static_cast<int>(batch_dims_ < 0 ? batch_dims_ + indices.shape().rank() : batch_dims_);
    const int64_t limit = params.shape().dim(batch_dims);
    const int64_t bad = array::FindOutOfRange(indices, limit);
    if (bad >= 0) {
      int64_t value = 0;
      array::ReadIndices(indices, bad, bad + 1, &value);
      return errors::InvalidArgument("index ", value, " (number ", bad, " of indices of shape ",
                                     indices.shape().DebugString(), ") lies outside [0, ", limit,
                                     "), dimension ", batch_dims, " of variable '", variable.name(),
                                     "' of shape ", params.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();

    const DataType dtype = params.dtype();
    const int64_t count =
        array::Product(indices.shape().dims(), batch_dims, indices.shape().rank());
    const int64_t inner =
        array::Product(params.shape().dims(), batch_dims + 1, params.shape().rank());
    const double cost = 5 + array::kNanosecondsPerByte * static_cast<double>(inner) *
                                static_cast<double>(DataTypeSize(dtype));
    c.parallel().For(indices.num_elements(), cost, [&](int64_t begin, int64_t end) {
      int64_t rows[array::kIndexBlock];
      while (begin < end) {
        const int64_t batch = begin / count;
        const int64_t n = std::min({(batch + 1) * count - begin, end - begin, array::kIndexBlock});
        array::ReadIndices(indices, begin, begin + n, rows);
        array::GatherRows(dtype, array::ElementAt(dtype, output->mutable_data(), begin * inner),
                          array::ElementAt(dtype, params.data(), batch * limit * inner), inner,
                          rows, n);
        begin += n;
      }
    });
    return absl::OkStatus();
  }

  int64_t batch_dims_ = 0;
};

// Sparse: a row of the output's gradient for each index.
absl::Status ResourceGatherGradient(GradientContext& g) {
  if (g.Attr<int64_t>("batch_dims") != 0) {
    return errors::Unimplemented(
        "ResourceGather has a gradient for batch_dims 0 only; read the "
        "variable and use GatherV2");
  }
  const DataType index = RemoveReference(g.input(1).dtype());
  const Output indices = array::Flatten(g, g.input(1));
  const Output dense_shape = g.Call("VariableShape", {g.input(0)}, {{"out_type", index}});
  const Output count = g.Call("Reshape", {g.Call("Size", {indices}, {{"out_type", index}}),
                                          array::IntVector(g, kInt32, {1})});
  const Output row_shape = g.Call(
      "ConcatV2", {count, array::SubVector(g, dense_shape, 1), array::IntScalar(g, kInt32, 0)});
  g.SetInputGradient(
      0, Gradient(g.Call("Reshape", {g.OutputGradient(0), row_shape}), indices, dense_shape));
  return absl::OkStatus();
}

TANDEM_OP("ResourceGather")
    .Inputs("resource:resource, indices:Tindices")
    .Outputs("output:dtype")
    .Attrs("batch_dims:int=0; validate_indices:bool=True; dtype:type; Tindices:type{int32,int64}")
    .Stateful()
    .Shape(ResourceGatherShape)
    .Gradient(ResourceGatherGradient)
    .HostMemory({"resource"})
    .Cpu(Make<ResourceGatherKernel>("dtype", array::AllTypes()));

}  // namespace
}  // namespace tandem::state
