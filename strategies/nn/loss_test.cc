#include "strategies/nn/loss.h"

#include <cmath>

#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "strategies/nn/testing.h"

namespace tandem {
namespace {

using nn::FloatInput;
using nn::IntInput;
using nn::KerasArray;

Tensor FloatsOf(const KerasArray& array) {
  return Tensor::FromValues<float>(array.shape, absl::MakeConstSpan(array.values));
}

Tensor IntsOf(const KerasArray& array, DataType dtype) {
  Tensor ints(dtype, array.shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    if (dtype == kInt32) {
      ints.MutableElements<int32_t>()[i] = static_cast<int32_t>(array.values[i]);
    } else {
      ints.MutableElements<int64_t>()[i] = static_cast<int64_t>(array.values[i]);
    }
  }
  return ints;
}

PartialShape BatchOf(const Shape& shape) {
  PartialShape batch(shape);
  batch.SetDim(0, -1);
  return batch;
}

struct Computed {
  Tensor values;
  Tensor gradient;  // Of the values weighed by LossWeight, with respect to the outputs.
};

absl::StatusOr<Computed> Compute(const LossFunction& loss, const Tensor& labels,
                                 const Tensor& outputs) {
  const Scope scope = Scope::NewRoot();
  const auto placeholder = [&](const char* name, const Tensor& like) {
    return scope.WithOpName(name).Call("Placeholder", {},
                                       {{"dtype", like.dtype()}, {"shape", BatchOf(like.shape())}});
  };
  const Output y = placeholder("labels", labels);
  const Output x = placeholder("outputs", outputs);
  TANDEM_ASSIGN_OR_RETURN(const Output values, loss(scope, y, x));
  EXPECT_EQ(values.shape().rank(), 1);
  Tensor weights(kFloat32, Shape({outputs.shape().dim(0)}));
  int64_t i = 0;
  for (float& weight : weights.MutableElements<float>()) weight = nn::LossWeight(i++);
  const Output total = scope.Call("Mul", {values, weights});
  TANDEM_RETURN_IF_ERROR(scope.status());
  TANDEM_ASSIGN_OR_RETURN(const auto gradients, AddGradients(scope.graph(), {total}, {x}));
  TANDEM_ASSIGN_OR_RETURN(const auto session, Session::Create(*scope.graph()));
  TANDEM_ASSIGN_OR_RETURN(const auto fetched,
                          session->Run({{"labels", labels}, {"outputs", outputs}},
                                       {values.name(), gradients[0].values.name()}));
  return Computed{fetched[0], fetched[1]};
}

TEST(Losses, GiveTheNumbersOfKeras) {
  const struct {
    const char* name;
    LossFunction loss;
    bool integers = false;
  } cases[] = {
      {"loss_sparse", loss::SparseSoftmaxCrossEntropy(), true},
      {"loss_sparse_steps", loss::SparseSoftmaxCrossEntropy(), true},
      {"loss_softmax", loss::SoftmaxCrossEntropy()},
      {"loss_softmax_steps", loss::SoftmaxCrossEntropy()},
      {"loss_sigmoid", loss::SigmoidCrossEntropy(), true},
      {"loss_sigmoid", loss::SigmoidCrossEntropy()},
      {"loss_mean_squared", loss::MeanSquaredError()},
      {"loss_mean_squared_steps", loss::MeanSquaredError()},
      {"loss_huber", loss::Huber()},
      {"loss_huber_half", loss::Huber(0.5)},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    auto arrays = nn::KerasCase(c.name);
    for (const DataType dtype : {kInt32, kInt64}) {
      const Tensor labels =
          c.integers ? IntsOf(arrays["labels"], dtype) : FloatsOf(arrays["labels"]);
      const auto computed = Compute(c.loss, labels, FloatsOf(arrays["outputs"]));
      ASSERT_TRUE(computed.ok()) << computed.status();
      nn::ExpectNear(computed->values, arrays["values"], "values");
      nn::ExpectNear(computed->gradient, arrays["gradient"], "gradient");
    }
  }
}

TEST(Losses, OneOutputAnExampleTakesLabelsOfTheBatchAlone) {
  const Tensor labels = FloatInput(0, {5});
  const Tensor outputs = FloatInput(1, {5, 1});
  const auto computed = Compute(loss::MeanSquaredError(), labels, outputs);
  ASSERT_TRUE(computed.ok()) << computed.status();
  ASSERT_EQ(computed->values.shape(), Shape({5}));
  for (size_t i = 0; i < 5; ++i) {
    const float e = outputs.Elements<float>()[i] - labels.Elements<float>()[i];
    EXPECT_NEAR(computed->values.Elements<float>()[i], e * e, 1e-6);
  }
}

TEST(Losses, SigmoidCrossEntropyIsExactForGreatLogits) {
  const Tensor labels = Tensor::Vector<float>({1, 0, 1, 0, 0.5f});
  const Tensor outputs = Tensor::Vector<float>({20, -20, -200, 200, 0});
  const auto computed = Compute(loss::SigmoidCrossEntropy(), labels, outputs);
  ASSERT_TRUE(computed.ok()) << computed.status();
  const auto values = computed->values.Elements<float>();
  EXPECT_NEAR(values[0], std::exp(-20.0), 1e-13);
  EXPECT_NEAR(values[1], std::exp(-20.0), 1e-13);
  EXPECT_FLOAT_EQ(values[2], 200);
  EXPECT_FLOAT_EQ(values[3], 200);
  EXPECT_FLOAT_EQ(values[4], static_cast<float>(std::log(2.0)));
  const auto gradient = computed->gradient.Elements<float>();
  EXPECT_NEAR(gradient[2], -nn::LossWeight(2), 1e-6);
  EXPECT_NEAR(gradient[4], 0, 1e-6);
}

TEST(Losses, AnEmptyBatchHasNoLosses) {
  for (const LossFunction& loss : {loss::MeanSquaredError(), loss::Huber(),
                                   loss::SoftmaxCrossEntropy(), loss::SigmoidCrossEntropy()}) {
    const auto computed = Compute(loss, FloatInput(0, {0, 3}), FloatInput(0, {0, 3}));
    ASSERT_TRUE(computed.ok()) << computed.status();
    EXPECT_EQ(computed->values.shape(), Shape({0}));
  }
}

TEST(Losses, LabelsThatDoNotFitAreErrorsWithBothShapes) {
  const struct {
    LossFunction loss;
    Tensor labels;
    Tensor outputs;
  } cases[] = {
      {loss::SparseSoftmaxCrossEntropy(), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {loss::SparseSoftmaxCrossEntropy(), IntInput(0, {4, 3}, 3), FloatInput(0, {4, 3})},
      {loss::SparseSoftmaxCrossEntropy(), IntInput(0, {4}, 3), FloatInput(0, {4})},
      {loss::SparseSoftmaxCrossEntropy(), IntInput(0, {4}, 3), IntInput(0, {4, 3}, 2)},
      {loss::SoftmaxCrossEntropy(), FloatInput(0, {4, 2}), FloatInput(0, {4, 3})},
      {loss::SoftmaxCrossEntropy(), FloatInput(0, {4}), FloatInput(0, {4})},
      {loss::SigmoidCrossEntropy(), FloatInput(0, {4, 2}), FloatInput(0, {4, 3})},
      {loss::MeanSquaredError(), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {loss::MeanSquaredError(), FloatInput(0, {4, 3}), IntInput(0, {4, 3}, 2)},
      {loss::Huber(), FloatInput(0, {4, 1, 3}), FloatInput(0, {4, 2, 3})},
  };
  for (const auto& c : cases) {
    const absl::Status error = Compute(c.loss, c.labels, c.outputs).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument) << error;
    const std::string message(error.message());
    EXPECT_NE(message.find(BatchOf(c.labels.shape()).DebugString()), std::string::npos) << message;
    EXPECT_NE(message.find(BatchOf(c.outputs.shape()).DebugString()), std::string::npos) << message;
  }
  for (const double delta : {0.0, -1.0, static_cast<double>(NAN)}) {
    EXPECT_EQ(Compute(loss::Huber(delta), FloatInput(0, {2}), FloatInput(0, {2})).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem
