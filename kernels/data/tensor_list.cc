#include "kernels/data/tensor_list.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"

namespace tandem::data {

absl::StatusOr<RefPtr<VariantValue>> TensorList::ZerosLike(ZerosLikeFunction zeros_like) const {
  auto zeros = MakeRef<TensorList>(dtype, element_shape, max_elements);
  zeros->elements.resize(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i].is_valid()) continue;
    TANDEM_ASSIGN_OR_RETURN(zeros->elements[i], zeros_like(elements[i]));
  }
  return RefPtr<VariantValue>(std::move(zeros));
}

absl::StatusOr<RefPtr<VariantValue>> TensorList::Add(const VariantValue& other,
                                                     AddFunction add) const {
  const auto* const list = dynamic_cast<const TensorList*>(&other);
  if (list == nullptr) {
    return errors::InvalidArgument("a list cannot be added to ", other.DebugString());
  }
  const absl::StatusOr<PartialShape> shape = element_shape.MergeWith(list->element_shape);
  if (list->dtype != dtype || list->elements.size() != elements.size() || !shape.ok()) {
    return errors::InvalidArgument("a ", DebugString(), " and a ", list->DebugString(),
                                   " cannot be added: length, type and shape must be equal");
  }
  auto sum = MakeRef<TensorList>(dtype, *shape, max_elements);
  sum->elements.resize(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i].is_valid() || !list->elements[i].is_valid()) {
      sum->elements[i] = elements[i].is_valid() ? elements[i] : list->elements[i];
      continue;
    }
    absl::StatusOr<Tensor> element = add(elements[i], list->elements[i]);
    if (!element.ok()) return WithContext(element.status(), absl::StrCat("element ", i));
    sum->elements[i] = *std::move(element);
  }
  return RefPtr<VariantValue>(std::move(sum));
}

namespace {

// --- Inputs and outputs

absl::Status CheckDtype(const TensorList& list, DataType wanted) {
  if (list.dtype == wanted) return absl::OkStatus();
  return errors::InvalidArgument("the list holds ", DataTypeName(list.dtype), "; this op is for ",
                                 DataTypeName(wanted));
}

absl::StatusOr<TensorList*> ListInput(const Tensor& tensor, int i) {
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("input ", i, " must be one tensor list; it has shape ",
                                   tensor.shape().DebugString());
  }
  const Variant& variant = tensor.ScalarValue<Variant>();
  TensorList* const list = variant.Get<TensorList>();
  if (list == nullptr) {
    return errors::InvalidArgument("input ", i, " is no tensor list but ", variant.DebugString());
  }
  return list;
}

// The list of input 0, to be changed: itself when nobody else holds it, else a copy (of the list;
// the elements are shared).
absl::StatusOr<RefPtr<TensorList>> TakeList(KernelContext& c) {
  TANDEM_RETURN_IF_ERROR(ListInput(c.input(0), 0).status());
  Tensor tensor = c.TakeInput(0);
  TensorList* const list = tensor.ScalarValue<Variant>().Get<TensorList>();
  if (tensor.OwnsBufferAlone() && list->RefCountIsOne()) return RefPtr<TensorList>::Share(list);
  auto copy = MakeRef<TensorList>(list->dtype, list->element_shape, list->max_elements);
  copy->elements.reserve(list->elements.size() + 1);
  copy->elements = list->elements;
  return copy;
}

void SetList(KernelContext& c, int i, RefPtr<TensorList> list) {
  c.SetOutput(i, Tensor::Scalar(Variant(std::move(list))));
}

absl::StatusOr<int32_t> IntInput(const KernelContext& c, int i, absl::string_view what) {
  const Tensor& tensor = c.input(i);
  if (tensor.num_elements() != 1) {
    return errors::InvalidArgument(what, " must be one number; it has shape ",
                                   tensor.shape().DebugString());
  }
  return tensor.ScalarValue<int32_t>();
}

// An element shape: a vector of sizes, where -1 is unknown, or the scalar -1 for an unknown rank.
absl::StatusOr<PartialShape> ShapeInput(const KernelContext& c, int i) {
  const Tensor& tensor = c.input(i);
  Shape::Dims dims;
  for (int64_t k = 0; k < tensor.num_elements(); ++k) {
    const size_t at = static_cast<size_t>(k);
    dims.push_back(tensor.dtype() == kInt64 ? tensor.Elements<int64_t>()[at]
                                            : tensor.Elements<int32_t>()[at]);
  }
  if (tensor.shape().IsScalar() && dims[0] == -1) return PartialShape::Unknown();
  if (!tensor.shape().IsVector()) {
    return errors::InvalidArgument(
        "an element shape must be a vector of sizes, or the scalar -1; found ",
        tensor.DebugString());
  }
  return PartialShape::FromDims(dims);
}

// What the list and input `i`, an element shape, say together.
absl::StatusOr<PartialShape> ElementShape(const KernelContext& c, int i, const TensorList& list) {
  TANDEM_ASSIGN_OR_RETURN(const PartialShape wanted, ShapeInput(c, i));
  absl::StatusOr<PartialShape> merged = wanted.MergeWith(list.element_shape);
  if (merged.ok()) return merged;
  return errors::InvalidArgument("elements of the list have shape ",
                                 list.element_shape.DebugString(), ", which does not fit ",
                                 wanted.DebugString());
}

// The one shape of all elements, where they have one. Elements that are not set take the others'.
absl::StatusOr<Shape> CommonShape(PartialShape shape, const TensorList& list) {
  if (!shape.IsFullyDefined()) {
    for (const Tensor& element : list.elements) {
      if (!element.is_valid()) continue;
      const absl::StatusOr<PartialShape> merged = shape.MergeWith(element.shape());
      if (!merged.ok()) {
        return errors::InvalidArgument("the list has an element of shape ",
                                       element.shape().DebugString(), ", which does not fit ",
                                       shape.DebugString());
      }
      shape = *merged;
    }
  }
  if (!shape.IsFullyDefined()) {
    return errors::InvalidArgument("of the elements' shape only ", shape.DebugString(),
                                   " is known, and no element that is set tells more");
  }
  return shape.ToShape();
}

// Element `index`, zeros when it is not set; `wanted` is what the op's element shape says with the
// list's.
absl::StatusOr<Tensor> ReadElement(KernelContext& c, const TensorList& list, size_t index,
                                   const PartialShape& wanted) {
  const Tensor& element = list.elements[index];
  if (element.is_valid()) {
    if (!wanted.IsCompatibleWith(element.shape())) {
      return errors::InvalidArgument("element ", index, " has shape ",
                                     element.shape().DebugString(), ", which does not fit ",
                                     wanted.DebugString());
    }
    Tensor result = element;
    result.Localize();
    return result;
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, CommonShape(wanted, list));
  TANDEM_ASSIGN_OR_RETURN(Tensor zeros, c.AllocateTemporary(list.dtype, shape));
  array::ZeroElements(c.parallel(), list.dtype, zeros.mutable_data(), zeros.num_elements());
  return zeros;
}

absl::Status CheckFits(const TensorList& list, const Tensor& element) {
  TANDEM_RETURN_IF_ERROR(CheckDtype(list, element.dtype()));
  if (list.element_shape.IsCompatibleWith(element.shape())) return absl::OkStatus();
  return errors::InvalidArgument("an element of shape ", element.shape().DebugString(),
                                 " does not fit the list's element shape ",
                                 list.element_shape.DebugString());
}

absl::Status CheckReserved(int64_t count) {
  if (count <= TensorList::kMaxReserved) return absl::OkStatus();
  return errors::ResourceExhausted("a list of ", count, " elements is asked for; at most ",
                                   TensorList::kMaxReserved, " can be made at once");
}

// --- Kernels

class EmptyListKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("element_dtype");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(PartialShape shape, ShapeInput(c, 0));
    TANDEM_ASSIGN_OR_RETURN(const int32_t limit, IntInput(c, 1, "max_num_elements"));
    SetList(c, 0, MakeRef<TensorList>(dtype_, std::move(shape), limit));
    return absl::OkStatus();
  }

 private:
  DataType dtype_ = DataType::kInvalid;
};

class ReserveKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("element_dtype");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(PartialShape shape, ShapeInput(c, 0));
    TANDEM_ASSIGN_OR_RETURN(const int32_t count, IntInput(c, 1, "num_elements"));
    if (count < 0) {
      return errors::InvalidArgument("num_elements must not be negative; it is ", count);
    }
    TANDEM_RETURN_IF_ERROR(CheckReserved(count));
    auto list = MakeRef<TensorList>(dtype_, std::move(shape));
    list->elements.resize(static_cast<size_t>(count));
    SetList(c, 0, std::move(list));
    return absl::OkStatus();
  }

 private:
  DataType dtype_ = DataType::kInvalid;
};

absl::Status Length(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const TensorList* list, ListInput(c.input(0), 0));
  c.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(list->elements.size())));
  return absl::OkStatus();
}

absl::Status ElementShapeOf(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const TensorList* list, ListInput(c.input(0), 0));
  const PartialShape& shape = list->element_shape;
  const Shape output_shape = shape.has_rank() ? Shape({shape.rank()}) : Shape();
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, output_shape));
  for (int64_t i = 0; i < output->num_elements(); ++i) {
    const int64_t size = shape.has_rank() ? shape.dim(static_cast<int>(i)) : -1;
    if (output->dtype() == kInt64) {
      output->MutableElements<int64_t>()[static_cast<size_t>(i)] = size;
    } else if (size > INT32_MAX) {
      return errors::InvalidArgument("element shape ", shape.DebugString(),
                                     " does not fit into int32; ask for shape_type int64");
    } else {
      output->MutableElements<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(size);
    }
  }
  return absl::OkStatus();
}

absl::Status PushBack(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const TensorList* old, ListInput(c.input(0), 0));
  TANDEM_RETURN_IF_ERROR(CheckFits(*old, c.input(1)));
  if (old->max_elements != TensorList::kNoLimit &&
      static_cast<int64_t>(old->elements.size()) >= old->max_elements) {
    return errors::InvalidArgument("the list is full: it has ", old->elements.size(),
                                   " elements, and its max_num_elements is ", old->max_elements);
  }
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorList> list, TakeList(c));
  list->elements.push_back(c.TakeInput(1));
  SetList(c, 0, std::move(list));
  return absl::OkStatus();
}

absl::Status PopBack(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const TensorList* old, ListInput(c.input(0), 0));
  TANDEM_RETURN_IF_ERROR(CheckDtype(*old, c.output_dtype(1)));
  if (old->elements.empty()) {
    return errors::InvalidArgument("there is nothing to pop: the list is empty");
  }
  TANDEM_ASSIGN_OR_RETURN(const PartialShape shape, ElementShape(c, 1, *old));
  TANDEM_ASSIGN_OR_RETURN(Tensor element, ReadElement(c, *old, old->elements.size() - 1, shape));
  TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorList> list, TakeList(c));
  list->elements.pop_back();
  SetList(c, 0, std::move(list));
  c.SetOutput(1, std::move(element));
  return absl::OkStatus();
}

absl::Status GetItem(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const TensorList* list, ListInput(c.input(0), 0));
  TANDEM_RETURN_IF_ERROR(CheckDtype(*list, c.output_dtype(0)));
  TANDEM_ASSIGN_OR_RETURN(const int32_t index, IntInput(c, 1, "index"));
  if (index < 0 || static_cast<size_t>(index) >= list->elements.size()) {
    return errors::InvalidArgument("element ", index, " is asked for; the list has ",
                                   list->elements.size());
  }
  TANDEM_ASSIGN_OR_RETURN(const PartialShape shape, ElementShape(c, 2, *list));
  TANDEM_ASSIGN_OR_RETURN(Tensor element, ReadElement(c, *list, static_cast<size_t>(index), shape));
  c.SetOutput(0, std::move(element));
  return absl::OkStatus();
}

class SetItemKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    resizes_ = init.Attr<bool>("resize_if_index_out_of_bounds");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const TensorList* old, ListInput(c.input(0), 0));
    TANDEM_RETURN_IF_ERROR(CheckFits(*old, c.input(2)));
    TANDEM_ASSIGN_OR_RETURN(const int32_t index, IntInput(c, 1, "index"));
    const size_t at = static_cast<size_t>(index);
    if (index < 0 || (!resizes_ && at >= old->elements.size())) {
      return errors::InvalidArgument("element ", index, " is to be set; the list has ",
                                     old->elements.size());
    }
    if (at >= old->elements.size()) TANDEM_RETURN_IF_ERROR(CheckReserved(int64_t{index} + 1));
    TANDEM_ASSIGN_OR_RETURN(RefPtr<TensorList> list, TakeList(c));
    if (at >= list->elements.size()) list->elements.resize(at + 1);
    list->elements[at] = c.TakeInput(2);
    SetList(c, 0, std::move(list));
    return absl::OkStatus();
  }

 private:
  bool resizes_ = false;
};

absl::Status FromTensor(KernelContext& c) {
  const Tensor& tensor = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(PartialShape element_shape, ShapeInput(c, 1));
  if (tensor.shape().rank() < 1) {
    return errors::InvalidArgument("a scalar cannot be taken apart into a list");
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(tensor.shape().dims().subspan(1)));
  if (!element_shape.IsCompatibleWith(shape)) {
    return errors::InvalidArgument("rows of shape ", shape.DebugString(),
                                   " do not fit the element shape ", element_shape.DebugString());
  }
  auto list = MakeRef<TensorList>(tensor.dtype(), std::move(element_shape));
  const int64_t count = tensor.shape().dim(0);
  TANDEM_RETURN_IF_ERROR(CheckReserved(count));
  list->elements.reserve(static_cast<size_t>(count));
  const int64_t size = shape.num_elements();
  for (int64_t i = 0; i < count; ++i) {
    if (absl::optional<Tensor> view = array::AlignedView(tensor, i * size, shape)) {
      list->elements.push_back(*std::move(view));
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor copy, c.AllocateTemporary(tensor.dtype(), shape));
    array::CopyElements(tensor.dtype(), copy.mutable_data(),
                        array::ElementAt(tensor.dtype(), tensor.data(), i * size), size);
    list->elements.push_back(std::move(copy));
  }
  SetList(c, 0, std::move(list));
  return absl::OkStatus();
}

class StackKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    count_ = init.Attr<int64_t>("num_elements");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const TensorList* list, ListInput(c.input(0), 0));
    TANDEM_RETURN_IF_ERROR(CheckDtype(*list, c.output_dtype(0)));
    const int64_t count = static_cast<int64_t>(list->elements.size());
    if (count_ >= 0 && count_ != count) {
      return errors::InvalidArgument("the list has ", count, " elements; num_elements says ",
                                     count_);
    }
    TANDEM_ASSIGN_OR_RETURN(const PartialShape partial, ElementShape(c, 1, *list));
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, CommonShape(partial, *list));
    Shape::Dims dims = {count};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    TANDEM_ASSIGN_OR_RETURN(Shape stacked, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(stacked)));
    for (int64_t i = 0; i < count; ++i) {
      Tensor element = list->elements[static_cast<size_t>(i)];
      void* const to =
          array::ElementAt(list->dtype, output->mutable_data(), i * shape.num_elements());
      if (!element.is_valid()) {
        array::ZeroElements(list->dtype, to, shape.num_elements());
        continue;
      }
      if (element.shape() != shape) {
        return errors::InvalidArgument("element ", i, " has shape ", element.shape().DebugString(),
                                       "; ", shape.DebugString(),
                                       " is wanted: only elements of one shape can be stacked");
      }
      element.Localize();
      array::CopyElements(list->dtype, to, element.data(), shape.num_elements());
    }
    return absl::OkStatus();
  }

 private:
  int64_t count_ = -1;
};

// --- Shapes

absl::Status PopBackShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(ScalarShape(c));
  return c.SetOutput(1, PartialShape::Unknown());
}

absl::Status FromTensorShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  return ScalarShape(c);
}

absl::Status StackShape(ShapeContext& c) {
  const absl::optional<Tensor> wanted = c.InputValue(1);
  if (!wanted.has_value() || !wanted->shape().IsVector()) return UnknownShape(c);
  TANDEM_ASSIGN_OR_RETURN(const PartialShape element, c.InputAsShape(1));
  if (!element.has_rank()) return UnknownShape(c);
  Shape::Dims dims = {c.Attr<int64_t>("num_elements")};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::FromDims(dims));
  return c.SetOutput(0, std::move(shape));
}

// --- Gradients: that of a list is the list of the elements' gradients.

Output ShapeOf(GradientContext& g, Output value) { return g.Call("Shape", {value}); }

absl::Status PushBackGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const std::vector<Output> popped =
      g.CallMulti("TensorListPopBack", {g.OutputGradient(0), ShapeOf(g, g.input(1))},
                  {{"element_dtype", g.Attr<DataType>("element_dtype")}});
  if (popped.size() != 2) return absl::OkStatus();
  g.SetInputGradient(0, popped[0]);
  g.SetInputGradient(1, popped[1]);
  return absl::OkStatus();
}

absl::Status PopBackGradient(GradientContext& g) {
  const DataType dtype = g.Attr<DataType>("element_dtype");
  Output list;
  if (g.HasOutputGradient(0)) {
    list = g.OutputGradient(0);
  } else {
    const Output shape = g.Call("TensorListElementShape", {g.output(0)}, {{"shape_type", kInt32}});
    list = g.Call("TensorListReserve", {shape, g.Call("TensorListLength", {g.output(0)})},
                  {{"element_dtype", dtype}});
  }
  g.SetInputGradient(0, g.Call("TensorListPushBack", {list, g.OutputGradient(1)}));
  return absl::OkStatus();
}

absl::Status StackGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output dy = g.OutputGradient(0);
  const Output shape = g.Call("Slice", {ShapeOf(g, dy), g.Constant(Tensor::Vector<int32_t>({1})),
                                        g.Constant(Tensor::Vector<int32_t>({-1}))});
  g.SetInputGradient(0, g.Call("TensorListFromTensor", {dy, shape}));
  return absl::OkStatus();
}

absl::Status FromTensorGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output shape =
      g.Call("Slice", {ShapeOf(g, g.input(0)), g.Constant(Tensor::Vector<int32_t>({1})),
                       g.Constant(Tensor::Vector<int32_t>({-1}))});
  g.SetInputGradient(0, g.Call("TensorListStack", {g.OutputGradient(0), shape},
                               {{"element_dtype", g.Attr<DataType>("element_dtype")}}));
  return absl::OkStatus();
}

absl::Status GetItemGradient(GradientContext& g) {
  const DataType dtype = g.Attr<DataType>("element_dtype");
  const Output shape = g.Call("TensorListElementShape", {g.input(0)}, {{"shape_type", kInt32}});
  const Output zeros =
      g.Call("TensorListReserve", {shape, g.Call("TensorListLength", {g.input(0)})},
             {{"element_dtype", dtype}});
  g.SetInputGradient(0, g.Call("TensorListSetItem", {zeros, g.input(1), g.OutputGradient(0)}));
  return absl::OkStatus();
}

absl::Status SetItemGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  const Output dlist = g.OutputGradient(0);
  const Output item = g.input(2);
  g.SetInputGradient(0,
                     g.Call("TensorListSetItem", {dlist, g.input(1), g.Call("ZerosLike", {item})}));
  g.SetInputGradient(2, g.Call("TensorListGetItem", {dlist, g.input(1), ShapeOf(g, item)},
                               {{"element_dtype", g.Attr<DataType>("element_dtype")}}));
  return absl::OkStatus();
}

