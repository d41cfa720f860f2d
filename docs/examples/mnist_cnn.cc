// The Keras CNN on MNIST, under whatever strategy the environment asks for.
//
//   bazel-bin/docs/examples/mnist_cnn tools/datasets/mnist [EPOCHS [STEPS]]
#include <cstdio>
#include <cstdlib>

#include "tandem.h"

namespace {

absl::Status Run(const std::string& folder, int epochs, int64_t steps) {
  TANDEM_ASSIGN_OR_RETURN(const auto strategy, tandem::Strategy::FromEnvironment());
  const auto model = tandem::nn::Sequential({
      tandem::nn::Conv2D({.filters = 64, .kernel = {3, 3}, .activation = "relu"}),
      tandem::nn::MaxPool2D({.pool = {2, 2}}),
      tandem::nn::Flatten(),
      tandem::nn::Dense({.units = 128, .activation = "relu"}),
      tandem::nn::Dense({.units = 10}),
  });
  tandem::Trainer trainer(*strategy, model, tandem::loss::SparseSoftmaxCrossEntropy(),
                          tandem::optimizer::Adam({.learning_rate = 1e-3}));
  const auto train = tandem::data::Mnist(folder, {.label_type = tandem::kInt32})
                         .Shuffle(60000, /*seed=*/1)
                         .Batch(64)
                         .Take(steps);
  tandem::FitOptions fit;
  fit.epochs = epochs;
  fit.callbacks = {tandem::callback::Progress()};
  TANDEM_RETURN_IF_ERROR(trainer.Fit(train, fit).status());
  const auto test = tandem::data::Mnist(folder, {.split = tandem::data::MnistSplit::kTest,
                                                 .label_type = tandem::kInt32})
                        .Batch(500);
  TANDEM_ASSIGN_OR_RETURN(const tandem::EpochResult result, trainer.Evaluate(test));
  std::printf("test accuracy %.4f\n", result.Value("accuracy").value_or(0));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "tools/datasets/mnist";
  int64_t numbers[] = {1, -1};  // Epochs, and steps of each: all.
  for (int i = 2; i < argc; ++i) {
    char* end = nullptr;
    const int64_t number = std::strtoll(argv[i], &end, 10);
    if (i > 3 || *end != '\0' || number < 1 || number > 1'000'000'000) {
      std::fprintf(stderr,
                   "mnist_cnn: '%s': FOLDER [EPOCHS [STEPS]] is wanted, with numbers from 1 on\n",
                   argv[i]);
      return 2;
    }
    numbers[i - 2] = number;
  }
  return tandem::Exit(Run(folder, static_cast<int>(numbers[0]), numbers[1]));
}
