// Ops that hand their inputs on, sharing memory: Identity, IdentityN, StopGradient,
// PreventGradient, PlaceholderWithDefault, EnsureShape.
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status HandOn(KernelContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.SetOutput(i, c.TakeInput(i));
  return absl::OkStatus();
}

// Also sparse ones go through unchanged.
absl::Status IdentityGradient(GradientContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (g.HasOutputGradient(i)) g.SetInputGradient(i, g.RawOutputGradient(i));
  }
  return absl::OkStatus();
}

absl::Status PreventGradientGradient(GradientContext& g) {
  return errors::InvalidArgument("no gradient may flow through node '", g.node().name(),
                                 "' (PreventGradient): ", g.Attr<std::string>("message"));
}

absl::Status SameShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(i)));
    if (!c.input_info(i).handle.empty()) c.SetOutputHandle(i, c.input_info(i).handle);
  }
  return absl::OkStatus();
}

absl::Status DefaultShape(ShapeContext& c) {
  const PartialShape& declared = c.Attr<PartialShape>("shape");
  TANDEM_RETURN_IF_ERROR(declared.MergeWith(c.input(0)).status());
  // What is fed need not have the default's shape.
  return c.SetOutput(0, declared);
}

absl::Status EnsuredShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, c.Attr<PartialShape>("shape").MergeWith(c.input(0)));
  return c.SetOutput(0, std::move(shape));
}

class EnsureShapeKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    shape_ = init.Attr<PartialShape>("shape");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    if (!shape_.IsCompatibleWith(c.input(0).shape())) {
      return errors::InvalidArgument("the tensor has shape ", c.input(0).shape().DebugString(),
                                     "; the node ensures ", shape_.DebugString());
    }
    return HandOn(c);
  }

 private:
  PartialShape shape_;
};

TANDEM_OP("Identity")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Cheap()
    .Shape(UnchangedShape)
    .Gradient(IdentityGradient)
    .Cpu(Function(HandOn));

TANDEM_OP("IdentityN")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:list(type)>=1")
    .Cheap()
    .Shape(SameShapes)
    .Gradient(IdentityGradient)
    .Cpu(Function(HandOn));

TANDEM_OP("StopGradient")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Cheap()
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(Function(HandOn));

TANDEM_OP("PreventGradient")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:type; message:string=\"\"")
    .Cheap()
    .Shape(UnchangedShape)
    .Gradient(PreventGradientGradient)
    .Cpu(Function(HandOn));

TANDEM_OP("PlaceholderWithDefault")
    .Inputs("input:dtype")
    .Outputs("output:dtype")
    .Attrs("dtype:type; shape:shape")
    .Cheap()
    .Shape(DefaultShape)
    .Gradient(IdentityGradient)
    .Cpu(Function(HandOn));

TANDEM_OP("EnsureShape")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("shape:shape; T:type")
    .Cheap()
    .Shape(EnsuredShape)
    .Gradient(IdentityGradient)
    .Cpu(Make<EnsureShapeKernel>());

}  // namespace
}  // namespace tandem
