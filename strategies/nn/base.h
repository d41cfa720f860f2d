// Layer: a part of a model. This header has the interface; strategies/nn/layer.h lists the layers.
//
// A layer describes computation; it holds no state of a run. Called in a replica function it adds
// its nodes to the graph and creates its variables, whose names are "<path>/<role>":
// "conv2d/kernel", "residual/dense_1/bias". The path is given by whatever contains the layer.
//
// Threads: a layer never changes once it is made; any number of models may be built from it.
#ifndef TANDEM_STRATEGIES_NN_BASE_H_
#define TANDEM_STRATEGIES_NN_BASE_H_

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
  // A layer may be one op of Tandem's own where TensorFlow has none for it. Not for graphs that
  // TensorFlow shall run, such as those of a SavedModel.
  bool fused = false;
  // Seeds of initializers and of random layers derive from it and from the layer's path.
  int64_t seed = 1;
};

class Layer {
 public:
  virtual ~Layer() = default;
  // "dense", "conv2d": what the layer is called where nobody named it.
  virtual std::string default_name() const = 0;
  // Adds the layer's nodes. Most layers take one input. InvalidArgument: the inputs or the layer's
  // own options do not fit; the message names the path, what was found and what would fit.
  virtual absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                                      const std::vector<Output>& inputs,
                                      const CallOptions& options) const = 0;
};

using LayerPtr = std::shared_ptr<const Layer>;

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_BASE_H_
