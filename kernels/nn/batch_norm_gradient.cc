#include "kernels/nn/batch_norm_gradient.h"

#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace tandem {
namespace {

// Arithmetic on float images and on vectors with a number for each channel, in one layout.
class Channelwise {
 public:
  Channelwise(GradientContext& g, const std::string& data_format) : g_(g) {
    const int rank = data_format.size() == 5 ? 5 : 4;
    const bool channels_first = data_format[1] == 'C';
    std::vector<int32_t> axes;
    std::vector<int32_t> shape = {-1};
    for (int i = 0; i < rank; ++i) {
      if (i != (channels_first ? 1 : rank - 1)) axes.push_back(i);
    }
    if (channels_first) shape.resize(static_cast<size_t>(rank) - 1, 1);
    axes_ = g.Constant(Tensor::Vector<int32_t>(absl::MakeConstSpan(axes)));
    shape_ = g.Constant(Tensor::Vector<int32_t>(absl::MakeConstSpan(shape)));
  }

  Output Mul(Output a, Output b) { return g_.Call("Mul", {a, b}); }
  Output Add(Output a, Output b) { return g_.Call("AddV2", {a, b}); }
  Output Sub(Output a, Output b) { return g_.Call("Sub", {a, b}); }
  // The mean of each channel, shaped so that it broadcasts.
  Output Mean(Output a) { return g_.Call("Mean", {a, axes_}, {{"keep_dims", true}}); }
  // The sum of each channel, a vector.
  Output Sum(Output a) { return g_.Call("Sum", {a, axes_}); }
  // A vector shaped so that it broadcasts.
  Output Spread(Output vector) { return g_.Call("Reshape", {vector, shape_}); }
  Output Float(Output a) {
    return a.valid() && a.dtype() != kFloat32 ? g_.Call("Cast", {a}, {{"DstT", kFloat32}}) : a;
  }
  Output Like(Output a, Output like) {
    return a.valid() && like.dtype() != kFloat32 ? g_.Call("Cast", {a}, {{"DstT", like.dtype()}})
                                                 : a;
  }

 private:
  GradientContext& g_;
  Output axes_;
  Output shape_;
};

}  // namespace

absl::Status BatchNormGradient(GradientContext& g) {
  const bool training = g.Attr<bool>("is_training");
  // Without training, mean and variance are inputs; with it, they were computed.
  const Output mean = training ? g.output(3) : g.input(3);
  const Output variance = training ? g.output(4) : g.input(4);
  const std::vector<Output> d =
      g.CallMulti("FusedBatchNormGradV3",
                  {g.OutputGradient(0), g.input(0), g.input(1), mean, variance, g.output(5)},
                  {{"epsilon", g.Attr<float>("epsilon")},
                   {"data_format", g.Attr<std::string>("data_format")},
                   {"is_training", training}});
  for (size_t i = 0; i < 3 && i < d.size(); ++i) g.SetInputGradient(static_cast<int>(i), d[i]);
  return absl::OkStatus();
}

// The op computes, with r = 1 / sqrt(variance + epsilon), h = (x - mean) r and E the mean over a
// channel,
//   dx = scale r (dy - E(dy) - h E(dy h)),  dscale = sum(dy h),  doffset = sum(dy).
// Let a, b, c be the gradients with respect to these three. The map from dy to dx is its own
// adjoint:
//   to dy:     scale r (a - E(a) - h E(a h)) + b h + c
//   to scale:  sum(a r (dy - E(dy) - h E(dy h)))
//   to x:      r (w - E(w) - h E(w h)) - scale r² h q, where
//              w = b dy - scale r (a E(dy h) + dy E(a h)) is what arrives at h, and
//              q = E(a dy) - E(a) E(dy) - E(a h) E(dy h) is what arrives at r, by way of dr/dx.
// Without training mean and variance are constants, and dx = scale r dy.
absl::Status BatchNormSecondGradient(GradientContext& g) {
  Channelwise ops(g, g.Attr<std::string>("data_format"));
  const bool training = g.Attr<bool>("is_training");
  const Output dy = ops.Float(g.input(0));
  const Output x = ops.Float(g.input(1));
  const Output scale = ops.Spread(g.input(2));
  const Output mean = ops.Spread(g.input(3));
  const Output variance = ops.Spread(g.input(4));
  const Output a = ops.Float(g.OutputGradient(0));
  const Output b = ops.Spread(g.OutputGradient(1));
  const Output c = ops.Spread(g.OutputGradient(2));

  const Output r =
      g.Call("Rsqrt", {ops.Add(variance, g.Scalar(kFloat32, g.Attr<float>("epsilon")))});
  const Output h = ops.Mul(ops.Sub(x, mean), r);
  const Output scale_r = ops.Mul(scale, r);
  Output to_dy;
  Output to_x;
  Output to_scale;
  if (!training) {
    to_dy = ops.Mul(scale_r, a);
    to_x = ops.Mul(ops.Mul(b, dy), r);
    to_scale = ops.Sum(ops.Mul(ops.Mul(a, dy), r));
  } else {
    // v - E(v) - h E(v h), with the means given.
    const auto project = [&](Output v, Output mean_v, Output mean_vh) {
      return ops.Sub(ops.Sub(v, mean_v), ops.Mul(h, mean_vh));
    };
    const Output mean_a = ops.Mean(a);
    const Output mean_ah = ops.Mean(ops.Mul(a, h));
    const Output mean_dy = ops.Mean(dy);
    const Output mean_dyh = ops.Mean(ops.Mul(dy, h));
    to_dy = ops.Mul(scale_r, project(a, mean_a, mean_ah));
    to_scale = ops.Sum(ops.Mul(ops.Mul(a, r), project(dy, mean_dy, mean_dyh)));
    const Output arrives = ops.Add(ops.Mul(a, mean_dyh), ops.Mul(dy, mean_ah));
    const Output w = ops.Sub(ops.Mul(b, dy), ops.Mul(scale_r, arrives));
    const Output q = ops.Sub(ops.Sub(ops.Mean(ops.Mul(a, dy)), ops.Mul(mean_a, mean_dy)),
                             ops.Mul(mean_ah, mean_dyh));
    const Output through_h = ops.Mul(r, project(w, ops.Mean(w), ops.Mean(ops.Mul(w, h))));
    to_x = ops.Sub(through_h, ops.Mul(ops.Mul(ops.Mul(scale_r, r), q), h));
  }
  to_dy = ops.Add(to_dy, ops.Add(ops.Mul(b, h), c));
  g.SetInputGradient(0, ops.Like(to_dy, g.input(0)));
  g.SetInputGradient(1, ops.Like(to_x, g.input(1)));
  g.SetInputGradient(2, to_scale);
  return absl::OkStatus();
}

}  // namespace tandem
