#include "strategies/nn/dense.h"

#include <utility>

#include "strategies/nn/layer_call.h"

namespace tandem::nn {

LayerPtr Dense(DenseOptions options) {
  return MakeLayer(
      "dense", [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("units", options.units));
        TANDEM_ASSIGN_OR_RETURN(const int64_t features, call.LastSize(2));
        TANDEM_ASSIGN_OR_RETURN(const Shape shape,
                                call.ShapeOf("kernel", {features, options.units}));
        TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                                call.Variable("kernel", shape, options.kernel_initializer));
        const int rank = call.shape().rank();
        Output x = call.input();
        if (rank > 2) x = ReshapeLike(call.scope(), x, x, 0, {-1, features});
        Output y = call.scope().Call("MatMul", {x, kernel});
        if (options.use_bias) {
          TANDEM_ASSIGN_OR_RETURN(const Output bias, call.Variable("bias", Shape({options.units}),
                                                                   options.bias_initializer));
          y = call.scope().Call("BiasAdd", {y, bias});
        }
        TANDEM_RETURN_IF_ERROR(call.scope().status());
        if (rank > 2) {
          // The activation comes last: softmax is over the last dimension either way, and before
          // the reshape the product, bias and activation are one kernel.
          TANDEM_ASSIGN_OR_RETURN(y, call.Activated(options.activation, y));
          return ReshapeLike(call.scope(), y, call.input(), rank - 1, {options.units});
        }
        return call.Activated(options.activation, y);
      });
}

}  // namespace tandem::nn
