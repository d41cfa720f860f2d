// The ops on tensor arrays, of their third version. The flow, a number that means nothing, goes
// from op to op and keeps them in order.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/data/step_object.h"
#include "kernels/data/tensor_array.h"
#include "kernels/data/tensor_array_gradients.h"

namespace tandem::data {
namespace {

absl::StatusOr<RefPtr<TensorArray>> ArrayInput(const KernelContext& c) {
  return StepObjectInput<TensorArray>(c, "tensor array");
}

absl::StatusOr<int64_t> IntInput(const KernelContext& c, int i, absl::string_view what) {
  const Tensor& tensor = c.input(i);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument(what, " must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  return int64_t{tensor.ScalarValue<int32_t>()};
}

absl::Status RequireVector(const Tensor& tensor, absl::string_view what) {
  if (tensor.shape().IsVector()) return absl::OkStatus();
  return errors::InvalidArgument(what, " must be a vector; they have shape ",
                                 tensor.shape().DebugString());
}

Tensor HandleOf(const KernelContext& c, RefPtr<TensorArray> array) {
  const std::string name = array->name();
  return StepHandle(c, name, "tandem::TensorArray", std::move(array));
}

class ArrayKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    options_.name = init.Attr<std::string>("tensor_array_name");
    if (options_.name.empty()) options_.name = std::string(init.node_name());
    options_.dtype = init.Attr<DataType>("dtype");
    options_.element_shape = init.Attr<PartialShape>("element_shape");
    options_.is_dynamic = init.Attr<bool>("dynamic_size");
    options_.clears_after_read = init.Attr<bool>("clear_after_read");
    options_.has_identical_shapes = init.Attr<bool>("identical_element_shapes");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, IntInput(c, 0, "size"));
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, TensorArray::Create(options_, size));
    c.SetOutput(0, HandleOf(c, std::move(array)));
    c.SetOutput(1, Tensor::Scalar<float>(0));
    return absl::OkStatus();
  }

 private:
  TensorArray::Options options_;
};

class GradientKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    source_ = init.Attr<std::string>("source");
    has_prefix_ = init.num_inputs() == 3;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
    Shape prefix;
    if (has_prefix_) {
      TANDEM_RETURN_IF_ERROR(RequireVector(c.input(2), "sizes of shape_to_prepend"));
      const absl::Span<const int32_t> sizes = c.input(2).Elements<int32_t>();
      TANDEM_ASSIGN_OR_RETURN(prefix, Shape::FromDims(Shape::Dims(sizes.begin(), sizes.end())));
    }
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> gradients, array->Gradients(source_, prefix));
    c.SetOutput(0, HandleOf(c, std::move(gradients)));
    c.SetOutput(1, c.TakeInput(1));
    return absl::OkStatus();
  }

 private:
  std::string source_;
  bool has_prefix_ = false;
};

