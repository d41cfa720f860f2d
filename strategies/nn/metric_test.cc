// Metrics give Keras's numbers, however the data is cut into batches and over replicas.
#include "strategies/nn/metric.h"

#include <cmath>

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

Tensor IntsOf(const KerasArray& array) {
  Tensor ints(kInt32, array.shape);
  for (size_t i = 0; i < array.values.size(); ++i) {
    ints.MutableElements<int32_t>()[i] = static_cast<int32_t>(array.values[i]);
  }
  return ints;
}

// Adds the sums of parts of these sizes, in float64 as a trainer does.
absl::StatusOr<double> Evaluate(const Metric& metric, const Tensor& labels, const Tensor& outputs,
                                const std::vector<int64_t>& parts) {
  const Scope scope = Scope::NewRoot();
  const auto placeholder = [&](const char* name, const Tensor& like) {
    PartialShape shape(like.shape());
    shape.SetDim(0, -1);
    return scope.WithOpName(name).Call("Placeholder", {},
                                       {{"dtype", like.dtype()}, {"shape", shape}});
  };
  const Output y = placeholder("labels", labels);
  const Output x = placeholder("outputs", outputs);
  TANDEM_ASSIGN_OR_RETURN(const auto sums, metric.Sums(scope, y, x));
  std::vector<std::string> fetches;
  std::vector<Tensor> totals;
  for (const Output& sum : sums) {
    EXPECT_EQ(sum.dtype(), kFloat32);
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, sum.shape().ToShape());
    totals.push_back(Tensor::Zeros(kFloat64, shape));
    fetches.push_back(sum.name());
  }
  TANDEM_ASSIGN_OR_RETURN(const auto session, Session::Create(*scope.graph()));
  int64_t at = 0;
  for (const int64_t size : parts) {
    TANDEM_ASSIGN_OR_RETURN(const Tensor some_labels, labels.Slice(at, at + size).Clone());
    TANDEM_ASSIGN_OR_RETURN(const Tensor some_outputs, outputs.Slice(at, at + size).Clone());
    TANDEM_ASSIGN_OR_RETURN(
        const auto fetched,
        session->Run({{"labels", some_labels}, {"outputs", some_outputs}}, fetches));
    for (size_t i = 0; i < totals.size(); ++i) {
      const auto from = fetched[i].Elements<float>();
      const auto to = totals[i].MutableElements<double>();
      for (size_t j = 0; j < to.size(); ++j) to[j] += static_cast<double>(from[j]);
    }
    at += size;
  }
  return metric.Result(totals);
}

TEST(Metrics, GiveTheNumbersOfKerasHoweverTheDataIsCut) {
  const struct {
    const char* name;
    MetricPtr metric;
    bool integers = false;
  } cases[] = {
      {"metric_accuracy", metric::Accuracy(), true},
      {"metric_accuracy_one_hot", metric::Accuracy()},
      {"metric_binary_accuracy", metric::BinaryAccuracy(0.4), true},
      {"metric_binary_accuracy", metric::BinaryAccuracy(0.4)},
      {"metric_top_2", metric::TopK(2), true},
      {"metric_mean_squared_error", metric::MeanSquaredError()},
      {"metric_mean_absolute_error", metric::MeanAbsoluteError()},
      {"metric_auc", metric::Auc(), true},
      {"metric_auc_coarse", metric::Auc({.num_thresholds = 5})},
      {"metric_auc_logits", metric::Auc({.from_logits = true}), true},
  };
  for (const auto& c : cases) {
    auto arrays = nn::KerasCase(c.name);
    const Tensor labels = c.integers ? IntsOf(arrays["labels"]) : FloatsOf(arrays["labels"]);
    // One, two and three replicas, even and uneven, in one and in several steps, some empty.
    for (const std::vector<int64_t>& parts :
         {std::vector<int64_t>{23}, {12, 11}, {8, 8, 7}, {1, 20, 2}, {0, 23}, {5, 4, 5, 4, 3, 2}}) {
      const auto result = Evaluate(*c.metric, labels, FloatsOf(arrays["outputs"]), parts);
      ASSERT_TRUE(result.ok()) << c.name << ": " << result.status();
      EXPECT_NEAR(*result, arrays["result"].values[0], 1e-6)
          << c.name << " " << ::testing::PrintToString(parts);
    }
  }
}

TEST(Metrics, HaveNames) {
  EXPECT_EQ(metric::Accuracy()->name(), "accuracy");
  EXPECT_EQ(metric::BinaryAccuracy()->name(), "binary_accuracy");
  EXPECT_EQ(metric::TopK(5)->name(), "top_5_accuracy");
  EXPECT_EQ(metric::Mean("spread")->name(), "spread");
  EXPECT_EQ(metric::MeanSquaredError()->name(), "mean_squared_error");
  EXPECT_EQ(metric::Auc()->name(), "auc");
}

