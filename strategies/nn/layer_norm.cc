#include "strategies/nn/layer_norm.h"

#include <utility>

#include "strategies/nn/layer_call.h"

namespace tandem::nn {

LayerPtr LayerNorm(LayerNormOptions options) {
  return MakeLayer(
      "layer_norm",
      [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.RequireEpsilon(options.epsilon));
        TANDEM_ASSIGN_OR_RETURN(const int64_t features, call.LastSize(2));
        const Scope& scope = call.scope();
        if (call.options().fused && options.scale && options.center) {
          TANDEM_ASSIGN_OR_RETURN(const Output gamma, call.Variable("gamma", Shape({features}),
                                                                    options.gamma_initializer));
          TANDEM_ASSIGN_OR_RETURN(const Output beta, call.Variable("beta", Shape({features}),
                                                                   options.beta_initializer));
          return scope.Call("_TandemLayerNorm", {call.input(), gamma, beta},
                            {{"epsilon", static_cast<float>(options.epsilon)}});
        }
        const Tensor last = Tensor::Vector<int32_t>({-1});
        const AttrMap keep = {{"keep_dims", true}};
        const Output mean = scope.Call("Mean", {call.input(), last}, keep);
        const Output centered = scope.Call("Sub", {call.input(), mean});
        const Output variance = scope.Call("Mean", {scope.Call("Square", {centered}), last}, keep);
        const Output factor = scope.Call(
            "Rsqrt", {scope.Call("AddV2", {variance, static_cast<float>(options.epsilon)})});
        Output y = scope.Call("Mul", {centered, factor});
        if (options.scale) {
          TANDEM_ASSIGN_OR_RETURN(const Output gamma, call.Variable("gamma", Shape({features}),
                                                                    options.gamma_initializer));
          y = scope.Call("Mul", {y, gamma});
        }
        if (options.center) {
          TANDEM_ASSIGN_OR_RETURN(const Output beta, call.Variable("beta", Shape({features}),
                                                                   options.beta_initializer));
          y = scope.Call("AddV2", {y, beta});
        }
        return y;
      });
}

}  // namespace tandem::nn
