#ifndef TANDEM_STRATEGIES_NN_POOLING_H_
#define TANDEM_STRATEGIES_NN_POOLING_H_

#include <array>
#include <string>

#include "strategies/nn/base.h"

namespace tandem::nn {

struct Pool2DOptions {
  std::array<int64_t, 2> pool = {2, 2};
  std::array<int64_t, 2> strides = {0, 0};  // 0: as `pool`.
  std::string padding = "VALID";            // Or "SAME".
};
// The greatest value of each window of images [batch, height, width, channels].
LayerPtr MaxPool2D(Pool2DOptions options = {});
// The mean of each window. Padding does not count.
LayerPtr AveragePool2D(Pool2DOptions options = {});

struct GlobalPoolOptions {
  bool keep_dims = false;  // Gives [batch, 1, 1, channels].
};
// The mean over all pixels: [batch, height, width, channels] to [batch, channels].
LayerPtr GlobalAveragePool2D(GlobalPoolOptions options = {});

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_POOLING_H_
