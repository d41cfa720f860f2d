// Layers put together: Sequential, Residual, Model, and the wrappers.
#include "strategies/nn/model.h"

#include "gtest/gtest.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/testing.h"

namespace tandem::nn {
namespace {

using Names = std::vector<std::string>;

std::unique_ptr<TestModel> Make(LayerPtr layer, const std::vector<Tensor>& examples,
                                TestModelOptions options = {}) {
  auto model = TestModel::Create(std::move(layer), examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->SetVariables().ok());
  return *std::move(model);
}

LayerPtr Units(int64_t units) { return Dense({.units = units, .use_bias = false}); }

Tensor X() { return FloatInput(0, {3, 4}); }

TEST(Sequential, NumbersLayersOfEqualName) {
  const auto model = Make(Sequential({Units(2), Activation("relu"), Units(3),
                                      Sequential({Units(2)}), Residual({Units(2), Units(2)})}),
                          {X()});
  EXPECT_EQ(model->VariableNames(),
            (Names{"dense/kernel", "dense_1/kernel", "sequential/dense/kernel",
                   "residual/dense/kernel", "residual/dense_1/kernel"}));
}

TEST(Sequential, ANameThatIsTakenIsNumberedOn) {
  const auto model =
      Make(Sequential({Named("dense_1", Units(2)), Units(3), Units(4), Named("dense", Units(2))}),
           {X()});
  EXPECT_EQ(model->VariableNames(),
            (Names{"dense_1/kernel", "dense/kernel", "dense_2/kernel", "dense_3/kernel"}));
}

TEST(Sequential, WithoutLayersGivesItsInput) {
  const auto model = Make(Sequential({}), {X()});
  ExpectNear(model->Run({{X()}})->outputs[0], X(), "output", 0);
}

TEST(Sequential, IsALayerAmongOthersAndTheModelItself) {
  EXPECT_EQ(Make(Units(2), {X()})->VariableNames(), (Names{"kernel"}));
  EXPECT_EQ(Make(Named("head", Units(2)), {X()})->VariableNames(), (Names{"kernel"}));
  EXPECT_EQ(Make(Sequential({Named("head", Units(2))}), {X()})->VariableNames(),
            (Names{"head/kernel"}));
}

TEST(Sequential, TheSameLayerTwiceSharesItsVariables) {
  const LayerPtr shared = Units(4);
  const auto model = Make(Sequential({shared, Activation("tanh"), shared}), {X()});
  EXPECT_EQ(model->VariableNames(), (Names{"dense/kernel"}));
}

TEST(Residual, AddsItsInput) {
  const auto inner = Make(Sequential({Units(4), Activation("tanh")}), {X()});
  const auto model = Make(Residual({Units(4), Activation("tanh")}), {X()});
  const auto alone = inner->Run({{X()}});
  const auto result = model->Run({{X()}});
  ASSERT_TRUE(alone.ok() && result.ok());
  Tensor sum = *alone->outputs[0].Clone();
  Tensor gradient = *alone->input_gradients[0][0].Clone();
  for (size_t i = 0; i < 12; ++i) {
    sum.MutableElements<float>()[i] += X().Elements<float>()[i];
    gradient.MutableElements<float>()[i] += LossWeight(static_cast<int64_t>(i));
  }
  ExpectNear(result->outputs[0], sum, "output");
  ExpectNear(result->input_gradients[0][0], gradient, "gradient");
}

TEST(Model, ComputesWhatTheLayersWouldByThemselves) {
  // (tanh(x A) + x B) C, written as a graph and as nested layers.
  const Value x = Value::Input();
  const Value left = Apply(Activation("tanh"), Apply(Named("a", Units(4)), x));
  const Value both = Apply(Add(), {left, x});
  const auto model = Make(Model({x}, Apply(Named("c", Units(2)), both)), {X()});
  const auto nested =
      Make(Sequential({Residual({Named("a", Units(4)), Activation("tanh")}), Named("c", Units(2))}),
           {X()});
  EXPECT_EQ(model->VariableNames(), (Names{"a/kernel", "c/kernel"}));
  EXPECT_EQ(nested->VariableNames(), (Names{"residual/a/kernel", "c/kernel"}));
  const auto result = model->Run({{X()}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs[0].shape(), Shape({3, 2}));
  EXPECT_EQ(result->gradients.size(), 2u);
}

TEST(Model, ALayerAppliedTwiceSharesItsVariablesAndAddsItsGradients) {
  const LayerPtr shared = Units(2);
  const Value a = Value::Input();
  const Value b = Value::Input();
  const Value sum = Apply(Add(), {Apply(shared, a), Apply(shared, b)});
  const Tensor other = FloatInput(1, {3, 4});
  const auto model = Make(Model({a, b}, sum), {X(), other});
  EXPECT_EQ(model->VariableNames(), (Names{"dense/kernel"}));
  const auto result = model->Run({{X(), other}});
  ASSERT_TRUE(result.ok()) << result.status();
  // The gradient with respect to the kernel is linear in the input: that of a + b.
  Tensor added = *X().Clone();
  for (size_t i = 0; i < 12; ++i) {
    added.MutableElements<float>()[i] += other.Elements<float>()[i];
  }
  const auto one = Make(Sequential({Units(2)}), {added});
  const auto expected = one->Run({{added}});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectNear(result->outputs[0], expected->outputs[0], "output");
  ExpectNear(result->gradients.at("dense/kernel"), expected->gradients.at("dense/kernel"),
             "gradient");
}

TEST(Model, NumbersLayersInTheOrderOfTheirArguments) {
  const Value x = Value::Input();
  const Value last = Apply(Units(3), x);  // Made first, needed last.
  const Value first = Apply(Units(2), x);
  const auto model = Make(Model({x}, Apply(Concatenate(), {first, last})), {X()});
  EXPECT_EQ(model->VariableNames(), (Names{"dense/kernel", "dense_1/kernel"}));
  EXPECT_EQ(model->Read("dense/kernel")->shape(), Shape({4, 2}));
}

TEST(Model, MayBeginInTheMiddleAndContainModels) {
  const Value x = Value::Input();
  const Value hidden = Apply(Units(3), x);
  const Value y = Apply(Units(2), hidden);
  const LayerPtr head = Model({hidden}, y);
  EXPECT_EQ(Make(head, {FloatInput(0, {2, 3})})->VariableNames(), (Names{"dense/kernel"}));
  const Value z = Value::Input();
  const auto outer = Make(Model({z}, Apply(head, Apply(Units(3), z))), {X()});
  EXPECT_EQ(outer->VariableNames(), (Names{"dense/kernel", "model/dense/kernel"}));
  // The output may be an input.
  const auto nothing = Make(Model({x}, x), {X()});
  ExpectNear(nothing->Run({{X()}})->outputs[0], X(), "output", 0);
}

TEST(Model, ADeepOneIsBuilt) {
  const Value x = Value::Input();
  Value y = x;
  for (int i = 0; i < 2000; ++i) y = Apply(Activation("linear"), y);
  const auto model = Make(Model({x}, y), {X()});
  ExpectNear(model->Run({{X()}})->outputs[0], X(), "output", 0);
}

TEST(Model, MissingInputsAndNullLayersAreErrors) {
  const Value x = Value::Input();
  const Value other = Value::Input();
  const Value sum = Apply(Add(), {x, other});
  for (const LayerPtr& wrong :
       {Model({x}, sum), Model({x, other}, sum), Model({x}, Apply(nullptr, x)),
        Sequential({Units(2), nullptr}), Named("a", nullptr), Frozen(nullptr)}) {
    const absl::Status error = ErrorOf(wrong, {X()});
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument) << error;
  }
}

TEST(Concatenate, JoinsAlongItsAxis) {
  const Tensor a = FloatInput(0, {2, 3});
  const Tensor b = FloatInput(1, {2, 1});
  const auto model = Make(Concatenate(), {a, b});
  const auto result = model->Run({{a, b}});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs[0].shape(), Shape({2, 4}));
  EXPECT_EQ(result->outputs[0].Elements<float>()[3], b.Elements<float>()[0]);
  EXPECT_EQ(result->input_gradients[0][1].shape(), Shape({2, 1}));
}

TEST(Reshape, KeepsTheBatchAndFindsAMissingSize) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{6, 2}, {-1, 2}, {3, 2, 2}, {12}, {-1}}) {
    const Tensor x = FloatInput(0, {5, 3, 4});
    const auto result = Make(Reshape(sizes), {x})->Run({{x}});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->outputs[0].shape().dim(0), 5);
    EXPECT_EQ(result->outputs[0].num_elements(), 60);
    EXPECT_EQ(result->outputs[0].shape().rank(), static_cast<int>(sizes.size()) + 1);
  }
}

