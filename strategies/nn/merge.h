// Layers of several inputs, for the functional form (model.h).
#ifndef TANDEM_STRATEGIES_NN_MERGE_H_
#define TANDEM_STRATEGIES_NN_MERGE_H_

#include "strategies/nn/base.h"

namespace tandem::nn {

// The sum of one or more inputs of equal shape.
LayerPtr Add();

// Inputs one after the other along an axis (negative: from the end; not 0, the batch). All other
// sizes are equal.
LayerPtr Concatenate(int axis = -1);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_MERGE_H_
