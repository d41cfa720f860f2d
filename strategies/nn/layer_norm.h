#ifndef TANDEM_STRATEGIES_NN_LAYER_NORM_H_
#define TANDEM_STRATEGIES_NN_LAYER_NORM_H_

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct LayerNormOptions {
  double epsilon = 1e-3;  // Positive.
  bool center = true;     // Adds beta.
  bool scale = true;      // Multiplies with gamma.
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
};
// Normalizes the last dimension of each example by itself (Ba, Kiros and Hinton 2016):
// y = (x - mean) / sqrt(variance + epsilon) · gamma + beta.
// Variables: gamma, beta [features].
LayerPtr LayerNorm(LayerNormOptions options = {});

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LAYER_NORM_H_