absl::Status Write(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  TANDEM_ASSIGN_OR_RETURN(const int64_t index, IntInput(c, 1, "index"));
  Tensor value = c.TakeInput(2);
  const DataType dtype = value.dtype();
  TANDEM_RETURN_IF_ERROR(array->Write(index, std::move(value), [&](const Shape& shape) {
    return c.AllocateTemporary(dtype, shape);
  }));
  c.SetOutput(0, c.TakeInput(3));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadElement(KernelContext& c, TensorArray& array, int64_t index) {
  const DataType dtype = c.output_dtype(0);
  return array.Read(dtype, index,
                    [&](const Shape& shape) { return c.AllocateTemporary(dtype, shape); });
}

absl::Status Read(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  TANDEM_ASSIGN_OR_RETURN(const int64_t index, IntInput(c, 1, "index"));
  TANDEM_ASSIGN_OR_RETURN(Tensor value, ReadElement(c, *array, index));
  c.SetOutput(0, std::move(value));
  return absl::OkStatus();
}

// `first` and then the sizes of `shape`.
absl::StatusOr<Shape> Stacked(int64_t first, absl::Span<const int64_t> rest) {
  Shape::Dims dims = {first};
  dims.insert(dims.end(), rest.begin(), rest.end());
  return Shape::FromDims(dims);
}

// Elements by their indices, one upon the other.
class GatherKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    element_shape_ = init.Attr<PartialShape>("element_shape");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
    TANDEM_RETURN_IF_ERROR(RequireVector(c.input(1), "indices"));
    const DataType dtype = c.output_dtype(0);
    TANDEM_ASSIGN_OR_RETURN(const PartialShape known, array->ElementShape(dtype, element_shape_));
    const absl::Span<const int32_t> indices = c.input(1).Elements<int32_t>();
    if (indices.empty() && !known.IsFullyDefined()) {
      return errors::Unimplemented("no element of the array '", array->name(),
                                   "' is gathered, and of their shape only ", known.DebugString(),
                                   " is known; set element_shape");
    }
    std::vector<Tensor> values;
    for (const int32_t index : indices) {
      TANDEM_ASSIGN_OR_RETURN(Tensor value, ReadElement(c, *array, index));
      if (!known.IsCompatibleWith(value.shape())) {
        return errors::InvalidArgument("element ", index, " of the array '", array->name(),
                                       "' has shape ", value.shape().DebugString(), "; ",
                                       known.DebugString(), " is wanted");
      }
      if (!values.empty() && value.shape() != values[0].shape()) {
        return errors::InvalidArgument(
            "element ", index, " of the array '", array->name(), "' has shape ",
            value.shape().DebugString(), ", and element ", indices[0], " has ",
            values[0].shape().DebugString(), "; only elements of one shape can be gathered");
      }
      values.push_back(std::move(value));
    }
    Shape shape;
    if (values.empty()) {
      TANDEM_ASSIGN_OR_RETURN(shape, known.ToShape());
    } else {
      shape = values[0].shape();
    }
    TANDEM_ASSIGN_OR_RETURN(Shape stacked,
                            Stacked(static_cast<int64_t>(values.size()), shape.dims()));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(stacked)));
    const int64_t size = shape.num_elements();
    for (size_t i = 0; i < values.size(); ++i) {
      array::CopyElements(
          dtype, array::ElementAt(dtype, output->mutable_data(), static_cast<int64_t>(i) * size),
          values[i].data(), size);
    }
    return absl::OkStatus();
  }

 private:
  PartialShape element_shape_;
};

// All elements, one behind the other along their first dimension.
class ConcatKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    element_shape_ = init.Attr<PartialShape>("element_shape_except0");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
    const DataType dtype = c.output_dtype(0);
    TANDEM_RETURN_IF_ERROR(array->ElementShape(dtype, PartialShape::Unknown()).status());
    TANDEM_ASSIGN_OR_RETURN(const int64_t count, array->Size());
    if (count == 0 && !element_shape_.IsFullyDefined()) {
      return errors::Unimplemented("the array '", array->name(),
                                   "' is concatenated and has no elements, and of their shape "
                                   "only ",
                                   element_shape_.DebugString(),
                                   " is known; set element_shape_except0");
    }
    Shape::Dims rest(element_shape_.dims().begin(), element_shape_.dims().end());
    std::vector<Tensor> values;
    int64_t rows = 0;
    for (int64_t i = 0; i < count; ++i) {
      TANDEM_ASSIGN_OR_RETURN(Tensor value, ReadElement(c, *array, i));
      if (value.shape().rank() < 1) {
        return errors::InvalidArgument("element ", i, " of the array '", array->name(),
                                       "' is a scalar; what is concatenated has one dimension at "
                                       "least");
      }
      const absl::Span<const int64_t> dims = value.shape().dims();
      if (i == 0) {
        rest.assign(dims.begin() + 1, dims.end());
        if (!element_shape_.IsCompatibleWith(*Shape::FromDims(rest))) {
          return errors::InvalidArgument("element 0 of the array '", array->name(), "' has shape ",
                                         value.shape().DebugString(),
                                         "; behind the first dimension ",
                                         element_shape_.DebugString(), " is wanted");
        }
      } else if (dims.subspan(1) != absl::MakeConstSpan(rest)) {
        return errors::InvalidArgument("element ", i, " of the array '", array->name(),
                                       "' has shape ", value.shape().DebugString(),
                                       ", and element 0 ", values[0].shape().DebugString(),
                                       "; they may differ in the first dimension only");
      }
      rows += dims[0];
      values.push_back(std::move(value));
    }
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Stacked(rows, rest));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    TANDEM_ASSIGN_OR_RETURN(Tensor * lengths, c.AllocateOutput(1, Shape({count})));
    int64_t offset = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t size = values[i].num_elements();
      array::CopyElements(dtype, array::ElementAt(dtype, output->mutable_data(), offset),
                          values[i].data(), size);
      offset += size;
      lengths->MutableElements<int64_t>()[i] = values[i].shape().dim(0);
    }
    return absl::OkStatus();
  }

 private:
  PartialShape element_shape_;
};

