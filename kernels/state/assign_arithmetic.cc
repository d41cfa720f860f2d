// AssignAdd and AssignSub, by reference and by handle.
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/state/combine.h"
#include "kernels/state/number_types.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

absl::Status ReferenceShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape merged, c.input(0).MergeWith(c.input(1)));
  return c.SetOutput(0, std::move(merged));
}

absl::Status HandleShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckHandleType(c, 0, c.Attr<DataType>("dtype")));
  return VariableShapeOf(c, 0).MergeWith(c.input(1)).status();
}

template <Combination combination>
absl::Status Change(KernelContext& c) {
  return ChangeVariable(c, [&c](void* to, const Tensor& value, const Tensor& change) {
    const DataType dtype = change.dtype();
    const CombineFunction combine = FindCombineFunction(dtype, combination);
    if (combine == nullptr) {
      return errors::InvalidArgument("variables of type ", DataTypeName(dtype),
                                     " cannot be added to");
    }
    const double cost = 3 * array::kNanosecondsPerByte * static_cast<double>(DataTypeSize(dtype));
    c.parallel().For(value.num_elements(), cost, [&](int64_t begin, int64_t end) {
      combine(array::ElementAt(dtype, to, begin), array::ElementAt(dtype, value.data(), begin),
              array::ElementAt(dtype, change.data(), begin), /*b_is_scalar=*/false, end - begin);
    });
    return absl::OkStatus();
  });
}

TANDEM_OP("AssignAdd")
    .Inputs("ref:ref T, value:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type" TANDEM_NUMBER_TYPES "; use_locking:bool=False")
    .Shape(ReferenceShape)
    .NotDifferentiable()
    .Cpu(array::ForTypes("T", array::NumberTypes(), Function(Change<Combination::kAdd>)));

TANDEM_OP("AssignSub")
    .Inputs("ref:ref T, value:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type" TANDEM_NUMBER_TYPES "; use_locking:bool=False")
    .Shape(ReferenceShape)
    .NotDifferentiable()
    .Cpu(array::ForTypes("T", array::NumberTypes(), Function(Change<Combination::kSubtract>)));

TANDEM_OP("AssignAddVariableOp")
    .Inputs("resource:resource, value:dtype")
    .Attrs("dtype:type")
    .Stateful()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(array::ForTypes("dtype", array::NumberTypes(), Function(Change<Combination::kAdd>)));

TANDEM_OP("AssignSubVariableOp")
    .Inputs("resource:resource, value:dtype")
    .Attrs("dtype:type")
    .Stateful()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(array::ForTypes("dtype", array::NumberTypes(), Function(Change<Combination::kSubtract>)));

}  // namespace
}  // namespace tandem::state
