// The models of the demo, with the optimizers that they are usually trained with.
#ifndef TANDEM_TOOLS_DEMO_PROGRAM_MODELS_H_
#define TANDEM_TOOLS_DEMO_PROGRAM_MODELS_H_

#include <string>

#include "absl/status/statusor.h"
#include "strategies/nn/layer.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::demo {

struct Model {
  nn::LayerPtr layers;
  optimizer::OptimizerPtr optimizer;
};

// cnn    Conv 64 3x3, pool, dense 128, dense 10; Adam
// lenet  LeNet-5 on images padded to 32x32: conv 6 5x5, pool, conv 16 5x5, pool, 120, 84, 10; SGD
// with
//        momentum 0.9
// mlp    dense 128, dense 10; Adam
// InvalidArgument: another name.
absl::StatusOr<Model> MakeModel(const std::string& name, double learning_rate);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_MODELS_H_
