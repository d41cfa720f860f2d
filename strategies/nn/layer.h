// Layers: the parts of a model.
//
//   nn::LayerPtr model = nn::Sequential({
//       nn::Conv2D({.filters = 64, .kernel = {3, 3}, .activation = "relu"}),
//       nn::MaxPool2D({.pool = {2, 2}}),
//       nn::Flatten(),
//       nn::Dense({.units = 10}),
//   });
//
// A layer describes computation; it holds no state of a run. Called in a replica function it adds
// its nodes to the graph and creates its variables, whose names are "<path>/<role>":
// "conv2d/kernel", "residual/dense_1/bias". The path is given by whatever contains the layer.
//
// Threads: a layer never changes once it is made; any number of models may be built from it.
#ifndef TANDEM_STRATEGIES_NN_LAYER_H_
#define TANDEM_STRATEGIES_NN_LAYER_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/builder.h"

namespace tandem::nn {

struct CallOptions {
  // Random layers and those with statistics of the batch behave differently while training. Then
  // ReplicaContext::StepSeed and Assign may be used.
  bool training = false;
  // Variables are made, but not trained.
  bool frozen = false;
  // Seeds of initializers and of random layers derive from it and from the layer's path.
  int64_t seed = 1;
};

class Layer {
 public:
  virtual ~Layer() = default;
  // "dense", "conv2d": what the layer is called where nobody named it.
  virtual std::string default_name() const = 0;
  // Adds the layer's nodes. Most layers take one input. InvalidArgument: the inputs do not fit; the
  // message names the path, the shapes and what would fit.
  virtual absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                                      const std::vector<Output>& inputs,
                                      const CallOptions& options) const = 0;
};

using LayerPtr = std::shared_ptr<const Layer>;

struct DenseOptions {
  int64_t units = 0;
  std::string activation;  // See Activate; empty: none.
  bool use_bias = true;
};
// y = activation(x W + b) over the last dimension. W: [inputs, units], Glorot uniform; b: zeros.
LayerPtr Dense(DenseOptions options);

struct Conv2DOptions {
  int64_t filters = 0;
  std::array<int64_t, 2> kernel = {3, 3};
  std::array<int64_t, 2> strides = {1, 1};
  std::string padding = "VALID";  // Or "SAME".
  std::string activation;
  bool use_bias = true;
};
// Over images [batch, height, width, channels]. Kernel: [height, width, channels, filters].
LayerPtr Conv2D(Conv2DOptions options);

struct Pool2DOptions {
  std::array<int64_t, 2> pool = {2, 2};
  std::array<int64_t, 2> strides = {0, 0};  // 0: as `pool`.
  std::string padding = "VALID";
};
LayerPtr MaxPool2D(Pool2DOptions options = {});
LayerPtr AveragePool2D(Pool2DOptions options = {});

// [batch, a, b, …] to [batch, a·b·…].
LayerPtr Flatten();
// The activation alone.
LayerPtr Activation(std::string name);

// One layer after the other. Those of equal default name are numbered: "dense", "dense_1", …
LayerPtr Sequential(std::vector<LayerPtr> layers);

// Applies an activation by name: relu, relu6, elu, selu, tanh, sigmoid, softplus, softsign,
// softmax, linear or "". InvalidArgument lists those that there are.
absl::StatusOr<Output> Activate(const Scope& scope, const std::string& name, Output x);

// Initial values. `seed` decides the bits.
std::function<Output(const Scope&)> Zeros(DataType dtype, Shape shape);
// Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
std::function<Output(const Scope&)> GlorotUniform(Shape shape, int64_t fan_in, int64_t fan_out,
                                                  int64_t seed);
// A seed for what is called `name`, from a model's seed: the same in every process.
int64_t SeedFor(int64_t seed, absl::string_view name);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LAYER_H_
