// export_program STRATEGY IMAGES FOLDER LOGITS: trains a small network under a strategy on images
// (.npy, float32[?,6,6,1]), exports it, and writes what it says of the images itself.
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/io/npy.h"
#include "runtime/input/dataset.h"
#include "strategies/export/export.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name) {
  if (name == "one_device") return Strategy::OneDevice({});
  if (name == "mirrored") return Strategy::Mirrored({.replicas = 2});
  if (name == "central_storage") return Strategy::CentralStorage({.replicas = 2});
  return errors::InvalidArgument("'", name, "' is no strategy");
}

absl::Status Run(const std::vector<std::string>& words) {
  if (words.size() != 4) return errors::InvalidArgument("expected STRATEGY IMAGES FOLDER LOGITS");
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy, MakeStrategy(words[0]));
  TANDEM_ASSIGN_OR_RETURN(const Tensor images, ReadNpy(words[1]));
  Tensor labels(kInt32, Shape({images.shape().dim(0)}));
  int32_t next = 0;
  for (int32_t& label : labels.MutableElements<int32_t>()) label = next++ % 3;

  const nn::LayerPtr model = nn::Sequential({
      nn::Conv2D({.filters = 4, .kernel = {3, 3}, .activation = "relu"}),
      nn::BatchNorm(),
      nn::MaxPool2D({.pool = {2, 2}}),
      nn::Flatten(),
      nn::LayerNorm(),
      nn::Dropout({.rate = 0.5}),
      nn::Dense({.units = 3}),
  });
  Trainer trainer(*strategy, model, loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({.learning_rate = 0.01}));
  FitOptions fit;
  fit.epochs = 2;
  TANDEM_RETURN_IF_ERROR(
      trainer.Fit(data::Dataset::FromTensors({images, labels}).Batch(8), fit).status());
  TANDEM_ASSIGN_OR_RETURN(const Tensor logits, trainer.Predict(images));
  TANDEM_RETURN_IF_ERROR(WriteNpy(words[3], logits));

  TANDEM_ASSIGN_OR_RETURN(const StrategyState state, trainer.CaptureState());
  ExportSignature serve;
  serve.inputs = {{.name = "images", .shape = {-1, 6, 6, 1}}};
  serve.outputs = {{"logits", nullptr}, {"probabilities", [](const Scope& scope, Output output) {
                                           return scope.Call("Softmax", {output});
                                         }}};
  return ExportSavedModel(*model, {serve}, state, words[2]);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const absl::Status status = tandem::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "export_program: %s\n", status.ToString().c_str());
  return 1;
}
