#ifndef TANDEM_STRATEGIES_NN_DENSE_H_
#define TANDEM_STRATEGIES_NN_DENSE_H_

#include <string>

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct DenseOptions {
  int64_t units = 0;
  std::string activation = "";  // activation.h; empty: none.
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
};
// y = activation(x kernel + bias), over the last dimension of [batch, …, features].
// Variables: kernel [features, units], bias [units].
LayerPtr Dense(DenseOptions options);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_DENSE_H_
