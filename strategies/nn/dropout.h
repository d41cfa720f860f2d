#ifndef TANDEM_STRATEGIES_NN_DROPOUT_H_
#define TANDEM_STRATEGIES_NN_DROPOUT_H_

#include "strategies/nn/base.h"

namespace tandem::nn {

struct DropoutOptions {
  double rate = 0.5;  // In [0, 1): the part of the values that become 0.
};
// While training, sets values to 0 at random and divides the others by 1 - rate (Srivastava and
// others 2014); else gives its input. What is dropped differs by step and replica and follows from
// the model's seed.
LayerPtr Dropout(DropoutOptions options = {});

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_DROPOUT_H_
