#include "strategies/nn/dropout.h"

#include "gtest/gtest.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

using Numbers = std::vector<float>;

Tensor Ones(int64_t rows) {
  Tensor ones(kFloat32, Shape({rows, 40}));
  for (float& value : ones.MutableElements<float>()) value = 1;
  return ones;
}

Numbers Values(const Tensor& t) { return {t.Elements<float>().begin(), t.Elements<float>().end()}; }

// What the replicas give for ones, in one list each.
std::vector<Numbers> Dropped(LayerPtr layer, TestModelOptions options, int64_t step) {
  options.training = true;
  const auto model = TestModel::Create(std::move(layer), {Ones(25)}, options);
  EXPECT_TRUE(model.ok()) << model.status();
  const std::vector<std::vector<Tensor>> inputs(static_cast<size_t>(options.replicas), {Ones(25)});
  const auto result = (*model)->Run(inputs, step);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<Numbers> all;
  for (const Tensor& output : result->outputs) all.push_back(Values(output));
  return all;
}

TEST(Dropout, DropsItsPartAndScalesTheRestWithTheSameGradient) {
  const auto model = TestModel::Create(Dropout({.rate = 0.2}), {Ones(25)}, {.training = true});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto result = (*model)->Run({{Ones(25)}});
  ASSERT_TRUE(result.ok()) << result.status();
  const Numbers y = Values(result->outputs[0]);
  const Numbers gradient = Values(result->input_gradients[0][0]);
  int dropped = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) {
      ++dropped;
      EXPECT_EQ(gradient[i], 0);
    } else {
      EXPECT_FLOAT_EQ(y[i], 1.25f);
      EXPECT_NEAR(gradient[i], 1.25f * LossWeight(static_cast<int64_t>(i)), 1e-5);
    }
  }
  // 1000 values: four deviations around 200.
  EXPECT_GT(dropped, 150);
  EXPECT_LT(dropped, 250);
}

TEST(Dropout, DiffersByStepAndReplicaAndSeedAndIsOtherwiseTheSame) {
  const TestModelOptions two = {.replicas = 2};
  const auto first = Dropped(Dropout(), two, 0);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(Dropped(Dropout(), two, 0), first);
  const auto second = Dropped(Dropout(), two, 1);
  EXPECT_NE(second[0], first[0]);
  EXPECT_NE(second[1], first[1]);
  EXPECT_NE(second[0], first[1]);
  EXPECT_NE(Dropped(Dropout(), {.replicas = 2, .seed = 2}, 0)[0], first[0]);
  // Replica 0 does not know how many there are.
  EXPECT_EQ(Dropped(Dropout(), {.replicas = 1}, 0)[0], first[0]);
}

TEST(Dropout, DiffersByLayerAndByUseOfALayer) {
  const Value x = Value::Input();
  const LayerPtr shared = Dropout();
  const auto joined = [&](LayerPtr a, LayerPtr b) {
    const Value both = Apply(Concatenate(), {Apply(std::move(a), x), Apply(std::move(b), x)});
    const Numbers y = Dropped(Model({x}, both), {}, 0)[0];
    Numbers left;
    Numbers right;
    for (size_t i = 0; i < y.size(); ++i) (i / 40 % 2 == 0 ? left : right).push_back(y[i]);
    return std::make_pair(left, right);
  };
  const auto [a, b] = joined(Dropout(), Dropout());
  EXPECT_NE(a, b);
  const auto [c, d] = joined(shared, shared);
  EXPECT_NE(c, d);
}

TEST(Dropout, GivesItsInputOutsideOfTrainingAndForRateZero) {
  const Tensor x = FloatInput(0, {5, 7});
  for (const bool training : {false, true}) {
    const auto model = TestModel::Create(Dropout({.rate = training ? 0 : 0.9}), {x},
                                         {.training = training, .numbered_steps = false});
    ASSERT_TRUE(model.ok()) << model.status();
    const auto result = (*model)->Run({{x}});
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectNear(result->outputs[0], x, "output", 0);
  }
}

TEST(Dropout, InAStepWithoutANumberIsAnError) {
  const absl::Status error =
      ErrorOf(Dropout(), {Ones(2)}, {.training = true, .numbered_steps = false});
  EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition) << error;
}

TEST(MultiHeadAttention, DropsAttentionWhileTrainingOnly) {
  const LayerPtr attention = MultiHeadAttention({.num_heads = 2, .key_dim = 3, .dropout = 0.5});
  const LayerPtr whole = MultiHeadAttention({.num_heads = 2, .key_dim = 3});
  const Tensor x = FloatInput(0, {2, 6, 4});
  const auto output = [&](LayerPtr layer, bool training, int64_t step) {
    const auto model = TestModel::Create(std::move(layer), {x}, {.training = training});
    EXPECT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->SetVariables().ok());
    return Values((*model)->Run({{x}}, step)->outputs[0]);
  };
  EXPECT_EQ(output(attention, false, 0), output(whole, false, 0));
  EXPECT_NE(output(attention, true, 0), output(whole, true, 0));
  EXPECT_NE(output(attention, true, 0), output(attention, true, 1));
}

}  // namespace
}  // namespace tandem::nn
