#include "strategies/nn/sequential.h"

#include <utility>

#include "strategies/nn/layer_call.h"
#include "strategies/nn/layer_paths.h"

namespace tandem::nn {
namespace {

absl::StatusOr<Output> InOrder(const LayerCall& call, const std::vector<LayerPtr>& layers) {
  LayerPaths paths(call.path());
  std::vector<Output> values = call.inputs();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == nullptr) {
      return call.Error("number ", i, " of its ", layers.size(), " layers is null");
    }
    const LayerPaths::Use use = paths.Next(layers[i], call.options());
    TANDEM_ASSIGN_OR_RETURN(const Output y,
                            layers[i]->Call(call.replica(), use.path, values, use.options));
    TANDEM_RETURN_IF_ERROR(call.replica().scope().status());
    values = {y};
  }
  if (values.size() != 1) {
    return call.Error("it got ", values.size(), " inputs and has no layer to take them");
  }
  return values[0];
}

}  // namespace

LayerPtr Sequential(std::vector<LayerPtr> layers) {
  return MakeLayer(
      "sequential",
      [layers = std::move(layers)](const LayerCall& call) { return InOrder(call, layers); },
      {.max_inputs = 0, .floating_point = false});
}

LayerPtr Residual(std::vector<LayerPtr> layers) {
  return MakeLayer(
      "residual", [layers = std::move(layers)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_ASSIGN_OR_RETURN(const Output y, InOrder(call, layers));
        if (!y.shape().IsCompatibleWith(call.shape()) || y.dtype() != call.input().dtype()) {
          return call.Error("its layers make ", DataTypeName(y.dtype()), y.shape().DebugString(),
                            " of ", DataTypeName(call.input().dtype()), call.shape().DebugString(),
                            "; to be added to their input they must keep type and shape");
        }
        return call.scope().Call("AddV2", {call.input(), y});
      });
}

}  // namespace tandem::nn
