#include "strategies/nn/batch_norm.h"

#include <utility>

#include "strategies/nn/layer_call.h"

namespace tandem::nn {
namespace {

class Normalization {
 public:
  Normalization(const LayerCall& call, const BatchNormOptions& options, int64_t channels)
      : call_(call), scope_(call.scope()), options_(options), channels_(channels) {}

  absl::StatusOr<Output> Build() {
    TANDEM_RETURN_IF_ERROR(MakeVariables());
    const bool training = call_.options().training && !call_.options().frozen;
    if (!training) return WithMovingStatistics();
    // Values of each channel in this replica.
    count_ = scope_.Call("RealDiv", {scope_.Call("Cast", {scope_.Call("Size", {call_.input()})},
                                                 {{"DstT", kFloat32}}),
                                     static_cast<float>(channels_)});
    return options_.synchronized ? OverAllReplicas() : OverThisReplica();
  }

 private:
  absl::Status MakeVariables() {
    const Shape shape({channels_});
    if (options_.scale) {
      TANDEM_ASSIGN_OR_RETURN(gamma_, call_.Variable("gamma", shape, options_.gamma_initializer));
    } else {
      gamma_ = AllChannels(1);
    }
    if (options_.center) {
      TANDEM_ASSIGN_OR_RETURN(beta_, call_.Variable("beta", shape, options_.beta_initializer));
    } else {
      beta_ = AllChannels(0);
    }
    TANDEM_ASSIGN_OR_RETURN(
        moving_mean_, call_.Statistic("moving_mean", shape, options_.moving_mean_initializer));
    TANDEM_ASSIGN_OR_RETURN(
        moving_variance_,
        call_.Statistic("moving_variance", shape, options_.moving_variance_initializer));
    mean_before_ = call_.replica().Read(*moving_mean_);
    variance_before_ = call_.replica().Read(*moving_variance_);
    return absl::OkStatus();
  }

  Output AllChannels(float value) const {
    return scope_.Call("Fill", {Tensor::Vector<int64_t>({channels_}), value});
  }

  std::vector<Output> Fused(bool training, const InputList& statistics) const {
    // The op is for images: of everything else, the rows are images of one pixel.
    const bool images = call_.shape().rank() == 4;
    const Output x = call_.input();
    const Output pixels = images ? x : ReshapeLike(scope_, x, x, 0, {-1, 1, 1, channels_});
    std::vector<Output> outputs = scope_.CallMulti(
        "FusedBatchNormV3", {pixels, gamma_, beta_, statistics[0], statistics[1]},
        {{"is_training", training}, {"epsilon", static_cast<float>(options_.epsilon)}});
    if (!images && !outputs.empty()) {
      outputs[0] = ReshapeLike(scope_, outputs[0], x, call_.shape().rank() - 1, {channels_});
    }
    return outputs;
  }

  absl::StatusOr<Output> WithMovingStatistics() const {
    const std::vector<Output> outputs = Fused(false, {mean_before_, variance_before_});
    TANDEM_RETURN_IF_ERROR(scope_.status());
    return outputs[0];
  }

  absl::StatusOr<Output> OverThisReplica() const {
    const Tensor none = Tensor::Zeros(kFloat32, Shape({0}));
    const std::vector<Output> outputs = Fused(true, {none, none});
    TANDEM_RETURN_IF_ERROR(scope_.status());
    // The op gives the unbiased variance, with n - 1.
    const Output to_biased = scope_.Call(
        "RealDiv", {scope_.Call("Sub", {count_, 1.0f}), scope_.Call("Maximum", {count_, 1.0f})});
    TANDEM_RETURN_IF_ERROR(Assign(count_, outputs[1], scope_.Call("Mul", {outputs[2], to_biased})));
    return outputs[0];
  }

  absl::StatusOr<Output> OverAllReplicas() const {
    const Output x = call_.input();
    const Output rows = ReshapeLike(scope_, x, x, 0, {-1, channels_});
    // The variance comes from the sum of squares, so that one reduction does; taken around the
    // moving mean, which is the same in all replicas, little is lost where the mean is far from 0.
    const Output shifted = scope_.Call("Sub", {rows, mean_before_});
    const Tensor axis = Tensor::Vector<int32_t>({0});
    const std::vector<Output> sums = call_.replica().WithScope(scope_).AllReduce(
        Reduction::kSum, {scope_.Call("Sum", {shifted, axis}),
                          scope_.Call("Sum", {scope_.Call("Square", {shifted}), axis}), count_});
    TANDEM_RETURN_IF_ERROR(scope_.status());
    const Output count = scope_.Call("Maximum", {sums[2], 1.0f});
    const Output mean = scope_.Call("RealDiv", {sums[0], count});
    const Output variance =
        scope_.Call("Maximum", {scope_.Call("Sub", {scope_.Call("RealDiv", {sums[1], count}),
                                                    scope_.Call("Square", {mean})}),
                                0.0f});
    const Output factor = scope_.Call(
        "Mul",
        {scope_.Call("Rsqrt",
                     {scope_.Call("AddV2", {variance, static_cast<float>(options_.epsilon)})}),
         gamma_});
    const Output y = scope_.Call(
        "AddV2", {scope_.Call("Mul", {scope_.Call("Sub", {shifted, mean}), factor}), beta_});
    TANDEM_RETURN_IF_ERROR(Assign(sums[2], scope_.Call("AddV2", {mean_before_, mean}), variance));
    return ReshapeLike(scope_, y, x, call_.shape().rank() - 1, {channels_});
  }

  // Moves the moving statistics towards these, if they are of any values.
  absl::Status Assign(Output count, Output mean, Output variance) const {
    const Output any = scope_.Call("Greater", {count, 0.0f});
    const auto moved = [&](Output before, Output now) {
      const float momentum = static_cast<float>(options_.momentum);
      const Output sum = scope_.Call("AddV2", {scope_.Call("Mul", {before, momentum}),
                                               scope_.Call("Mul", {now, 1 - momentum})});
      return scope_.Call("SelectV2", {any, sum, before});
    };
    const Output new_mean = moved(mean_before_, mean);
    const Output new_variance = moved(variance_before_, variance);
    TANDEM_RETURN_IF_ERROR(scope_.status());
    TANDEM_RETURN_IF_ERROR(call_.replica().Assign(*moving_mean_, new_mean));
    return call_.replica().Assign(*moving_variance_, new_variance);
  }

  const LayerCall& call_;
  const Scope& scope_;
  const BatchNormOptions& options_;
  const int64_t channels_;
  Output gamma_;
  Output beta_;
  StrategyVariable* moving_mean_ = nullptr;
  StrategyVariable* moving_variance_ = nullptr;
  Output mean_before_;
  Output variance_before_;
  Output count_;
};

}  // namespace

LayerPtr BatchNorm(BatchNormOptions options) {
  return MakeLayer(
      "batch_norm",
      [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        if (!(options.momentum >= 0 && options.momentum <= 1)) {
          return call.Error("its momentum is ", options.momentum, "; it must lie in [0, 1]");
        }
        TANDEM_RETURN_IF_ERROR(call.RequireEpsilon(options.epsilon));
        TANDEM_ASSIGN_OR_RETURN(const int64_t channels, call.LastSize(2));
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("the number of channels", channels));
        return Normalization(call, options, channels).Build();
      });
}

}  // namespace tandem::nn
