// The checks that layers with a window over images (convolution, pooling) have in common.
#ifndef TANDEM_STRATEGIES_NN_WINDOW_OPTIONS_H_
#define TANDEM_STRATEGIES_NN_WINDOW_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {

struct WindowOptions {
  std::array<int64_t, 2> size;
  std::array<int64_t, 2> strides;
  std::array<int64_t, 2> dilations = {1, 1};
  std::string padding;

  // InvalidArgument: sizes below 1, an unknown padding, an input that is no images or smaller than
  // the window.
  absl::Status Check(const LayerCall& call) const;
};

// As ops want sizes of NHWC: [1, height, width, 1].
inline std::vector<int64_t> ImageSizes(const std::array<int64_t, 2>& sizes) {
  return {1, sizes[0], sizes[1], 1};
}

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_WINDOW_OPTIONS_H_