// Rows [first, first + count) of `value`; without the first dimension when `drops_first`.
absl::StatusOr<Tensor> Rows(KernelContext& c, const Tensor& value, int64_t first, int64_t count,
                            bool drops_first) {
  Shape::Dims dims(value.shape().dims().begin(), value.shape().dims().end());
  int64_t row = 1;
  for (size_t i = 1; i < dims.size(); ++i) row *= dims[i];
  if (drops_first) {
    dims.erase(dims.begin());
  } else {
    dims[0] = count;
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  if (absl::optional<Tensor> view = array::AlignedView(value, first * row, shape)) {
    return *std::move(view);
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor copy, c.AllocateTemporary(value.dtype(), shape));
  array::CopyElements(value.dtype(), copy.mutable_data(),
                      array::ElementAt(value.dtype(), value.data(), first * row), count * row);
  return copy;
}

absl::Status WriteRows(KernelContext& c, TensorArray& array, const Tensor& value, int64_t index,
                       int64_t first, int64_t count, bool drops_first) {
  TANDEM_ASSIGN_OR_RETURN(Tensor rows, Rows(c, value, first, count, drops_first));
  return array.Write(index, std::move(rows),
                     [&](const Shape& shape) { return c.AllocateTemporary(value.dtype(), shape); });
}

// Row i of the value becomes element indices[i].
absl::Status Scatter(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  TANDEM_RETURN_IF_ERROR(RequireVector(c.input(1), "indices"));
  const Tensor& value = c.input(2);
  const absl::Span<const int32_t> indices = c.input(1).Elements<int32_t>();
  if (value.shape().rank() < 1 || value.shape().dim(0) != static_cast<int64_t>(indices.size())) {
    return errors::InvalidArgument("the value of shape ", value.shape().DebugString(), " has not ",
                                   indices.size(), " rows, one for each index");
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(WriteRows(c, *array, value, indices[i], static_cast<int64_t>(i), 1,
                                     /*drops_first=*/true));
  }
  c.SetOutput(0, c.TakeInput(3));
  return absl::OkStatus();
}

// The first lengths[0] rows of the value become element 0, and so on.
absl::Status Split(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  TANDEM_RETURN_IF_ERROR(RequireVector(c.input(2), "lengths"));
  const Tensor& value = c.input(1);
  const absl::Span<const int64_t> lengths = c.input(2).Elements<int64_t>();
  if (value.shape().rank() < 1) {
    return errors::InvalidArgument("a scalar cannot be split");
  }
  int64_t left = value.shape().dim(0);
  for (const int64_t length : lengths) {
    if (length < 0 || length > left) {
      left = -1;
      break;
    }
    left -= length;
  }
  if (left != 0) {
    return errors::InvalidArgument("the lengths do not add up to the ", value.shape().dim(0),
                                   " rows of the value: ", c.input(2).DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, array->Size());
  const int64_t count = static_cast<int64_t>(lengths.size());
  if (size != count && !(array->is_dynamic() && size < count)) {
    return errors::InvalidArgument("the array '", array->name(), "' has ", size,
                                   " elements; there are ", count, " lengths");
  }
  int64_t first = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    TANDEM_RETURN_IF_ERROR(WriteRows(c, *array, value, i, first, length, /*drops_first=*/false));
    first += length;
  }
  c.SetOutput(0, c.TakeInput(3));
  return absl::OkStatus();
}

absl::Status SizeOf(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, array->Size());
  c.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(size)));
  return absl::OkStatus();
}

absl::Status Close(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, ArrayInput(c));
  array->Close();
  return absl::OkStatus();
}

absl::Status GatherShape(ShapeContext& c) {
  const PartialShape& element = c.Attr<PartialShape>("element_shape");
  const PartialShape& indices = c.input(1);
  if (!element.has_rank()) return UnknownShape(c);
  Shape::Dims dims = {indices.has_rank() && indices.rank() == 1 ? indices.dim(0)
                                                                : PartialShape::kUnknownDim};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::FromDims(dims));
  return c.SetOutput(0, std::move(shape));
}

