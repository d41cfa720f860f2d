// Variables by reference, as graphs of TensorFlow 1 have them: an edge carries the variable itself.
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/state/variables.h"

namespace tandem::state {
namespace {

absl::Status DeclaredShape(ShapeContext& c) {
  return c.SetOutput(0, c.Attr<PartialShape>("shape"));
}

// In the first version of the op a scalar shape stood for an unknown one.
PartialShape FirstVersionShape(const PartialShape& shape) {
  return shape.has_rank() && shape.rank() == 0 ? PartialShape::Unknown() : shape;
}

absl::Status FirstVersionDeclaredShape(ShapeContext& c) {
  return c.SetOutput(0, FirstVersionShape(c.Attr<PartialShape>("shape")));
}

class VariableKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("dtype");
    shape_ = init.Attr<PartialShape>("shape");
    if (init.op().name == "Variable") shape_ = FirstVersionShape(shape_);
    container_ = init.Attr<std::string>("container");
    name_ = init.Attr<std::string>("shared_name");
    if (name_.empty()) name_ = std::string(init.node_name());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    MutexLock lock(mu_);
    if (!variable_ || variable_->is_forgotten()) {
      TANDEM_ASSIGN_OR_RETURN(
          variable_, c.device().resources->LookupOrCreate<ReferenceVariable>(
                         container_, name_, [this]() -> absl::StatusOr<RefPtr<ReferenceVariable>> {
                           return MakeRef<ReferenceVariable>(dtype_, shape_);
                         }));
      if (variable_->dtype() != dtype_) {
        const DataType holds = variable_->dtype();
        variable_.reset();
        return errors::InvalidArgument("variable '", name_, "' exists with type ",
                                       DataTypeName(holds), "; this node declares ",
                                       DataTypeName(dtype_));
      }
    }
    c.SetOutputReference(0, variable_);
    return absl::OkStatus();
  }

 private:
  DataType dtype_ = DataType::kInvalid;
  PartialShape shape_;
  std::string container_;
  std::string name_;

  Mutex mu_;
  RefPtr<Variable> variable_ ABSL_GUARDED_BY(mu_);
};

absl::Status IsInitialized(KernelContext& c) {
  bool initialized = false;
  {
    Variable& variable = c.reference(0);
    MutexLock lock(variable.mu());
    initialized = variable.value().is_valid();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape()));
  output->MutableElements<bool>()[0] = initialized;
  return absl::OkStatus();
}

absl::Status AssignShape(ShapeContext& c) {
  if (!c.Attr<bool>("validate_shape")) return c.SetOutput(0, c.input(1));
  TANDEM_ASSIGN_OR_RETURN(PartialShape merged, c.input(0).MergeWith(c.input(1)));
  return c.SetOutput(0, std::move(merged));
}

class AssignKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    validate_shape_ = init.Attr<bool>("validate_shape");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const RefPtr<Variable> variable = c.input_slot(0).reference;
    TANDEM_RETURN_IF_ERROR(CheckType({variable, nullptr}, c.input(1).dtype()));
    {
      MutexLock lock(variable->mu());
      const Tensor& old = variable->value();
      const PartialShape wanted = old.is_valid() ? PartialShape(old.shape()) : variable->shape();
      if (validate_shape_ && !wanted.IsCompatibleWith(c.input(1).shape())) {
        return errors::InvalidArgument("the variable has shape ", wanted.DebugString(),
                                       " and the new value ", c.input(1).shape().DebugString(),
                                       "; they must be the same unless validate_shape is false");
      }
      TANDEM_RETURN_IF_ERROR(Store(c, 1, *variable));
    }
    c.SetOutputReference(0, variable);
    return absl::OkStatus();
  }

 private:
  bool validate_shape_ = true;
};

TANDEM_OP("VariableV2")
    .Outputs("ref:ref dtype")
    .Attrs("shape:shape; dtype:type; container:string=\"\"; shared_name:string=\"\"")
    .Stateful()
    .Cheap()
    .Shape(DeclaredShape)
    .Cpu(Make<VariableKernel>());

TANDEM_OP("Variable")
    .Outputs("ref:ref dtype")
    .Attrs("shape:shape; dtype:type; container:string=\"\"; shared_name:string=\"\"")
    .Stateful()
    .Cheap()
    .Shape(FirstVersionDeclaredShape)
    .Cpu(Make<VariableKernel>());

TANDEM_OP("IsVariableInitialized")
    .Inputs("ref:ref dtype")
    .Outputs("is_initialized:bool")
    .Attrs("dtype:type")
    .AllowsUninitializedInput()
    .Cheap()
    .Shape(ScalarShape)
    .HostMemory({"is_initialized"})
    .Cpu(Function(IsInitialized));

TANDEM_OP("Assign")
    .Inputs("ref:ref T, value:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type; validate_shape:bool=True; use_locking:bool=True")
    .AllowsUninitializedInput()
    .Shape(AssignShape)
    .NotDifferentiable()
    .Cpu(Make<AssignKernel>("T", array::AllTypes()));

}  // namespace
}  // namespace tandem::state
