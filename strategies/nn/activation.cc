#include "strategies/nn/activation.h"

#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {
namespace {

using ActivationFunction = std::function<Output(const Scope& scope, Output x)>;

ActivationFunction Op(const char* op, AttrMap attrs = {}) {
  return [op, attrs](const Scope& scope, Output x) { return scope.Call(op, {x}, attrs); };
}

// x Φ(x) (Hendrycks and Gimpel 2016).
Output Gelu(const Scope& scope, Output x) {
  const Output erf = scope.Call("Erf", {scope.Call("Mul", {x, 0.70710678118654752f})});
  return scope.Call("Mul", {scope.Call("Mul", {x, 0.5f}), scope.Call("AddV2", {erf, 1.0f})});
}

Output Silu(const Scope& scope, Output x) {
  return scope.Call("Mul", {x, scope.Call("Sigmoid", {x})});
}

Output HardSigmoid(const Scope& scope, Output x) {
  return scope.Call("Mul", {scope.Call("Relu6", {scope.Call("AddV2", {x, 3.0f})}), 1.0f / 6});
}

const std::map<std::string, ActivationFunction>& Activations() {
  static const auto& table = *new std::map<std::string, ActivationFunction>({
      {"linear", [](const Scope&, Output x) { return x; }},
      {"elu", Op("Elu")},
      {"exponential", Op("Exp")},
      {"gelu", Gelu},
      {"hard_sigmoid", HardSigmoid},
      {"leaky_relu", Op("LeakyRelu", {{"alpha", 0.2f}})},
      {"log_softmax", Op("LogSoftmax")},
      {"relu", Op("Relu")},
      {"relu6", Op("Relu6")},
      {"selu", Op("Selu")},
      {"sigmoid", Op("Sigmoid")},
      {"silu", Silu},
      {"softmax", Op("Softmax")},
      {"softplus", Op("Softplus")},
      {"softsign", Op("Softsign")},
      {"swish", Silu},
      {"tanh", Op("Tanh")},
  });
  return table;
}

}  // namespace

absl::StatusOr<Output> Activate(const Scope& scope, const std::string& name, Output x, bool fused) {
  if (name.empty()) return x;
  if (fused && name == "gelu") return scope.Call("_TandemGelu", {x});
  const auto found = Activations().find(name);
  if (found == Activations().end()) {
    return errors::InvalidArgument(
        "there is no activation '", name, "'; there are ",
        absl::StrJoin(Activations(), ", ",
                      [](std::string* out, const auto& entry) { out->append(entry.first); }));
  }
  return found->second(scope, x);
}

LayerPtr Activation(std::string name) {
  return MakeLayer("activation", [name = std::move(name)](const LayerCall& call) {
    return call.Activated(name, call.input());
  });
}

}  // namespace tandem::nn
