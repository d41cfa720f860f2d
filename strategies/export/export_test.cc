#include "strategies/export/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/io/file.h"
#include "runtime/input/dataset.h"
#include "runtime/saved_model/saved_model.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

nn::LayerPtr Model() {
  return nn::Sequential({
      nn::Conv2D({.filters = 4, .kernel = {3, 3}, .activation = "relu"}),
      nn::BatchNorm(),
      nn::MaxPool2D({.pool = {2, 2}}),
      nn::Flatten(),
      nn::Dropout({.rate = 0.5}),
      nn::Dense({.units = 3}),
  });
}

Tensor Images(int64_t count) {
  Tensor images(kFloat32, Shape({count, 6, 6, 1}));
  uint32_t state = 1;
  for (float& value : images.MutableElements<float>()) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5f;
  }
  return images;
}

std::string TestFolder() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = absl::StrCat("export_", test->name());
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::string folder = JoinPath(testing::TempDir(), name);
  std::filesystem::remove_all(folder);
  return folder;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name) {
  if (name == "one_device") return Strategy::OneDevice({});
  if (name == "mirrored") return Strategy::Mirrored({.replicas = 2});
  return Strategy::CentralStorage({.replicas = 2});
}

class TrainedModel : public testing::TestWithParam<const char*> {};

TEST_P(TrainedModel, IsServedAsItWasTrained) {
  const auto strategy = MakeStrategy(GetParam());
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const nn::LayerPtr model = Model();
  Trainer trainer(**strategy, model, loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({.learning_rate = 0.01}));
  Tensor labels(kInt32, Shape({16}));
  for (int i = 0; i < 16; ++i) labels.MutableElements<int32_t>()[static_cast<size_t>(i)] = i % 3;
  const data::Dataset train = data::Dataset::FromTensors({Images(16), labels}).Batch(8);
  FitOptions fit;
  fit.epochs = 2;
  ASSERT_TRUE(trainer.Fit(train, fit).ok());

  ExportSignature serve;
  serve.inputs = {{.name = "image", .shape = {-1, 6, 6, 1}}};
  serve.outputs = {{"logits", nullptr}, {"probabilities", [](const Scope& scope, Output output) {
                                           return scope.Call("Softmax", {output});
                                         }}};
  const std::string folder = TestFolder();
  const absl::Status written = ExportSavedModel(*model, {serve}, *trainer.CaptureState(), folder);
  ASSERT_TRUE(written.ok()) << written;

  const auto loaded = SavedModel::Load(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<std::string> names;
  for (const SavedModel::Variable& variable : (*loaded)->variables()) {
    names.push_back(variable.name);
    EXPECT_EQ((*loaded)->ReadVariable(variable.name)->DebugString(1000),
              trainer.Variable(variable.name)->DebugString(1000));
  }
  EXPECT_THAT(names, ElementsAre("batch_norm/beta", "batch_norm/gamma", "batch_norm/moving_mean",
                                 "batch_norm/moving_variance", "conv2d/bias", "conv2d/kernel",
                                 "dense/bias", "dense/kernel"));
  // The batch is free.
  for (const int64_t count : {1, 5}) {
    const Tensor images = Images(count);
    const auto outputs = (*loaded)->signature().Run({{"image", images}});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    const auto predicted = trainer.Predict(images);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    const Tensor& logits = outputs->at("logits");
    ASSERT_EQ(logits.shape(), predicted->shape());
    for (size_t i = 0; i < logits.Elements<float>().size(); ++i) {
      EXPECT_NEAR(logits.Elements<float>()[i], predicted->Elements<float>()[i], 1e-5);
    }
    float sum = 0;
    for (const float p : outputs->at("probabilities").Elements<float>()) sum += p;
    EXPECT_NEAR(sum, static_cast<float>(count), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, TrainedModel,
                         testing::Values("one_device", "mirrored", "central_storage"));

TEST(ExportTest, MissingVariablesAreListed) {
  ExportSignature serve;
  serve.inputs = {{.name = "x", .shape = {-1, 4}}};
  const nn::LayerPtr model = nn::Dense({.units = 2});
  const absl::Status status = ExportSavedModel(*model, {serve}, {}, TestFolder());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel"), HasSubstr("bias")));
  EXPECT_FALSE(std::filesystem::exists(TestFolder()));
}

TEST(ExportTest, InputsThatDoNotFitAreNamed) {
  ExportSignature serve;
  serve.inputs = {{.name = "x", .shape = {-1, 4, 4}}};
  const absl::Status status =
      ExportSavedModel(*nn::Conv2D({.filters = 2, .kernel = {3, 3}}), {serve}, {}, TestFolder());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("signature 'serving_default'"));
}

}  // namespace
}  // namespace tandem
