#include "strategies/nn/batch_norm.h"

#include <cmath>

#include "gtest/gtest.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

LayerPtr Norm(bool synchronized) {
  return BatchNorm({.momentum = 0.9, .synchronized = synchronized});
}

std::unique_ptr<TestModel> Model(LayerPtr layer, const Tensor& example, int replicas,
                                 bool training = true) {
  auto model =
      TestModel::Create(std::move(layer), {example}, {.replicas = replicas, .training = training});
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->SetVariables().ok());
  return *std::move(model);
}

std::vector<float> Values(const Tensor& t) {
  return {t.Elements<float>().begin(), t.Elements<float>().end()};
}

// Rows of `x` cut into parts of these sizes.
std::vector<std::vector<Tensor>> Cut(const Tensor& x, const std::vector<int64_t>& sizes) {
  std::vector<std::vector<Tensor>> parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    parts.push_back({*x.Slice(at, at + size).Clone()});
    at += size;
  }
  EXPECT_EQ(at, x.shape().dim(0));
  return parts;
}

TEST(BatchNorm, SynchronizedReplicasGiveWhatOneGivesForTheWholeBatch) {
  for (const Shape& shape : {Shape({7, 3}), Shape({7, 2, 3, 2})}) {
    const Tensor x = FloatInput(0, shape);
    const auto one = Model(Norm(false), x, 1);
    const auto whole = one->Run({{x}});
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{4, 3}, {1, 6}, {3, 2, 2}, {0, 7}, {7, 0}}) {
      SCOPED_TRACE(::testing::PrintToString(sizes));
      const auto many = Model(Norm(true), x, static_cast<int>(sizes.size()));
      const auto result = many->Run(Cut(x, sizes));
      ASSERT_TRUE(result.ok()) << result.status();
      const auto outputs = Cut(whole->outputs[0], sizes);
      const auto gradients = Cut(whole->input_gradients[0][0], sizes);
      for (size_t r = 0; r < sizes.size(); ++r) {
        ExpectNear(result->outputs[r], outputs[r][0], "output");
        ExpectNear(result->input_gradients[r][0], gradients[r][0], "input gradient");
      }
      for (const auto& [name, gradient] : whole->gradients) {
        ExpectNear(result->gradients.at(name), gradient, name);
      }
      for (const char* const name : {"moving_mean", "moving_variance"}) {
        for (size_t copy = 0; copy < sizes.size(); ++copy) {
          ExpectNear(*many->Read(name, static_cast<int>(copy)), *one->Read(name), name);
        }
      }
    }
  }
}

TEST(BatchNorm, ByItselfEachReplicaNormalizesItsPartAndStatisticsAreTheMean) {
  const Tensor x = FloatInput(0, {8, 3});
  const auto parts = Cut(x, {5, 3});
  const auto both = Model(Norm(false), x, 2);
  const auto result = both->Run(parts);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<std::vector<float>> means;
  for (size_t r = 0; r < 2; ++r) {
    const auto alone = Model(Norm(false), x, 1);
    const auto expected = alone->Run({parts[r]});
    ASSERT_TRUE(expected.ok()) << expected.status();
    ExpectNear(result->outputs[r], expected->outputs[0], "output");
    means.push_back(Values(*alone->Read("moving_mean")));
  }
  for (int copy = 0; copy < 2; ++copy) {
    const auto mean = Values(*both->Read("moving_mean", copy));
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(mean[i], (means[0][i] + means[1][i]) / 2, 1e-6);
  }
}

TEST(BatchNorm, AReplicaWithoutExamplesLeavesNumbersBehind) {
  for (const bool synchronized : {false, true}) {
    for (const Shape& shape : {Shape({4, 3}), Shape({4, 2, 2, 3})}) {
      const Tensor x = FloatInput(0, shape);
      const auto model = Model(Norm(synchronized), x, 2);
      const auto result = model->Run(Cut(x, {4, 0}));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->outputs[1].num_elements(), 0);
      for (const auto& [name, gradient] : result->gradients) {
        for (const float value : Values(gradient)) EXPECT_TRUE(std::isfinite(value)) << name;
      }
      for (const char* const name : {"moving_mean", "moving_variance"}) {
        for (const float value : Values(*model->Read(name))) EXPECT_TRUE(std::isfinite(value));
      }
      // Nobody has any: the statistics stay.
      const auto before = Values(*model->Read("moving_mean"));
      const Tensor none = *x.Slice(0, 0).Clone();
      ASSERT_TRUE(model->Run({{none}, {none}}).ok());
      EXPECT_EQ(Values(*model->Read("moving_mean")), before);
    }
  }
}

TEST(BatchNorm, SynchronizedVarianceSurvivesAMeanFarFromZero) {
  Tensor x = FloatInput(0, {64, 2});
  for (float& value : x.MutableElements<float>()) value += 3000;
  const auto one = Model(Norm(false), x, 1);
  const auto many = Model(Norm(true), x, 2);
  // The moving mean comes near the batches' after some steps.
  for (int step = 0; step < 80; ++step) {
    ASSERT_TRUE(one->Run({{x}}, step).ok());
    ASSERT_TRUE(many->Run(Cut(x, {40, 24}), step).ok());
  }
  const auto whole = one->Run({{x}});
  const auto result = many->Run(Cut(x, {40, 24}));
  ASSERT_TRUE(whole.ok() && result.ok());
  ExpectNear(result->outputs[0], Cut(whole->outputs[0], {40, 24})[0][0], "output", 2e-3f);
}

TEST(BatchNorm, StatisticsAreNotTrainedAndStayOutsideOfTraining) {
  const Tensor x = FloatInput(0, {6, 3});
  const auto model = Model(Norm(false), x, 1, /*training=*/false);
  EXPECT_EQ(model->VariableNames(),
            (std::vector<std::string>{"gamma", "beta", "moving_mean", "moving_variance"}));
  EXPECT_EQ(model->TrainedNames(), (std::vector<std::string>{"gamma", "beta"}));
  ASSERT_TRUE(model->Run({{x}}).ok());
  ExpectNear(*model->Read("moving_mean"), VariableValue("moving_mean", Shape({3})), "mean", 0);
}

TEST(BatchNorm, FrozenItUsesTheMovingStatisticsAndLeavesThemAlone) {
  const Tensor x = FloatInput(0, {6, 3});
  const auto frozen = Model(Frozen(Norm(false)), x, 1);
  EXPECT_TRUE(frozen->TrainedNames().empty());
  const auto inference = Model(Norm(false), x, 1, /*training=*/false);
  const auto result = frozen->Run({{x}});
  const auto expected = inference->Run({{x}});
  ASSERT_TRUE(result.ok() && expected.ok());
  ExpectNear(result->outputs[0], expected->outputs[0], "output", 0);
  ExpectNear(*frozen->Read("moving_mean"), VariableValue("moving_mean", Shape({3})), "mean", 0);
}

}  // namespace
}  // namespace tandem::nn
