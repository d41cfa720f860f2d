#include "strategies/nn/pooling.h"

#include <utility>

#include "strategies/nn/layer_call.h"
#include "strategies/nn/window_options.h"

namespace tandem::nn {
namespace {

LayerPtr Pool2D(std::string name, std::string op, Pool2DOptions options) {
  for (size_t i = 0; i < 2; ++i) {
    if (options.strides[i] == 0) options.strides[i] = options.pool[i];
  }
  return MakeLayer(
      std::move(name),
      [op = std::move(op),
       options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        const WindowOptions window{options.pool, options.strides, {1, 1}, options.padding};
        TANDEM_RETURN_IF_ERROR(window.Check(call));
        return call.scope().Call(op, {call.input()},
                                 {{"ksize", ImageSizes(options.pool)},
                                  {"strides", ImageSizes(options.strides)},
                                  {"padding", options.padding}});
      });
}

}  // namespace

LayerPtr MaxPool2D(Pool2DOptions options) {
  return Pool2D("max_pool2d", "MaxPool", std::move(options));
}
LayerPtr AveragePool2D(Pool2DOptions options) {
  return Pool2D("average_pool2d", "AvgPool", std::move(options));
}

LayerPtr GlobalAveragePool2D(GlobalPoolOptions options) {
  return MakeLayer(
      "global_average_pool2d", [options](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.LastSize(4, 4).status());
        return call.scope().Call("Mean", {call.input(), Tensor::Vector<int32_t>({1, 2})},
                                 {{"keep_dims", options.keep_dims}});
      });
}

}  // namespace tandem::nn