TANDEM_OP("EmptyTensorList")
    .Inputs("element_shape:shape_type, max_num_elements:int32")
    .Outputs("handle:variant")
    .Attrs("element_dtype:type; shape_type:type{int32,int64}")
    .Shape(ScalarShape)
    .HostMemory({"element_shape", "max_num_elements", "handle"})
    .Cheap()
    .Cpu(Make<EmptyListKernel>());

TANDEM_OP("TensorListReserve")
    .Inputs("element_shape:shape_type, num_elements:int32")
    .Outputs("handle:variant")
    .Attrs("element_dtype:type; shape_type:type{int32,int64}")
    .Shape(ScalarShape)
    .HostMemory({"element_shape", "num_elements", "handle"})
    .Cpu(Make<ReserveKernel>());

TANDEM_OP("TensorListLength")
    .Inputs("input_handle:variant")
    .Outputs("length:int32")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"input_handle", "length"})
    .Cheap()
    .Cpu(Function(Length));

TANDEM_OP("TensorListElementShape")
    .Inputs("input_handle:variant")
    .Outputs("element_shape:shape_type")
    .Attrs("shape_type:type{int32,int64}")
    .Shape(UnknownShape)
    .NotDifferentiable()
    .HostMemory({"input_handle", "element_shape"})
    .Cheap()
    .Cpu(Function(ElementShapeOf));

TANDEM_OP("TensorListPushBack")
    .Inputs("input_handle:variant, tensor:element_dtype")
    .Outputs("output_handle:variant")
    .Attrs("element_dtype:type")
    .Shape(ScalarShape)
    .Gradient(PushBackGradient)
    .HostMemory({"input_handle", "output_handle"})
    .Cheap()
    .Cpu(Function(PushBack));

TANDEM_OP("TensorListPopBack")
    .Inputs("input_handle:variant, element_shape:int32")
    .Outputs("output_handle:variant, tensor:element_dtype")
    .Attrs("element_dtype:type")
    .Shape(PopBackShape)
    .Gradient(PopBackGradient)
    .HostMemory({"input_handle", "element_shape", "output_handle"})
    .Cheap()
    .Cpu(array::ForTypes("element_dtype", array::AllTypes(), Function(PopBack)));

TANDEM_OP("TensorListGetItem")
    .Inputs("input_handle:variant, index:int32, element_shape:Tshape")
    .Outputs("item:element_dtype")
    .Attrs("element_dtype:type; Tshape:type{int32,int64}=int32")
    .Shape(UnknownShape)
    .Gradient(GetItemGradient)
    .HostMemory({"input_handle", "index", "element_shape"})
    .Cheap()
    .Cpu(array::ForTypes("element_dtype", array::AllTypes(), Function(GetItem)));

TANDEM_OP("TensorListSetItem")
    .Inputs("input_handle:variant, index:int32, item:element_dtype")
    .Outputs("output_handle:variant")
    .Attrs("element_dtype:type; resize_if_index_out_of_bounds:bool=False")
    .Shape(ScalarShape)
    .Gradient(SetItemGradient)
    .HostMemory({"input_handle", "index", "output_handle"})
    .Cpu(Make<SetItemKernel>());

TANDEM_OP("TensorListFromTensor")
    .Inputs("tensor:element_dtype, element_shape:shape_type")
    .Outputs("output_handle:variant")
    .Attrs("element_dtype:type; shape_type:type{int32,int64}")
    .Shape(FromTensorShape)
    .Gradient(FromTensorGradient)
    .HostMemory({"element_shape", "output_handle"})
    .Cpu(array::ForTypes("element_dtype", array::AllTypes(), Function(FromTensor)));

TANDEM_OP("TensorListStack")
    .Inputs("input_handle:variant, element_shape:int32")
    .Outputs("tensor:element_dtype")
    .Attrs("element_dtype:type; num_elements:int=-1")
    .Shape(StackShape)
    .Gradient(StackGradient)
    .HostMemory({"input_handle", "element_shape"})
    .Cpu(Make<StackKernel>("element_dtype", array::AllTypes()));

}  // namespace
}  // namespace tandem::data
