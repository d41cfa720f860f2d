#include "strategies/nn/merge.h"

#include "strategies/nn/layer_call.h"

namespace tandem::nn {

LayerPtr Add() {
  return MakeLayer("add",
                   [](const LayerCall& call) -> absl::StatusOr<Output> {
                     Output sum = call.input();
                     for (size_t i = 1; i < call.inputs().size(); ++i) {
                       const Output next = call.inputs()[i];
                       if (!next.shape().IsCompatibleWith(call.shape())) {
                         return call.Error("its input 0 has the shape ", call.shape().DebugString(),
                                           " and input ", i, " ", next.shape().DebugString(),
                                           "; to be added they must be equal");
                       }
                       sum = call.scope().Call("AddV2", {sum, next});
                     }
                     return sum;
                   },
                   {.max_inputs = 0});
}

LayerPtr Concatenate(int axis) {
  return MakeLayer("concatenate",
                   [axis](const LayerCall& call) -> absl::StatusOr<Output> {
                     const PartialShape& first = call.shape();
                     if (!first.has_rank()) return call.ShapeError("of a rank that is known");
                     const int at = axis < 0 ? axis + first.rank() : axis;
                     if (at < 1 || at >= first.rank()) {
                       return call.Error("its axis is ", axis, ", which an input of the shape ",
                                         first.DebugString(), " has not (0 is the batch)");
                     }
                     InputList values;
                     for (const Output& input : call.inputs()) {
                       PartialShape wanted = first;
                       wanted.SetDim(at, PartialShape::kUnknownDim);
                       if (!input.shape().IsCompatibleWith(wanted)) {
                         return call.Error("an input has the shape ", input.shape().DebugString(),
                                           "; to be joined with ", first.DebugString(),
                                           " along axis ", at, " it must be ",
                                           wanted.DebugString());
                       }
                       values.emplace_back(input);
                     }
                     values.emplace_back(Tensor::Scalar<int32_t>(at));
                     return call.scope().Call("ConcatV2", values);
                   },
                   {.max_inputs = 0});
}

}  // namespace tandem::nn
