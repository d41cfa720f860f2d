// Rows of variables changed by index: set, added to, subtracted from; by reference and by handle.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/array/rows.h"
#include "kernels/state/combine.h"
#include "kernels/state/number_types.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

enum class Change { kSet, kAdd, kSubtract };

// Indices of shape I into a variable of shape [rows] + S want updates of shape I + S, or a scalar.
absl::Status CheckShapes(const PartialShape& variable, const PartialShape& indices,
                         const PartialShape& updates) {
  if (variable.has_rank() && variable.rank() < 1) {
    return errors::InvalidArgument("the variable is a scalar; it must have rows to scatter to");
  }
  if (!variable.has_rank() || !indices.has_rank() || !updates.has_rank() || updates.rank() == 0) {
    return absl::OkStatus();
  }
  PartialShape wanted = indices;
  for (int i = 1; i < variable.rank(); ++i) wanted.AddDim(variable.dim(i));
  if (wanted.IsCompatibleWith(updates)) return absl::OkStatus();
  return errors::InvalidArgument("updates have shape ", updates.DebugString(), "; for indices ",
                                 indices.DebugString(), " into a variable ", variable.DebugString(),
                                 " they must have shape ", wanted.DebugString(), " or be a scalar");
}

absl::Status ReferenceShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckShapes(c.input(0), c.input(1), c.input(2)));
  return c.SetOutput(0, c.input(0));
}

absl::Status HandleShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckHandleType(c, 0, c.Attr<DataType>("dtype")));
  return CheckShapes(VariableShapeOf(c, 0), c.input(1), c.input(2));
}

template <Change change>
absl::Status Scatter(KernelContext& c) {
  const bool by_reference = c.input_slot(0).state == Slot::State::kReference;
  const absl::StatusCode missing =
      by_reference ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kNotFound;
  TANDEM_ASSIGN_OR_RETURN(const VariableInput variable, GetVariable(c, 0, missing));
  const Tensor& indices = c.input(1);
  const Tensor& updates = c.input(2);
  const DataType dtype = updates.dtype();
  TANDEM_RETURN_IF_ERROR(CheckType(variable, dtype));
  {
    MutexLock lock(variable->mu());
    Tensor& value = variable->value();
    if (!value.is_valid()) return variable.NotInitialized(missing);
    TANDEM_RETURN_IF_ERROR(CheckShapes(value.shape(), indices.shape(), updates.shape()));
    const int64_t limit = value.shape().dim(0);
    std::vector<int64_t> rows(static_cast<size_t>(indices.num_elements()));
    array::ReadIndices(indices, 0, indices.num_elements(), rows.data());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] >= 0 && rows[i] < limit) continue;
      return errors::InvalidArgument("index ", rows[i], " (number ", i, " of indices of shape ",
                                     indices.shape().DebugString(), ") lies outside [0, ", limit,
                                     "), the rows of variable '", variable.name(), "'");
    }
    if (!rows.empty()) TANDEM_RETURN_IF_ERROR(MakeSole(c, value));
    const int64_t row_size = limit == 0 ? 0 : value.num_elements() / limit;
    const bool scalar = updates.shape().IsScalar();
    const double cost = 5 + 2 * array::kNanosecondsPerByte * static_cast<double>(row_size) *
                                static_cast<double>(DataTypeSize(dtype));
    const CombineFunction combine =
        change == Change::kSet
            ? nullptr
            : FindCombineFunction(
                  dtype, change == Change::kAdd ? Combination::kAdd : Combination::kSubtract);
    char* const data = static_cast<char*>(value.mutable_data());
    ForEachRow(c.parallel(), rows, cost, [&](int64_t i, int64_t row) {
      void* const to = array::ElementAt(dtype, data, row * row_size);
      const void* const from = array::ElementAt(dtype, updates.data(), scalar ? 0 : i * row_size);
      if (change != Change::kSet) {
        combine(to, to, from, scalar, row_size);
      } else if (scalar) {
        array::FillElements(dtype, to, from, row_size);
      } else {
        array::CopyElements(dtype, to, from, row_size);
      }
    });
  }
  if (by_reference) c.SetOutputReference(0, variable.variable);
  return absl::OkStatus();
}

TANDEM_OP("ScatterAdd")
    .Inputs("ref:ref T, indices:Tindices, updates:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}; use_locking:bool=False")
    .Shape(ReferenceShape)
    .NotDifferentiable()
    .Cpu(array::ForTypes("T", array::NumberTypes(), Function(Scatter<Change::kAdd>)));

TANDEM_OP("ScatterSub")
    .Inputs("ref:ref T, indices:Tindices, updates:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}; use_locking:bool=False")
    .Shape(ReferenceShape)
    .NotDifferentiable()
    .Cpu(array::ForTypes("T", array::NumberTypes(), Function(Scatter<Change::kSubtract>)));

TANDEM_OP("ScatterUpdate")
    .Inputs("ref:ref T, indices:Tindices, updates:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type; Tindices:type{int32,int64}; use_locking:bool=True")
    .Shape(ReferenceShape)
    .Cpu(array::ForTypes("T", array::AllTypes(), Function(Scatter<Change::kSet>)));

TANDEM_OP("ResourceScatterAdd")
    .Inputs("resource:resource, indices:Tindices, updates:dtype")
    .Attrs("dtype:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}")
    .Stateful()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(array::ForTypes("dtype", array::NumberTypes(), Function(Scatter<Change::kAdd>)));

TANDEM_OP("ResourceScatterSub")
    .Inputs("resource:resource, indices:Tindices, updates:dtype")
    .Attrs("dtype:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}")
    .Stateful()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(array::ForTypes("dtype", array::NumberTypes(), Function(Scatter<Change::kSubtract>)));

TANDEM_OP("ResourceScatterUpdate")
    .Inputs("resource:resource, indices:Tindices, updates:dtype")
    .Attrs("dtype:type; Tindices:type{int32,int64}")
    .Stateful()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(array::ForTypes("dtype", array::AllTypes(), Function(Scatter<Change::kSet>)));

}  // namespace
}  // namespace tandem::state
