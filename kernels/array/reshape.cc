// Ops that give the same bits another shape or type, sharing memory: Reshape, ExpandDims, Squeeze,
// Bitcast.
#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

absl::Status SetOutputReshaped(KernelContext& c, Shape shape) {
  TANDEM_ASSIGN_OR_RETURN(Tensor output, c.TakeInput(0).Reshaped(std::move(shape)));
  c.SetOutput(0, std::move(output));
  return absl::OkStatus();
}

absl::Status ReshapeBack(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Reshape", {g.OutputGradient(0), g.Call("Shape", {g.input(0)})}));
  return absl::OkStatus();
}

// --- Reshape

// Fills in the size -1 so that `dims` has as many elements as `input`. Where zeros stand on both
// sides, as in reshaping [0,3] to [-1,0], the other sizes decide (here 3).
absl::Status InferSize(absl::Span<const int64_t> input, absl::Span<int64_t> dims) {
  int64_t* inferred = nullptr;
  int64_t product = 1;
  bool has_zero = false;
  for (int64_t& size : dims) {
    if (size == -1) {
      if (inferred != nullptr) {
        return errors::InvalidArgument("the shape [", absl::StrJoin(dims, ","),
                                       "] has more than one size of -1; one can be inferred");
      }
      inferred = &size;
    } else if (size < 0) {
      return errors::InvalidArgument("the shape [", absl::StrJoin(dims, ","), "] has the size ",
                                     size, "; sizes are -1 (to be inferred) or more");
    } else if (size == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      return errors::InvalidArgument("the shape [", absl::StrJoin(dims, ","),
                                     "] has too many elements");
    }
  }
  if (inferred == nullptr) return absl::OkStatus();
  int64_t elements = 1;
  bool skipped_zero = false;
  for (const int64_t size : input) {
    if (size == 0 && has_zero) {
      skipped_zero = true;
    } else {
      elements *= size;
    }
  }
  const int64_t missing = elements / product;
  if (!skipped_zero && product * missing != elements) {
    return errors::InvalidArgument("a tensor of shape [", absl::StrJoin(input, ","), "], ",
                                   elements, " elements, cannot take the shape [",
                                   absl::StrJoin(dims, ","), "], a multiple of ", product);
  }
  *inferred = missing;
  return absl::OkStatus();
}

absl::Status ReshapeShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape target, c.InputAsShape(1));
  const PartialShape& input = c.input(0);
  if (!target.has_rank()) return c.SetOutput(0, std::move(target));
  int unknown = 0;
  for (const int64_t size : target.dims()) unknown += size == kUnknown;
  const bool constant = c.InputValue(1).has_value();
  if (constant && unknown > 1) {
    return errors::InvalidArgument("the shape ", target.DebugString(),
                                   " has more than one size of -1; one can be inferred");
  }
  if (!input.IsFullyDefined() || unknown > 1) return c.SetOutput(0, std::move(target));
  // One size follows from the others, whether it is -1 or a number that is not known yet.
  Ints dims(target.dims().begin(), target.dims().end());
  TANDEM_RETURN_IF_ERROR(InferSize(input.dims(), absl::MakeSpan(dims)));
  TANDEM_ASSIGN_OR_RETURN(const Shape from, input.ToShape());
  TANDEM_ASSIGN_OR_RETURN(const Shape to, Shape::FromDims(dims));
  if (from.num_elements() != to.num_elements()) {
    return errors::InvalidArgument("a tensor of shape ", from.DebugString(), ", ",
                                   from.num_elements(), " elements, cannot take the shape ",
                                   to.DebugString(), ", ", to.num_elements(), " elements");
  }
  return c.SetOutput(0, to);
}

absl::Status Reshape(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Ints dims, VectorArgument(c.input(1), "shape"));
  TANDEM_RETURN_IF_ERROR(InferSize(c.input(0).shape().dims(), absl::MakeSpan(dims)));
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  return SetOutputReshaped(c, std::move(shape));
}

// --- ExpandDims

absl::Status ExpandDimsShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const absl::optional<Tensor> dim = c.InputValue(1);
  if (dim.has_value() && dim->num_elements() != 1) {
    return errors::InvalidArgument("'dim' has shape ", dim->shape().DebugString(),
                                   "; one number is wanted");
  }
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  const absl::optional<int64_t> axis = c.InputAsInt(1);
  if (!axis.has_value()) return c.SetOutput(0, PartialShape::UnknownOfRank(input.rank() + 1));
  TANDEM_ASSIGN_OR_RETURN(const int at, ResolveAxis(*axis, input.rank() + 1));
  return c.SetOutput(0, WithDim(input, at, 1));
}

absl::Status ExpandDims(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Ints axis, IntsArgument(c.input(1), "dim"));
  if (axis.size() != 1) {
    return errors::InvalidArgument("'dim' has shape ", c.input(1).shape().DebugString(),
                                   "; one number is wanted");
  }
  const absl::Span<const int64_t> sizes = c.input(0).shape().dims();
  Ints dims(sizes.begin(), sizes.end());
  TANDEM_ASSIGN_OR_RETURN(const int at, ResolveAxis(axis[0], static_cast<int>(dims.size()) + 1));
  dims.insert(dims.begin() + at, 1);
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
  return SetOutputReshaped(c, std::move(shape));
}

// --- Squeeze

