// Ops that make tensors: Const, Placeholder, Empty, Fill, ZerosLike, OnesLike.
#include <complex>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

// --- Const

absl::Status ConstShape(ShapeContext& c) {
  const Tensor& value = c.Attr<Tensor>("value");
  if (value.dtype() != c.Attr<DataType>("dtype")) {
    return errors::InvalidArgument("the value is of type ", DataTypeName(value.dtype()),
                                   " and attribute 'dtype' is ",
                                   DataTypeName(c.Attr<DataType>("dtype")));
  }
  return c.SetOutput(0, value.shape());
}

// Hands out the same buffer in every run.
class ConstKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    value_ = init.Attr<Tensor>("value");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const bool host_output = (c.params().host_outputs & 1) != 0;
    if (c.device().type == kCpu || host_output || !IsTriviallyCopyable(value_.dtype())) {
      c.SetOutput(0, value_);
      return absl::OkStatus();
    }
    // A device with memory of its own: the first run brings the value there.
    MutexLock lock(mu_);
    if (!on_device_.is_valid()) {
      TANDEM_ASSIGN_OR_RETURN(on_device_, c.AllocateTemporary(value_.dtype(), value_.shape()));
      CopyElements(value_.dtype(), on_device_.mutable_data(), value_.data(), value_.num_elements());
    }
    c.SetOutput(0, on_device_);
    return absl::OkStatus();
  }

 private:
  Tensor value_;  // In host memory; fixed once the kernel is made.
  Mutex mu_;
  Tensor on_device_ ABSL_GUARDED_BY(mu_);
};

// --- Placeholder

absl::Status DeclaredShape(ShapeContext& c) {
  return c.SetOutput(0, c.Attr<PartialShape>("shape"));
}

class PlaceholderKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("dtype");
    shape_ = init.Attr<PartialShape>("shape");
    return absl::OkStatus();
  }
  // Runs only when the placeholder was not fed.
  absl::Status Compute(KernelContext& c) override {
    return errors::InvalidArgument("placeholder '", c.node_name(), "' must be fed a ",
                                   DataTypeName(dtype_), " tensor of shape ", shape_.DebugString());
  }

 private:
  DataType dtype_ = DataType::kInvalid;
  PartialShape shape_;
};

// --- Empty, Fill

absl::Status ShapeFromInput(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.InputAsShape(0));
  return c.SetOutput(0, std::move(shape));
}

class EmptyKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    zeroed_ = init.Attr<bool>("init");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "shape"));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    if (zeroed_) {
      ZeroElements(c.parallel(), output->dtype(), output->mutable_data(), output->num_elements());
    }
    return absl::OkStatus();
  }

 private:
  bool zeroed_ = false;
};

absl::Status FillShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  return ShapeFromInput(c);
}

absl::Status Fill(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeArgument(c.input(0), "dims"));
  const Tensor& value = c.input(1);
  if (value.shape().rank() > 1 || value.num_elements() != 1) {
    return errors::InvalidArgument("the value to fill with has shape ", value.shape().DebugString(),
                                   "; a scalar is wanted");
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  FillElements(c.parallel(), value.dtype(), output->mutable_data(), value.data(),
               output->num_elements());
  return absl::OkStatus();
}

// All elements of the output are the value.
absl::Status FillGradient(GradientContext& g) {
  const Output flat =
      g.Call("Reshape", {g.OutputGradient(0), g.Constant(Tensor::Vector<int32_t>({-1}))});
  g.SetInputGradient(1, g.Call("Sum", {flat, g.Constant(Tensor::Vector<int32_t>({0}))}));
  return absl::OkStatus();
}

// --- ZerosLike, OnesLike

