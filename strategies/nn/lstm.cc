#include "strategies/nn/lstm.h"

#include <limits>
#include <utility>

#include "strategies/nn/layer_call.h"

namespace tandem::nn {
namespace {

// `units` values of `others`, as many ones, and twice as many values of `others` again.
Initializer WithUnitForgetBias(Initializer others, int64_t units) {
  return Initializer([others = std::move(others), units](
                         const Shape&, const Fans&, int64_t seed) -> absl::StatusOr<InitialValue> {
    const Shape before({units});
    const Shape after({2 * units});
    TANDEM_ASSIGN_OR_RETURN(const InitialValue first, others.For(before, FansOf(before), seed));
    TANDEM_ASSIGN_OR_RETURN(const InitialValue last, others.For(after, FansOf(after), seed + 1));
    return InitialValue([=](const Scope& scope) {
      const Output ones = scope.Call("Fill", {Tensor::Vector<int64_t>({units}), 1.0f});
      return scope.Call("ConcatV2", {first(scope), ones, last(scope), Tensor::Scalar<int32_t>(0)});
    });
  });
}

absl::StatusOr<Output> CallLstm(const LayerCall& call, const LstmOptions& options) {
  const int64_t units = options.units;
  TANDEM_RETURN_IF_ERROR(call.RequirePositive("units", units));
  if (units > std::numeric_limits<int32_t>::max() / 4) {
    return call.Error("units is ", units, ", which is too many");
  }
  TANDEM_ASSIGN_OR_RETURN(const int64_t features, call.LastSize(3, 3));
  if (call.shape().dim(1) == 0) return call.ShapeError("[batch, steps, features] with a step");
  TANDEM_ASSIGN_OR_RETURN(const Shape kernel_shape, call.ShapeOf("kernel", {features, 4 * units}));
  TANDEM_ASSIGN_OR_RETURN(const Shape recurrent_shape,
                          call.ShapeOf("recurrent_kernel", {units, 4 * units}));
  TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                          call.Variable("kernel", kernel_shape, options.kernel_initializer));
  TANDEM_ASSIGN_OR_RETURN(const Output recurrent, call.Variable("recurrent_kernel", recurrent_shape,
                                                                options.recurrent_initializer));
  const Scope& scope = call.scope();
  const auto zeros = [&](int64_t size) {
    return scope.Call("Fill", {Tensor::Vector<int64_t>({size}), 0.0f});
  };
  Output bias = zeros(4 * units);
  if (options.use_bias) {
    const Initializer initializer = options.unit_forget_bias
                                        ? WithUnitForgetBias(options.bias_initializer, units)
                                        : options.bias_initializer;
    TANDEM_ASSIGN_OR_RETURN(bias, call.Variable("bias", Shape({4 * units}), initializer));
  }
  const Output steps = scope.Call("Squeeze", {SizesOf(scope, call.input(), 1, 2)});
  const Output state = scope.Call(
      "Fill",
      {scope.Call("ConcatV2", {SizesOf(scope, call.input(), 0, 1), Tensor::Vector<int64_t>({units}),
                               Tensor::Scalar<int32_t>(0)}),
       0.0f});
  const Tensor swapped = Tensor::Vector<int32_t>({1, 0, 2});
  const Output x = scope.Call("Transpose", {call.input(), swapped});
  const Output weights = scope.Call("ConcatV2", {kernel, recurrent, Tensor::Scalar<int32_t>(0)});
  const Output peephole = zeros(units);
  const std::vector<Output> outputs = scope.CallMulti(
      "BlockLSTMV2", {steps, x, state, state, weights, peephole, peephole, peephole, bias});
  TANDEM_RETURN_IF_ERROR(scope.status());
  const Output h = outputs[6];  // [steps, batch, units]
  if (options.return_sequences) return scope.Call("Transpose", {h, swapped});
  return scope.Call("StridedSlice",
                    {h, Tensor::Vector<int32_t>({-1}), Tensor::Vector<int32_t>({0}),
                     Tensor::Vector<int32_t>({1})},
                    {{"shrink_axis_mask", int64_t{1}}});
}

}  // namespace

LayerPtr Lstm(LstmOptions options) {
  return MakeLayer("lstm", [options = std::move(options)](const LayerCall& call) {
    return CallLstm(call, options);
  });
}

}  // namespace tandem::nn
