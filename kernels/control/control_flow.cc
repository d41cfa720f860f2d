// The control flow of TensorFlow 1: Switch, Merge, and the frames of loops.
//
// The executor itself moves the values of Merge, Enter, Exit and NextIteration between iterations
// (runtime/executor/frame_run.h); their kernels here stand for a plan that needs no frames, and
// tell placement on which devices and types they exist.
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status SwitchShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  return UnchangedShape(c);
}

// Hands input `i` to output `j`, whether it is a value or a reference.
void Pass(KernelContext& c, int i, int j) {
  Slot& slot = c.input_slot(i);
  if (slot.state == Slot::State::kReference) {
    c.SetOutputReference(j, slot.reference);
  } else {
    c.SetOutput(j, c.TakeInput(i));
  }
}

absl::Status Switch(KernelContext& c) {
  const Tensor& predicate = c.input(1);
  if (!predicate.shape().IsScalar()) {
    return errors::InvalidArgument("the predicate of a Switch must be a scalar; it has shape ",
                                   predicate.shape().DebugString());
  }
  const int taken = predicate.ScalarValue<bool>() ? 1 : 0;
  Pass(c, 0, taken);
  c.SetOutputDead(1 - taken);
  return absl::OkStatus();
}

absl::Status SwitchN(KernelContext& c) {
  const Tensor& index = c.input(1);
  if (!index.shape().IsScalar()) {
    return errors::InvalidArgument("the index of a _SwitchN must be a scalar; it has shape ",
                                   index.shape().DebugString());
  }
  const int32_t wished = index.ScalarValue<int32_t>();
  // As in a Case: what is out of range takes the last branch.
  const int last = c.num_outputs() - 1;
  const int taken = wished < 0 || wished > last ? last : wished;
  Pass(c, 0, taken);
  for (int i = 0; i <= last; ++i) {
    if (i != taken) c.SetOutputDead(i);
  }
  return absl::OkStatus();
}

absl::Status Forward(KernelContext& c) {
  Pass(c, 0, 0);
  return absl::OkStatus();
}

absl::Status Merge(KernelContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Slot::State state = c.input_slot(i).state;
    if (state != Slot::State::kValue && state != Slot::State::kReference) continue;
    Pass(c, i, 0);
    c.SetOutput(1, Tensor::Scalar<int32_t>(i));
    return absl::OkStatus();
  }
  return errors::Internal("a Merge ran although none of its inputs is there");
}

absl::Status MergeShape(ShapeContext& c) {
  // Values of all inputs may come out: what they have in common is known. An input that is not
  // connected yet (the back edge of a loop) may bring anything of the same rank, at least as
  // Enter's.
  PartialShape shape = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    const PartialShape& other = c.input(i);
    if (!shape.has_rank() || !other.has_rank() || shape.rank() != other.rank()) {
      shape = PartialShape::Unknown();
      break;
    }
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) != other.dim(d)) shape.SetDim(d, PartialShape::kUnknownDim);
    }
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, std::move(shape)));
  if (!c.input_info(0).handle.empty()) c.SetOutputHandle(0, c.input_info(0).handle);
  return c.SetOutput(1, PartialShape(Shape::Scalar()));
}

// A value that is the same in every iteration keeps its shape; others may change it on the way
// round.
absl::Status EnterShape(ShapeContext& c) { return UnchangedShape(c); }

absl::Status LoopCondShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 0));
  return ScalarShape(c);
}

// A value that went through one branch: its gradient comes back from the branch that was taken.
absl::Status SwitchGradient(GradientContext& g) {
  // The other branch's gradient is dead there; zeros stand in where no gradient exists at all, and
  // they must come out of the branch itself to be dead or alive with it.
  const Output if_false = g.OutputGradient(0);
  const Output if_true = g.OutputGradient(1);
  g.SetInputGradient(0, g.Call("Merge", {if_false, if_true}));
  return absl::OkStatus();
}