// Zeros in a tensor of their own; in a variant, of the tensors inside.
absl::StatusOr<Tensor> ZerosOf(KernelContext& c, const Tensor& x) {
  if (x.dtype() == kResource) return errors::Unimplemented("there are no zeros like a handle");
  TANDEM_ASSIGN_OR_RETURN(Tensor zeros, c.AllocateTemporary(x.dtype(), x.shape()));
  if (x.dtype() != kVariant) {
    ZeroElements(c.parallel(), zeros.dtype(), zeros.mutable_data(), zeros.num_elements());
    return zeros;
  }
  const auto to = zeros.MutableElements<Variant>();
  for (size_t i = 0; i < to.size(); ++i) {
    const Variant& value = x.Elements<Variant>()[i];
    if (value.empty()) continue;
    TANDEM_ASSIGN_OR_RETURN(
        RefPtr<VariantValue> zero,
        value.value()->ZerosLike([&c](const Tensor& inner) { return ZerosOf(c, inner); }));
    to[i] = Variant(std::move(zero));
  }
  return zeros;
}

absl::Status ZerosLike(KernelContext& c) {
  const Tensor& x = c.input(0);
  if (x.dtype() == kVariant) {
    TANDEM_ASSIGN_OR_RETURN(Tensor zeros, ZerosOf(c, x));
    c.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({0}, 0, x.shape()));
  ZeroElements(c.parallel(), output->dtype(), output->mutable_data(), output->num_elements());
  return absl::OkStatus();
}

// One as an element of `dtype`.
void WriteOne(DataType dtype, void* one) {
  switch (dtype) {
#define TANDEM_CASE_(T)                           \
  case DataTypeOf<T>():                           \
    *static_cast<T*>(one) = static_cast<T>(1.0f); \
    break;
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
    TANDEM_CASE_(std::complex<float>)
    TANDEM_CASE_(std::complex<double>)
    TANDEM_CASE_(bool)
#undef TANDEM_CASE_
    default:
      break;
  }
}

absl::Status OnesLike(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
  alignas(16) char one[16] = {};
  WriteOne(output->dtype(), one);
  FillElements(c.parallel(), output->dtype(), output->mutable_data(), one, output->num_elements());
  return absl::OkStatus();
}

TANDEM_OP("Const")
    .Outputs("output:dtype")
    .Attrs("value:tensor; dtype:type")
    .Cheap()
    .Shape(ConstShape)
    .NotDifferentiable()
    .Cpu(Make<ConstKernel>());

TANDEM_OP("Placeholder")
    .Outputs("output:dtype")
    .Attrs("dtype:type; shape:shape=unknown")
    .Cheap()
    .Shape(DeclaredShape)
    .Cpu(Make<PlaceholderKernel>());

TANDEM_OP("PlaceholderV2")
    .Outputs("output:dtype")
    .Attrs("dtype:type; shape:shape")
    .Cheap()
    .Shape(DeclaredShape)
    .Cpu(Make<PlaceholderKernel>());

TANDEM_OP("Empty")
    .Inputs("shape:int32")
    .Outputs("output:dtype")
    .Attrs("dtype:type; init:bool=False")
    .Stateful()
    .Shape(ShapeFromInput)
    .HostMemory({"shape"})
    .Cpu(Make<EmptyKernel>("dtype", AllTypesBut({kResource, kVariant})));

TANDEM_OP("Fill")
    .Inputs("dims:index_type, value:T")
    .Outputs("output:T")
    .Attrs("T:type; index_type:type{int32,int64}=int32")
    .Shape(FillShape)
    .Gradient(FillGradient)
    .HostMemory({"dims"})
    .Cpu(ForTypes("T", AllTypes(), Function(Fill)));

TANDEM_OP("ZerosLike")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(ForTypes("T", AllTypesBut({kResource}), Function(ZerosLike)));

TANDEM_OP("OnesLike")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(
        "T:type{bfloat16,float16,float32,float64,int8,uint8,int16,uint16,int32,uint32,int64,"
        "uint64,complex64,complex128,bool}")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(ForTypes("T", AllTypesBut({kString, kResource, kVariant}), Function(OnesLike)));

}  // namespace
}  // namespace tandem::array
