#ifndef TANDEM_STRATEGIES_NN_RESHAPE_H_
#define TANDEM_STRATEGIES_NN_RESHAPE_H_

#include <vector>

#include "strategies/nn/base.h"

namespace tandem::nn {

// [batch, a, b, …] to [batch, a·b·…]. Takes any type.
LayerPtr Flatten();

// [batch, …] to [batch, sizes…]. One size may be -1: what is left. Takes any type.
LayerPtr Reshape(std::vector<int64_t> sizes);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_RESHAPE_H_
