#ifndef TANDEM_STRATEGIES_NN_CONVOLUTION_H_
#define TANDEM_STRATEGIES_NN_CONVOLUTION_H_

#include <array>
#include <string>

#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

struct Conv2DOptions {
  int64_t filters = 0;
  std::array<int64_t, 2> kernel = {3, 3};
  std::array<int64_t, 2> strides = {1, 1};
  std::array<int64_t, 2> dilations = {1, 1};
  std::string padding = "VALID";  // Or "SAME".
  std::string activation = "";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
};
// Convolution over images [batch, height, width, channels].
// Variables: kernel [height, width, channels, filters], bias [filters].
LayerPtr Conv2D(Conv2DOptions options);

struct DepthwiseConv2DOptions {
  std::array<int64_t, 2> kernel = {3, 3};
  std::array<int64_t, 2> strides = {1, 1};  // Both equal.
  std::array<int64_t, 2> dilations = {1, 1};
  int64_t depth_multiplier = 1;  // Outputs of each channel.
  std::string padding = "VALID";
  std::string activation = "";
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
};
// Convolves each channel with filters of its own. Output c · depth_multiplier + m is channel c's.
// Variables: kernel [height, width, channels, depth_multiplier], bias [channels ·
// depth_multiplier].
LayerPtr DepthwiseConv2D(DepthwiseConv2DOptions options);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_CONVOLUTION_H_