TEST(Metrics, AreZeroWithoutExamples) {
  for (const MetricPtr& metric : {metric::Accuracy(), metric::TopK(1), metric::Mean("mean")}) {
    const auto result = Evaluate(*metric, IntInput(0, {0}, 3), FloatInput(0, {0, 3}), {0});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, 0);
  }
  const auto auc = Evaluate(*metric::Auc(), FloatInput(0, {0}), FloatInput(0, {0}), {0});
  ASSERT_TRUE(auc.ok()) << auc.status();
  EXPECT_EQ(*auc, 0);
}

TEST(Accuracy, TakesTheStepsOfSequences) {
  const Tensor outputs =
      Tensor::FromValues<float>(Shape({2, 2, 2}), {0, 1, 1, 0, 0, 1, 1, 0});  // Classes 1 0 1 0.
  const Tensor labels = Tensor::FromValues<int64_t>(Shape({2, 2}), {1, 1, 1, 0});
  const auto result = Evaluate(*metric::Accuracy(), labels, outputs, {1, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_DOUBLE_EQ(*result, 0.75);
  const auto top = Evaluate(*metric::TopK(2), labels, outputs, {1, 1});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_DOUBLE_EQ(*top, 1);
}

TEST(Accuracy, OfASingleOutputTakesItForALogit) {
  const Tensor outputs = Tensor::FromValues<float>(Shape({4, 1}), {-2, 0.2f, 3, -0.1f});
  for (const Tensor& labels : {Tensor::FromValues<int32_t>(Shape({4}), {0, 1, 0, 0}),
                               Tensor::FromValues<int32_t>(Shape({4, 1}), {0, 1, 0, 0})}) {
    const auto result = Evaluate(*metric::Accuracy(), labels, outputs, {3, 1});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_DOUBLE_EQ(*result, 0.75);
  }
}

TEST(Mean, IsThatOfAFunction) {
  const MetricPtr greatest =
      metric::Mean("greatest", [](const Scope& scope, Output, Output outputs) {
        return scope.Call("Max", {outputs, Tensor::Vector<int32_t>({-1})});
      });
  const Tensor outputs = Tensor::FromValues<float>(Shape({3, 2}), {1, 2, 5, 3, -1, -2});
  const Tensor labels = IntInput(0, {3}, 2);
  EXPECT_DOUBLE_EQ(*Evaluate(*greatest, labels, outputs, {2, 1}), 2);
  EXPECT_DOUBLE_EQ(*Evaluate(*metric::Mean("mean"), labels, outputs, {1, 2}), 8.0 / 6);
}

TEST(Auc, IsOneForWhatIsSortedAndAHalfForWhatIsNot) {
  const Tensor labels = Tensor::Vector<int32_t>({0, 0, 1, 1});
  const auto of = [&](std::initializer_list<float> outputs) {
    const auto result = Evaluate(*metric::Auc(), labels, Tensor::Vector<float>(outputs), {4});
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  };
  EXPECT_DOUBLE_EQ(of({0, 0.2f, 0.7f, 1}), 1);
  EXPECT_DOUBLE_EQ(of({1, 0.7f, 0.2f, 0}), 0);
  EXPECT_DOUBLE_EQ(of({0.5f, 0.5f, 0.5f, 0.5f}), 0.5);
  // Outside [0, 1] counts as the end; what is no number does no harm.
  EXPECT_DOUBLE_EQ(of({-3, -1, 4, 1e30f}), 1);
  const double with_nan = of({NAN, 0.2f, 0.7f, NAN});
  EXPECT_GE(with_nan, 0);
  EXPECT_LE(with_nan, 1);
  const auto one_kind = Evaluate(*metric::Auc(), Tensor::Vector<float>({1, 1}),
                                 Tensor::Vector<float>({0.1f, 0.9f}), {2});
  EXPECT_EQ(*one_kind, 0);
}

TEST(Metrics, LabelsAndOptionsThatDoNotFitAreErrors) {
  const struct {
    MetricPtr metric;
    Tensor labels;
    Tensor outputs;
  } cases[] = {
      {metric::Accuracy(), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {metric::Accuracy(), IntInput(0, {4, 2}, 3), FloatInput(0, {4, 3})},
      {metric::Accuracy(), IntInput(0, {4}, 3), FloatInput(0, {4})},
      {metric::BinaryAccuracy(), FloatInput(0, {4, 2}), FloatInput(0, {4, 3})},
      {metric::BinaryAccuracy(NAN), FloatInput(0, {4}), FloatInput(0, {4})},
      {metric::TopK(0), IntInput(0, {4}, 3), FloatInput(0, {4, 3})},
      {metric::TopK(2), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {metric::MeanSquaredError(), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {metric::Auc(), FloatInput(0, {4}), FloatInput(0, {4, 3})},
      {metric::Auc({.num_thresholds = 1}), FloatInput(0, {4}), FloatInput(0, {4})},
  };
  for (const auto& c : cases) {
    const auto result = Evaluate(*c.metric, c.labels, c.outputs, {4});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument)
        << c.metric->name() << ": " << result.status();
  }
}

}  // namespace
}  // namespace tandem