TEST(Frozen, ItsVariablesAreMadeAndNotTrained) {
  const auto model = Make(Sequential({Frozen(Sequential({Units(3)})), Units(2)}), {X()});
  EXPECT_EQ(model->VariableNames(), (Names{"sequential/dense/kernel", "dense/kernel"}));
  EXPECT_EQ(model->TrainedNames(), (Names{"dense/kernel"}));
}

TEST(Dense, OfSequencesWithUnknownStepsKeepsTheirShape) {
  // Both the batch and the steps are only known when the step runs.
  const LayerPtr layer = Sequential({Units(3), MultiHeadAttention({.num_heads = 1, .key_dim = 2}),
                                     Lstm({.units = 2, .return_sequences = true})});
  EXPECT_TRUE(ErrorOf(layer, kFloat32, {-1, -1, 4}).ok());
}

TEST(Embedding, HasASparseGradientThatAddsUpOverReplicas) {
  const LayerPtr layer = Embedding({.input_dim = 5, .output_dim = 3});
  const Tensor ids = IntInput(0, {4, 2}, 5);
  const auto one = Make(layer, {ids});
  EXPECT_TRUE(one->IsSparse("embeddings"));
  const auto two = Make(layer, {ids}, {.replicas = 2});
  const auto whole = one->Run({{ids}});
  const auto halves = two->Run({{*ids.Slice(0, 3).Clone()}, {*ids.Slice(3, 4).Clone()}});
  ASSERT_TRUE(whole.ok() && halves.ok());
  ExpectNear(halves->gradients.at("embeddings"), whole->gradients.at("embeddings"), "gradient");
}

TEST(Embedding, ANumberOutOfRangeIsAnErrorOfTheStep) {
  const auto model = Make(Embedding({.input_dim = 5, .output_dim = 3}), {IntInput(0, {2, 2}, 5)});
  for (const int bad : {5, -1}) {
    Tensor ids = IntInput(0, {2, 2}, 5);
    ids.MutableElements<int32_t>()[3] = bad;
    EXPECT_EQ(model->Run({{ids}}).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tandem::nn