absl::Status ConcatShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(UnknownShape(c));
  return c.SetOutput(1, PartialShape({PartialShape::kUnknownDim}));
}

TANDEM_OP("TensorArrayV3")
    .Inputs("size:int32")
    .Outputs("handle:resource, flow:float32")
    .Attrs(
        "dtype:type; element_shape:shape=unknown; dynamic_size:bool=False; "
        "clear_after_read:bool=True; identical_element_shapes:bool=False; "
        "tensor_array_name:string=\"\"")
    .Stateful()
    .NotDifferentiable()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"size", "handle"})
    .Cpu(Make<ArrayKernel>());

TANDEM_OP("TensorArrayGradV3")
    .Inputs("handle:resource, flow_in:float32")
    .Outputs("grad_handle:resource, flow_out:float32")
    .Attrs("source:string")
    .Stateful()
    .NotDifferentiable()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"handle", "grad_handle"})
    .Cpu(Make<GradientKernel>());

TANDEM_OP("TensorArrayGradWithShape")
    .Inputs("handle:resource, flow_in:float32, shape_to_prepend:int32")
    .Outputs("grad_handle:resource, flow_out:float32")
    .Attrs("source:string")
    .Stateful()
    .NotDifferentiable()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"handle", "shape_to_prepend", "grad_handle"})
    .Cpu(Make<GradientKernel>());

TANDEM_OP("TensorArrayWriteV3")
    .Inputs("handle:resource, index:int32, value:T, flow_in:float32")
    .Outputs("flow_out:float32")
    .Attrs("T:type")
    .Stateful()
    .Cheap()
    .Shape(ScalarShape)
    .Gradient(ArrayWriteGradient)
    .HostMemory({"handle", "index"})
    .Cpu(Function(Write));

TANDEM_OP("TensorArrayReadV3")
    .Inputs("handle:resource, index:int32, flow_in:float32")
    .Outputs("value:dtype")
    .Attrs("dtype:type")
    .Stateful()
    .Cheap()
    .Shape(UnknownShape)
    .Gradient(ArrayReadGradient)
    .HostMemory({"handle", "index"})
    .Cpu(Function(Read));

TANDEM_OP("TensorArrayGatherV3")
    .Inputs("handle:resource, indices:int32, flow_in:float32")
    .Outputs("value:dtype")
    .Attrs("dtype:type; element_shape:shape=unknown")
    .Stateful()
    .Shape(GatherShape)
    .Gradient(ArrayGatherGradient)
    .HostMemory({"handle", "indices"})
    .Cpu(Make<GatherKernel>());

TANDEM_OP("TensorArrayScatterV3")
    .Inputs("handle:resource, indices:int32, value:T, flow_in:float32")
    .Outputs("flow_out:float32")
    .Attrs("T:type")
    .Stateful()
    .Shape(ScalarShape)
    .Gradient(ArrayScatterGradient)
    .HostMemory({"handle", "indices"})
    .Cpu(Function(Scatter));

TANDEM_OP("TensorArrayConcatV3")
    .Inputs("handle:resource, flow_in:float32")
    .Outputs("value:dtype, lengths:int64")
    .Attrs("dtype:type; element_shape_except0:shape=unknown")
    .Stateful()
    .Shape(ConcatShape)
    .Gradient(ArrayConcatGradient)
    .HostMemory({"handle", "lengths"})
    .Cpu(Make<ConcatKernel>());

TANDEM_OP("TensorArraySplitV3")
    .Inputs("handle:resource, value:T, lengths:int64, flow_in:float32")
    .Outputs("flow_out:float32")
    .Attrs("T:type")
    .Stateful()
    .Shape(ScalarShape)
    .Gradient(ArraySplitGradient)
    .HostMemory({"handle", "lengths"})
    .Cpu(Function(Split));

TANDEM_OP("TensorArraySizeV3")
    .Inputs("handle:resource, flow_in:float32")
    .Outputs("size:int32")
    .Stateful()
    .NotDifferentiable()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"handle", "size"})
    .Cpu(Function(SizeOf));

TANDEM_OP("TensorArrayCloseV3")
    .Inputs("handle:resource")
    .Stateful()
    .NotDifferentiable()
    .Cheap()
    .Shape(NoOutputs)
    .HostMemory({"handle"})
    .Cpu(Function(Close));

}  // namespace
}  // namespace tandem::data
