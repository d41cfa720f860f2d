// Activations: functions of single elements, and softmax.
//
// By name, as in Keras: relu, relu6, leaky_relu (slope 0.2), elu, selu, gelu (with erf), silu (also
// swish), tanh, sigmoid, hard_sigmoid, softplus, softsign, exponential; softmax and log_softmax
// over the last dimension; linear, or an empty name, for none.
#ifndef TANDEM_STRATEGIES_NN_ACTIVATION_H_
#define TANDEM_STRATEGIES_NN_ACTIVATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/graph/scope.h"
#include "strategies/nn/base.h"

namespace tandem::nn {

// Applies an activation. InvalidArgument lists those that there are. `fused`: CallOptions::fused.
absl::StatusOr<Output> Activate(const Scope& scope, const std::string& name, Output x, bool fused);

// An activation as a layer of its own.
LayerPtr Activation(std::string name);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_ACTIVATION_H_
