// Variables by resource handle: made, read, assigned, asked about and destroyed.
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

// --- VarHandleOp

absl::Status HandleShape(ShapeContext& c) {
  c.SetOutputHandle(0, {{c.Attr<DataType>("dtype"), c.Attr<PartialShape>("shape")}});
  return c.SetOutput(0, PartialShape({}));
}

// The name by which TensorFlow's clients ask for a variable that nobody else can name.
constexpr char kAnonymous[] = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

// The variable is made with its handle, without a value; so a handle holds a pointer, and nothing
// is looked up by name when it is used.
class VarHandleKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("dtype");
    shape_ = init.Attr<PartialShape>("shape");
    container_ = init.Attr<std::string>("container");
    if (container_.empty()) container_ = ResourceManager::kDefaultContainer;
    name_ = init.Attr<std::string>("shared_name");
    if (name_.empty() || name_ == kAnonymous) name_ = std::string(init.node_name());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(mu_);
    if (!handle_.is_valid() || resource_->is_forgotten()) TANDEM_RETURN_IF_ERROR(MakeHandle(c));
    c.SetOutput(0, handle_);
    return absl::OkStatus();
  }

 private:
  absl::Status MakeHandle(KernelContext& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TANDEM_ASSIGN_OR_RETURN(RefPtr<Variable> variable,
                            c.device().resources->LookupOrCreate<Variable>(
                                container_, name_, [this]() -> absl::StatusOr<RefPtr<Variable>> {
                                  return MakeRef<Variable>(dtype_, shape_);
                                }));
    auto description = MakeRef<ResourceHandle::Description>();
    description->device = c.device().name;
    description->container = container_;
    description->name = name_;
    description->type_name = "tandem::Variable";
    description->dtypes_and_shapes = {{dtype_, shape_}};
    description->resource = variable;
    resource_ = std::move(variable);
    handle_ = Tensor::Scalar(
        ResourceHandle(RefPtr<const ResourceHandle::Description>(std::move(description))));
    return absl::OkStatus();
  }

  DataType dtype_ = DataType::kInvalid;
  PartialShape shape_;
  std::string container_;
  std::string name_;

  Mutex mu_;
  RefPtr<Variable> resource_ ABSL_GUARDED_BY(mu_);
  Tensor handle_ ABSL_GUARDED_BY(mu_);
};

// --- Questions

absl::Status IsInitialized(KernelContext& c) {
  bool initialized = false;
  const absl::StatusOr<VariableInput> variable = GetVariable(c, 0, absl::StatusCode::kNotFound);
  if (variable.ok()) {
    MutexLock lock(variable->variable->mu());
    initialized = variable->variable->value().is_valid();
  } else if (!absl::IsNotFound(variable.status())) {
    return variable.status();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape()));
  output->MutableElements<bool>()[0] = initialized;
  return absl::OkStatus();
}

absl::Status ShapeOfVariable(ShapeContext& c) {
  const PartialShape shape = VariableShapeOf(c, 0);
  if (!shape.has_rank()) return c.SetOutput(0, PartialShape::UnknownOfRank(1));
  return c.SetOutput(0, PartialShape({shape.rank()}));
}

absl::Status VariableShape(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const VariableInput variable,
                          GetVariable(c, 0, absl::StatusCode::kNotFound));
  Shape shape;
  {
    MutexLock lock(variable->mu());
    const Tensor& value = variable->value();
    if (!value.is_valid()) return variable.NotInitialized(absl::StatusCode::kNotFound);
    shape = value.shape();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape({shape.rank()})));
  for (int i = 0; i < shape.rank(); ++i) {
    if (output->dtype() == kInt64) {
      output->MutableElements<int64_t>()[static_cast<size_t>(i)] = shape.dim(i);
    } else if (shape.dim(i) > INT32_MAX) {
      return errors::InvalidArgument("dimension ", i, " of shape ", shape.DebugString(),
                                     " does not fit into int32; ask for out_type int64");
    } else {
      output->MutableElements<int32_t>()[static_cast<size_t>(i)] =
          static_cast<int32_t>(shape.dim(i));
    }
  }
  return absl::OkStatus();
}

// --- Read and assign

