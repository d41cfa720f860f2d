#include "strategies/nn/dropout.h"

#include "strategies/nn/dropout_mask.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {

absl::StatusOr<Output> Drop(const LayerCall& call, double rate, Output x) {
  if (!(rate >= 0 && rate < 1)) {
    return call.Error("the rate of values to drop is ", rate, "; it must lie in [0, 1)");
  }
  if (!call.options().training || rate == 0) return x;
  if (!call.replica().has_step()) {
    return errors::FailedPrecondition("layer '", call.path(),
                                      "' drops values while training, for which the step needs a "
                                      "number (StrategyBuilder::BeginStep)");
  }
  const Scope& scope = call.scope();
  const Output seed = call.replica().WithScope(scope).StepSeed(
      SeedFor(call.options().seed, call.NameOf("dropped")));
  const Output uniform =
      scope.Call("StatelessRandomUniform", {scope.Call("Shape", {x}), seed}, {{"dtype", kFloat32}});
  const Output keep = scope.Call("GreaterEqual", {uniform, static_cast<float>(rate)});
  // A choice and no product: what is dropped may be infinite.
  return scope.Call("SelectV2",
                    {keep, scope.Call("Mul", {x, static_cast<float>(1 / (1 - rate))}), 0.0f});
}

LayerPtr Dropout(DropoutOptions options) {
  return MakeLayer("dropout", [options](const LayerCall& call) {
    return Drop(call, options.rate, call.input());
  });
}

}  // namespace tandem::nn
