// The models on which Tandem is compared with other systems. peers/ has the same for TensorFlow and
// PyTorch, with the same names of layers, so that all begin from the same weights.
#ifndef TANDEM_TOOLS_BENCHMARKS_MODELS_H_
#define TANDEM_TOOLS_BENCHMARKS_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "strategies/nn/layer.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::benchmarks {

struct Model {
  std::string name;  // "cnn64-b64"
  nn::LayerPtr layers;
  optimizer::OptimizerPtr optimizer;
  int64_t batch_size = 0;
  Shape input;  // Of an example.
  Shape labels;
  // Inputs are whole numbers below this, as the labels are below `classes`. 0: they are normally
  // distributed.
  int64_t vocabulary = 0;
  int64_t classes = 10;
};

std::vector<std::string> ModelNames();
// NotFound lists those that there are.
absl::StatusOr<Model> MakeModel(const std::string& name);

// Inputs and labels, the same in every process.
std::vector<Tensor> MakeBatch(const Model& model, int64_t batch_size);

}  // namespace tandem::benchmarks

#endif  // TANDEM_TOOLS_BENCHMARKS_MODELS_H_