absl::Status ReadShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckHandleType(c, 0, c.Attr<DataType>("dtype")));
  return c.SetOutput(0, VariableShapeOf(c, 0));
}

absl::Status Read(KernelContext& c) {
  constexpr absl::StatusCode kMissing = absl::StatusCode::kFailedPrecondition;
  TANDEM_ASSIGN_OR_RETURN(const VariableInput variable, GetVariable(c, 0, kMissing));
  TANDEM_RETURN_IF_ERROR(CheckType(variable, c.output_dtype(0)));
  MutexLock lock(variable->mu());
  if (!variable->value().is_valid()) return variable.NotInitialized(kMissing);
  c.SetOutput(0, variable->value());
  return absl::OkStatus();
}

// Gradients with respect to a handle are those with respect to the variable's value.
absl::Status ReadGradient(GradientContext& g) {
  g.SetInputGradient(0, g.RawOutputGradient(0));
  return absl::OkStatus();
}

absl::Status AssignShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckHandleType(c, 0, c.Attr<DataType>("dtype")));
  return VariableShapeOf(c, 0).MergeWith(c.input(1)).status();
}

class AssignKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    validate_shape_ = init.Attr<bool>("validate_shape");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return AssignByHandle(c, validate_shape_, [&c](void* to, const Tensor& from) {
      CopyElements(c.parallel(), from.dtype(), to, from.data(), from.num_elements());
      return absl::OkStatus();
    });
  }

 private:
  bool validate_shape_ = false;
};

// --- DestroyResourceOp

class DestroyKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    ignore_missing_ = init.Attr<bool>("ignore_lookup_error");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const ResourceHandle* const handle, HandleInput(c, 0));
    absl::Status status = Destroy(c, *handle);
    if (ignore_missing_ && absl::IsNotFound(status)) return absl::OkStatus();
    return status;
  }

 private:
  static absl::Status Destroy(KernelContext& c, const ResourceHandle& handle) {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<Resource> resource, FindResource(c, handle));
    if (Variable* const variable = dynamic_cast<Variable*>(resource.get())) {
      // A variable without a value does not count as existing: its handle alone made it.
      MutexLock lock(variable->mu());
      if (!variable->value().is_valid()) {
        return errors::NotFound("variable '", handle.DebugString(), "' has no value to destroy");
      }
    }
    return c.device().resources->Delete(handle.description().container, handle.description().name,
                                        *resource);
  }

  bool ignore_missing_ = true;
};

TANDEM_OP("VarHandleOp")
    .Outputs("resource:resource")
    .Attrs(
        "container:string=\"\"; shared_name:string=\"\"; debug_name:string=\"\"; dtype:type; "
        "shape:shape; allowed_devices:list(string)=[]")
    .Stateful()
    .Cheap()
    .Shape(HandleShape)
    .HostMemory({"resource"})
    .Cpu(Make<VarHandleKernel>());

TANDEM_OP("VarIsInitializedOp")
    .Inputs("resource:resource")
    .Outputs("is_initialized:bool")
    .Stateful()
    .Cheap()
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"resource", "is_initialized"})
    .Cpu(Function(IsInitialized));

TANDEM_OP("VariableShape")
    .Inputs("input:resource")
    .Outputs("output:out_type")
    .Attrs("out_type:type{int32,int64}=int32")
    .Stateful()
    .Cheap()
    .Shape(ShapeOfVariable)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Function(VariableShape));

TANDEM_OP("ReadVariableOp")
    .Inputs("resource:resource")
    .Outputs("value:dtype")
    .Attrs("dtype:type")
    .Stateful()
    .Cheap()
    .Shape(ReadShape)
    .Gradient(ReadGradient)
    .HostMemory({"resource"})
    .Cpu(Function(Read));

TANDEM_OP("AssignVariableOp")
    .Inputs("resource:resource, value:dtype")
    .Attrs("dtype:type; validate_shape:bool=False")
    .Stateful()
    .Shape(AssignShape)
    .HostMemory({"resource"})
    .Cpu(Make<AssignKernel>("dtype", array::AllTypes()));

TANDEM_OP("DestroyResourceOp")
    .Inputs("resource:resource")
    .Attrs("ignore_lookup_error:bool=True")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"resource"})
    .Cpu(Make<DestroyKernel>());

}  // namespace
}  // namespace tandem::state