// The dims that stay, or InvalidArgument. All of size 1 go when `axes` is empty.
absl::StatusOr<Ints> SqueezedDims(absl::Span<const int64_t> dims,
                                  const std::vector<int64_t>& axes) {
  const int rank = static_cast<int>(dims.size());
  std::vector<bool> wanted(dims.size(), false);
  for (const int64_t axis : axes) {
    TANDEM_ASSIGN_OR_RETURN(const int i, ResolveAxis(axis, rank));
    wanted[static_cast<size_t>(i)] = true;
  }
  Ints kept;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (wanted[i] && dims[i] != 1 && dims[i] != kUnknown) {
      return errors::InvalidArgument("dimension ", i, " of a tensor of shape [",
                                     absl::StrJoin(dims, ","), "] has size ", dims[i],
                                     "; only dimensions of size 1 can be squeezed");
    }
    if (!wanted[i] && (dims[i] != 1 || !axes.empty())) kept.push_back(dims[i]);
  }
  return kept;
}

absl::Status SqueezeShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const std::vector<int64_t>& axes = c.Attr<std::vector<int64_t>>("squeeze_dims");
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  // An unknown size may turn out to be 1 and go.
  if (axes.empty() && !input.IsFullyDefined()) return c.SetOutput(0, PartialShape::Unknown());
  TANDEM_ASSIGN_OR_RETURN(const Ints dims, SqueezedDims(input.dims(), axes));
  return c.SetOutput(0, PartialShape(dims));
}

class SqueezeKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    axes_ = init.Attr<std::vector<int64_t>>("squeeze_dims");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Ints dims, SqueezedDims(c.input(0).shape().dims(), axes_));
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    return SetOutputReshaped(c, std::move(shape));
  }

 private:
  std::vector<int64_t> axes_;
};

// --- Bitcast

// Elements that become smaller add a dimension at the end; those that become larger use one up.
absl::StatusOr<PartialShape> BitcastShape(const PartialShape& input, DataType from, DataType to) {
  const int64_t from_size = static_cast<int64_t>(DataTypeSize(from));
  const int64_t to_size = static_cast<int64_t>(DataTypeSize(to));
  if (from_size == 0 || to_size == 0) {
    return errors::InvalidArgument("tensors of type ", DataTypeName(from_size == 0 ? from : to),
                                   " are not supported");
  }
  if (!input.has_rank() || from_size == to_size) return input;
  PartialShape output = input;
  if (from_size > to_size) {
    output.AddDim(from_size / to_size);
    return output;
  }
  const int64_t wanted = to_size / from_size;
  const int rank = input.rank();
  if (rank == 0 || (input.dim(rank - 1) != kUnknown && input.dim(rank - 1) != wanted)) {
    return errors::InvalidArgument("a ", DataTypeName(from), " tensor of shape ",
                                   input.DebugString(), " does not become ", DataTypeName(to),
                                   ": its last dimension must have size ", wanted);
  }
  return Subshape(output, 0, rank - 1);
}

absl::Status BitcastShapeFunction(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, BitcastShape(c.input(0), c.Attr<DataType>("T"),
                                                            c.Attr<DataType>("type")));
  return c.SetOutput(0, std::move(output));
}

absl::Status Bitcast(KernelContext& c) {
  Tensor input = c.TakeInput(0);
  TANDEM_ASSIGN_OR_RETURN(const PartialShape partial,
                          BitcastShape(input.shape(), input.dtype(), c.output_dtype(0)));
  TANDEM_ASSIGN_OR_RETURN(Shape shape, partial.ToShape());
  void* const data = input.mutable_data();
  c.SetOutput(0, Tensor::FromBuffer(c.output_dtype(0), std::move(shape), input.buffer(), data));
  return absl::OkStatus();
}

TANDEM_OP("Reshape")
    .Inputs("tensor:T, shape:Tshape")
    .Outputs("output:T")
    .Attrs("T:type; Tshape:type{int32,int64}=int32")
    .Cheap()
    .Shape(ReshapeShape)
    .Gradient(ReshapeBack)
    .HostMemory({"shape"})
    .Cpu(Function(Reshape));

TANDEM_OP("ExpandDims")
    .Inputs("input:T, dim:Tdim")
    .Outputs("output:T")
    .Attrs("T:type; Tdim:type{int32,int64}=int32")
    .Cheap()
    .Shape(ExpandDimsShape)
    .Gradient(ReshapeBack)
    .HostMemory({"dim"})
    .Cpu(Function(ExpandDims));

TANDEM_OP("Squeeze")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type; squeeze_dims:list(int)>=0=[]")
    .Cheap()
    .Shape(SqueezeShape)
    .Gradient(ReshapeBack)
    .Cpu(Make<SqueezeKernel>());

TANDEM_OP("Bitcast")
    .Inputs("input:T")
    .Outputs("output:type")
    .Attrs(
        "T:type{bfloat16,float16,float32,float64,int64,int32,uint8,uint16,uint32,uint64,int8,"
        "int16,complex64,complex128,qint8,quint8,qint16,quint16,qint32}; "
        "type:type{bfloat16,float16,float32,float64,int64,int32,uint8,uint16,uint32,uint64,int8,"
        "int16,complex64,complex128,qint8,quint8,qint16,quint16,qint32}")
    .Cheap()
    .Shape(BitcastShapeFunction)
    .Cpu(Function(Bitcast));

}  // namespace
}  // namespace tandem::array
