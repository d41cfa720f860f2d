// Ops that tell of their input's shape: Shape, ShapeN, Size, Rank.
#include <limits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status ShapeVectors(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    const PartialShape& input = c.input(i);
    const int64_t rank = input.has_rank() ? input.rank() : PartialShape::kUnknownDim;
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, PartialShape({rank})));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(int64_t size, DataType type, const Shape& shape) {
  if (type == kInt64 || size <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return errors::InvalidArgument(
      "the shape ", shape.DebugString(), " holds ", size,
      ", which does not fit into int32; set attribute 'out_type' to int64");
}

// Writes integers as int32 or int64.
void WriteInt(Tensor& output, size_t i, int64_t value) {
  if (output.dtype() == kInt64) {
    output.MutableElements<int64_t>()[i] = value;
  } else {
    output.MutableElements<int32_t>()[i] = static_cast<int32_t>(value);
  }
}

absl::Status WriteShapes(KernelContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& shape = c.input(i).shape();
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(i, Shape({shape.rank()})));
    for (int j = 0; j < shape.rank(); ++j) {
      TANDEM_RETURN_IF_ERROR(CheckFits(shape.dim(j), output->dtype(), shape));
      WriteInt(*output, static_cast<size_t>(j), shape.dim(j));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteSize(KernelContext& c) {
  const Shape& shape = c.input(0).shape();
  TANDEM_RETURN_IF_ERROR(CheckFits(shape.num_elements(), c.output_dtype(0), shape));
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape()));
  WriteInt(*output, 0, shape.num_elements());
  return absl::OkStatus();
}

absl::Status WriteRank(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape()));
  WriteInt(*output, 0, c.input(0).shape().rank());
  return absl::OkStatus();
}

TANDEM_OP("Shape")
    .Inputs("input:T")
    .Outputs("output:out_type")
    .Attrs("T:type; out_type:type{int32,int64}=int32")
    .Cheap()
    .Shape(ShapeVectors)
    .NotDifferentiable()
    .HostMemory({"output"})
    .Cpu(Function(WriteShapes));

TANDEM_OP("ShapeN")
    .Inputs("input:N*T")
    .Outputs("output:N*out_type")
    .Attrs("N:int>=1; T:type; out_type:type{int32,int64}=int32")
    .Cheap()
    .Shape(ShapeVectors)
    .NotDifferentiable()
    .HostMemory({"output"})
    .Cpu(Function(WriteShapes));

TANDEM_OP("Size")
    .Inputs("input:T")
    .Outputs("output:out_type")
    .Attrs("T:type; out_type:type{int32,int64}=int32")
    .Cheap()
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"output"})
    .Cpu(Function(WriteSize));

TANDEM_OP("Rank")
    .Inputs("input:T")
    .Outputs("output:int32")
    .Attrs("T:type")
    .Cheap()
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"output"})
    .Cpu(Function(WriteRank));

}  // namespace
}  // namespace tandem