absl::Status MergeGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output index = g.output(1);
  for (int i = 0; i < g.num_inputs(); ++i) {
    const Output is_mine = g.Call("Equal", {index, g.Constant(Tensor::Scalar<int32_t>(i))});
    const std::vector<Output> branches = g.CallMulti("Switch", {dy, is_mine});
    if (branches.size() == 2) g.SetInputGradient(i, branches[1]);
  }
  return absl::OkStatus();
}

absl::Status PassGradient(GradientContext& g) {
  g.SetInputGradient(0, g.RawOutputGradient(0));
  return absl::OkStatus();
}

// The gradient of a while loop of TensorFlow 1 needs the loop's history, which only a rewrite of
// the whole loop can keep; While has one.
absl::Status LoopGradient(GradientContext& g) {
  return errors::Unimplemented("node '", g.node().name(), "' (", g.node().type(),
                               "): gradients through loops made of Enter, Exit and NextIteration "
                               "are not supported; build the loop with While");
}

TANDEM_OP("Switch")
    .Inputs("data:T, pred:bool")
    .Outputs("output_false:T, output_true:T")
    .Attrs("T:type")
    .Shape(SwitchShape)
    .Gradient(SwitchGradient)
    .HostMemory({"pred"})
    .Cheap()
    .Cpu(Function(Switch));

TANDEM_OP("RefSwitch")
    .Inputs("data:ref T, pred:bool")
    .Outputs("output_false:ref T, output_true:ref T")
    .Attrs("T:type")
    .AllowsUninitializedInput()
    .Shape(SwitchShape)
    .Gradient(SwitchGradient)
    .HostMemory({"pred"})
    .Cheap()
    .Cpu(Function(Switch));

TANDEM_OP("_SwitchN")
    .Inputs("data:T, output_index:int32")
    .Outputs("outputs:num_outs*T")
    .Attrs("num_outs:int>=1; T:type")
    .Shape(SwitchShape)
    .HostMemory({"output_index"})
    .Cheap()
    .Cpu(Function(SwitchN));

TANDEM_OP("Merge")
    .Inputs("inputs:N*T")
    .Outputs("output:T, value_index:int32")
    .Attrs("T:type; N:int>=1")
    .Shape(MergeShape)
    .Gradient(MergeGradient)
    .HostMemory({"value_index"})
    .Cheap()
    .Cpu(Function(Merge));

TANDEM_OP("RefMerge")
    .Inputs("inputs:ref N*T")
    .Outputs("output:ref T, value_index:int32")
    .Attrs("T:type; N:int>=1")
    .Shape(MergeShape)
    .Gradient(MergeGradient)
    .HostMemory({"value_index"})
    .Cheap()
    .Cpu(Function(Merge));

TANDEM_OP("Enter")
    .Inputs("data:T")
    .Outputs("output:T")
    .Attrs("T:type; frame_name:string; is_constant:bool=False; parallel_iterations:int=10")
    .Shape(EnterShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("RefIdentity")
    .Inputs("input:ref T")
    .Outputs("output:ref T")
    .Attrs("T:type")
    .AllowsUninitializedInput()
    .Shape(UnchangedShape)
    .Gradient(PassGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("RefEnter")
    .Inputs("data:ref T")
    .Outputs("output:ref T")
    .Attrs("T:type; frame_name:string; is_constant:bool=False; parallel_iterations:int=10")
    .Shape(EnterShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("Exit")
    .Inputs("data:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Shape(UnchangedShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("RefExit")
    .Inputs("data:ref T")
    .Outputs("output:ref T")
    .Attrs("T:type")
    .Shape(UnchangedShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("NextIteration")
    .Inputs("data:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Shape(UnchangedShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("RefNextIteration")
    .Inputs("data:ref T")
    .Outputs("output:ref T")
    .Attrs("T:type")
    .Shape(UnchangedShape)
    .Gradient(LoopGradient)
    .Cheap()
    .Cpu(Function(Forward));

TANDEM_OP("LoopCond")
    .Inputs("input:bool")
    .Outputs("output:bool")
    .Shape(LoopCondShape)
    .Gradient(LoopGradient)
    .HostMemory({"input", "output"})
    .Cheap()
    .Cpu(Function(Forward));

}  // namespace
}  // namespace tandem
