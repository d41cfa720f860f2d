#include "strategies/nn/convolution.h"

#include <utility>

#include "strategies/nn/layer_call.h"
#include "strategies/nn/window_options.h"

namespace tandem::nn {
namespace {

// The end of both: bias and activation over `channels` of y.
template <typename Options>
absl::StatusOr<Output> Finish(const LayerCall& call, const Options& options, int64_t channels,
                              Output y) {
  if (options.use_bias) {
    TANDEM_ASSIGN_OR_RETURN(const Output bias,
                            call.Variable("bias", Shape({channels}), options.bias_initializer));
    y = call.scope().Call("BiasAdd", {y, bias});
  }
  TANDEM_RETURN_IF_ERROR(call.scope().status());
  return call.Activated(options.activation, y);
}

template <typename Options>
AttrMap WindowAttrs(const Options& options) {
  return {{"strides", ImageSizes(options.strides)},
          {"dilations", ImageSizes(options.dilations)},
          {"padding", options.padding}};
}

}  // namespace

LayerPtr Conv2D(Conv2DOptions options) {
  return MakeLayer(
      "conv2d", [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("filters", options.filters));
        const WindowOptions window{options.kernel, options.strides, options.dilations,
                                   options.padding};
        TANDEM_RETURN_IF_ERROR(window.Check(call));
        TANDEM_ASSIGN_OR_RETURN(const int64_t channels, call.LastSize(4, 4));
        TANDEM_ASSIGN_OR_RETURN(const Shape shape,
                                call.ShapeOf("kernel", {options.kernel[0], options.kernel[1],
                                                        channels, options.filters}));
        TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                                call.Variable("kernel", shape, options.kernel_initializer));
        const Output y = call.scope().Call("Conv2D", {call.input(), kernel}, WindowAttrs(options));
        return Finish(call, options, options.filters, y);
      });
}

LayerPtr DepthwiseConv2D(DepthwiseConv2DOptions options) {
  return MakeLayer(
      "depthwise_conv2d",
      [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("depth_multiplier", options.depth_multiplier));
        const WindowOptions window{options.kernel, options.strides, options.dilations,
                                   options.padding};
        TANDEM_RETURN_IF_ERROR(window.Check(call));
        if (options.strides[0] != options.strides[1]) {
          return call.Error("its strides are ", options.strides[0], " and ", options.strides[1],
                            "; they must be equal");
        }
        TANDEM_ASSIGN_OR_RETURN(const int64_t channels, call.LastSize(4, 4));
        TANDEM_ASSIGN_OR_RETURN(const Shape shape,
                                call.ShapeOf("kernel", {options.kernel[0], options.kernel[1],
                                                        channels, options.depth_multiplier}));
        TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                                call.Variable("kernel", shape, options.kernel_initializer));
        const Output y = call.scope().Call("DepthwiseConv2dNative", {call.input(), kernel},
                                           WindowAttrs(options));
        return Finish(call, options, channels * options.depth_multiplier, y);
      });
}

}  // namespace tandem::nn
