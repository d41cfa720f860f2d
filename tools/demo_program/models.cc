#include "tools/demo_program/models.h"

#include "core/base/status.h"

namespace tandem::demo {
namespace {

// Two zeros around each image: 28x28 becomes LeNet's 32x32.
class PadImages final : public nn::Layer {
 public:
  std::string default_name() const override { return "pad_images"; }
  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const nn::CallOptions&) const override {
    return replica.scope().SubScope(path).Call(
        "Pad", {inputs[0], Tensor::FromValues<int32_t>(Shape({4, 2}), {0, 0, 2, 2, 2, 2, 0, 0})});
  }
};

}  // namespace

absl::StatusOr<Model> MakeModel(const std::string& name, double learning_rate, int64_t steps) {
  Model model;
  if (name == "lenet") {
    model.layers = nn::Sequential({
        std::make_shared<PadImages>(),
        nn::Conv2D({.filters = 6, .kernel = {5, 5}, .activation = "relu"}),
        nn::MaxPool2D(),
        nn::Conv2D({.filters = 16, .kernel = {5, 5}, .activation = "relu"}),
        nn::MaxPool2D(),
        nn::Flatten(),
        nn::Dense({.units = 120, .activation = "relu"}),
        nn::Dense({.units = 84, .activation = "relu"}),
        nn::Dense({.units = 10}),
    });
    model.optimizer = optimizer::Sgd({.learning_rate = learning_rate, .momentum = 0.9});
    return model;
  }
  model.optimizer = optimizer::Adam({.schedule = optimizer::CosineDecay(learning_rate, steps)});
  if (name == "cnn") {
    model.layers = nn::Sequential({
        nn::Conv2D({.filters = 64, .kernel = {3, 3}, .activation = "relu"}),
        nn::MaxPool2D(),
        nn::Flatten(),
        nn::Dense({.units = 128, .activation = "relu"}),
        nn::Dense({.units = 10}),
    });
    return model;
  }
  if (name == "mlp") {
    model.layers = nn::Sequential({
        nn::Flatten(),
        nn::Dense({.units = 128, .activation = "relu"}),
        nn::Dense({.units = 10}),
    });
    return model;
  }
  return errors::InvalidArgument("--model=", name, ": it can be cnn, lenet or mlp");
}

}  // namespace tandem::demo
