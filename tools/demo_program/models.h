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
// Adam's learning rate falls from `learning_rate` to 0 along a cosine over `steps` steps; a rate
// that stays ends near the best accuracy or a little below, by chance. InvalidArgument: another
// name.
absl::StatusOr<Model> MakeModel(const std::string& name, double learning_rate, int64_t steps);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_MODELS_H_
