#include "strategies/trainer/trainer.h"

#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/input/functions.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/testing/unruly_strategy.h"

namespace tandem {
namespace {

using testing::ClassificationBatch;
using testing::ClassificationEpochs;
using testing::kClasses;
using testing::kFeatures;
using testing::UnrulyStrategy;

nn::LayerPtr TwoLayers() {
  return nn::Sequential(
      {nn::Dense({.units = 16, .activation = "relu"}), nn::Dense({.units = kClasses})});
}

optimizer::OptimizerPtr Momentum() {
  return optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9});
}

std::unique_ptr<Strategy> Mirrored(int replicas) {
  absl::StatusOr<std::unique_ptr<Strategy>> strategy = Strategy::Mirrored({.replicas = replicas});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return *std::move(strategy);
}

std::vector<float> Weights(Trainer& trainer) {
  std::vector<float> weights;
  const auto state = trainer.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  if (!state.ok()) return weights;
  for (const auto& [name, value] : *state) {
    for (const float weight : value.Elements<float>()) weights.push_back(weight);
  }
  return weights;
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

OpenEpoch Given(std::vector<std::vector<Tensor>> batches) {
  return [batches](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<size_t>(0);
    return NextBatch([next, batches]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == batches.size()) return absl::optional<std::vector<Tensor>>();
      return absl::optional<std::vector<Tensor>>(batches[(*next)++]);
    });
  };
}

TEST(Trainer, StopsAtANonFiniteLossAndNamesTheStep) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 1e30}));
  const auto history = trainer.Fit(ClassificationEpochs(20), {});
  EXPECT_EQ(history.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(history.status().message(), "step")) << history.status();
}

TEST(Trainer, NamesTheFirstGradientThatIsNotFinite) {
  for (const int replicas : {1, 2}) {
    const auto strategy = Mirrored(replicas);
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(),
                    {.check_gradients = true});
    std::vector<Tensor> bad = ClassificationBatch(2);
    bad[0].MutableElements<float>()[0] = std::nanf("");
    const auto history =
        trainer.Fit(Given({ClassificationBatch(0), ClassificationBatch(1), bad}), {});
    EXPECT_EQ(history.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(history.status().message(), "step 3")) << history.status();
    EXPECT_TRUE(absl::StrContains(history.status().message(), "'dense/kernel'"))
        << history.status();
  }
}

TEST(Trainer, FailsTheSameWayTwiceWhenItCannotBegin) {
  const auto strategy = Mirrored(1);
  // A model without variables.
  Trainer trainer(*strategy, nn::Sequential({nn::Activation("relu")}),
                  loss::SparseSoftmaxCrossEntropy(), Momentum());
  const absl::Status first = trainer.Fit(ClassificationEpochs(1), {}).status();
  EXPECT_EQ(first.code(), absl::StatusCode::kInvalidArgument) << first;
  EXPECT_EQ(trainer.Fit(ClassificationEpochs(1), {}).status(), first);
  EXPECT_EQ(trainer.Variable("dense/kernel").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Trainer, RefusesDataThatCannotBeTrainedWith) {
  const auto strategy = Mirrored(1);
  const auto fit = [&](std::vector<std::vector<Tensor>> batches) {
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    return trainer.Fit(Given(std::move(batches)), {}).status();
  };
  const std::vector<Tensor> good = ClassificationBatch(0);
  EXPECT_EQ(fit({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fit({{good[0]}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fit({{good[0], good[1].Slice(0, 3)}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fit({{Tensor::Scalar<float>(1), Tensor::Scalar<int32_t>(1)}}).code(),
            absl::StatusCode::kInvalidArgument);
  // The model was built for six features.
  EXPECT_EQ(fit({good, {Tensor::Zeros(kFloat32, Shape({20, 5})), good[1]}}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Trainer, RefusesPartsThatAreMissing) {
  const auto strategy = Mirrored(1);
  const auto fit = [&](nn::LayerPtr model, LossFunction loss, TrainerOptions options,
                       const FitOptions& fit_options, const OpenEpoch& data) {
    Trainer trainer(*strategy, std::move(model), std::move(loss), Momentum(), std::move(options));
    return trainer.Fit(data, fit_options).status();
  };
  const auto data = ClassificationEpochs(1);
  const auto loss = loss::SparseSoftmaxCrossEntropy();
  const auto expect_refused = [](const absl::Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  };
  FitOptions null_callback;
  null_callback.callbacks = {nullptr};
  expect_refused(fit(TwoLayers(), loss, {}, null_callback, data), "callback");
  expect_refused(fit(TwoLayers(), loss, {.metrics = std::vector<MetricPtr>{nullptr}}, {}, data),
                 "metric");
  expect_refused(fit(TwoLayers(), loss, {}, {}, OpenEpoch()), "data");
  expect_refused(fit(TwoLayers(), loss, {}, {}, [](int) { return NextBatch(); }), "NextBatch");
  expect_refused(fit(nullptr, loss, {}, {}, data), "model");
  expect_refused(fit(TwoLayers(), nullptr, {}, {}, data), "loss");
  expect_refused(
      fit(
          TwoLayers(), [](const Scope&, Output, Output) { return Output(); }, {}, {}, data),
      "loss");
  // A loss that knows nothing of the model.
  expect_refused(fit(
                     TwoLayers(),
                     [](const Scope& scope, Output labels, Output) {
                       return scope.Call("Cast", {labels}, {{"DstT", kFloat32}});
                     },
                     {}, {}, data),
                 "nothing to learn");
}

TEST(Trainer, AStepThatFailsChangesNothing) {
  for (const int replicas : {1, 2}) {
    const auto strategy = Mirrored(replicas);
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    ASSERT_TRUE(trainer.Fit(ClassificationEpochs(3), {}).ok());
    const std::vector<float> before = Weights(trainer);
    std::vector<Tensor> bad = ClassificationBatch(3);
    // Only the last example's, so that one replica of two has nothing to complain of.
    bad[1].MutableElements<int32_t>()[19] = 1000;
    const absl::Status status = trainer.Fit(Given({bad}), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(Weights(trainer), before) << replicas;
  }
}

TEST(Trainer, PredictsInOrderUnderReplicas) {
  std::vector<std::vector<float>> outputs;
  for (const int replicas : {1, 2, 3}) {
    const auto strategy = Mirrored(replicas);
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    ASSERT_TRUE(trainer.Fit(ClassificationEpochs(1), {}).ok());
    const auto prediction = trainer.Predict(ClassificationBatch(5)[0]);
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    EXPECT_EQ(prediction->shape(), Shape({20, kClasses}));
    outputs.emplace_back(prediction->Elements<float>().begin(),
                         prediction->Elements<float>().end());
  }
  ExpectNear(outputs[1], outputs[0], 1e-4f);
  ExpectNear(outputs[2], outputs[0], 1e-4f);
}

TEST(Trainer, StepsMayEndOutOfOrderAndMembersMayBeLost) {
  const UnrulyStrategy strategy({.steps_in_flight = 4, .lost_step = 9, .failures = 2});
  Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 0.2}));
  FitOptions fit;
  fit.epochs = 10;
  const auto history = trainer.Fit(ClassificationEpochs(40), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT(history->back().loss, 0.7 * history->front().loss);
  EXPECT_EQ(history->front().examples, 800);
  // Every step once, the lost one after all as well.
  EXPECT_EQ(strategy.steps_run(), 400);
  EXPECT_GT(strategy.steps_out_of_order(), 0);
  const std::vector<MemberEvent> events = trainer.TakeMemberEvents();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].kind, MemberEvent::Kind::kLeft);
  EXPECT_EQ(events[0].member, "/job:worker/task:1");
  EXPECT_EQ(events[1].kind, MemberEvent::Kind::kJoined);
  EXPECT_GT(events[1].generation, events[0].generation);
}

TEST(Trainer, StepsInFlightThatDoNotEndAreCancelledAfterAnError) {
  const UnrulyStrategy strategy({.steps_in_flight = 4});
  Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 0.2}));
  FitOptions fit;
  fit.step_grace = absl::ZeroDuration();
  // The data fails when two steps of the second group are in flight, which wait for the others.
  const auto failing = [](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int>(0);
    return NextBatch([next]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == 6) return absl::DataLossError("the disk is gone");
      return absl::optional<std::vector<Tensor>>(ClassificationBatch((*next)++));
    });
  };
  EXPECT_EQ(trainer.Fit(failing, fit).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(trainer.step(), 6);
  // The trainer goes on: 6 and 7 belong to the group that was cancelled.
  const auto history = trainer.Fit(ClassificationEpochs(6), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->back().examples, 120);
}

TEST(Trainer, AStopInTheMiddleOfAGroupEndsTheTraining) {
  const UnrulyStrategy strategy({.steps_in_flight = 4});
  Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 0.2}));
  FitOptions fit;
  fit.step_grace = absl::ZeroDuration();
  const auto stopping = [&](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int>(0);
    return NextBatch([&, next]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == 6) trainer.Stop(StopReason::kPreempted);
      return absl::optional<std::vector<Tensor>>(ClassificationBatch((*next)++));
    });
  };
  const absl::Status status = trainer.Fit(stopping, fit).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(ExitCodeOf(status), 143);
  EXPECT_EQ(trainer.step(), 7);
}

TEST(Trainer, EvaluationsAndPredictionsThatLoseAMemberAreRepeated) {
  // The steps of both have the number of the next training step.
  const UnrulyStrategy strategy({.steps_in_flight = 1, .lost_step = 4, .failures = 4});
  Trainer trainer(strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(),
                  {.max_step_attempts = 3});
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(4), {}).ok());
  const absl::Status status = trainer.Evaluate(ClassificationEpochs(2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(status.message(), "batch 1 was aborted 3 times")) << status;
  const auto prediction = trainer.Predict(ClassificationBatch(5)[0]);
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  EXPECT_EQ(trainer.TakeMemberEvents().size(), 8u);
  EXPECT_TRUE(trainer.Evaluate(ClassificationEpochs(2)).ok());
}

TEST(Trainer, GivesUpAStepThatIsLostTooOften) {
  const UnrulyStrategy hopeless({.steps_in_flight = 2, .lost_step = 0, .failures = 100});
  Trainer other(hopeless, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(),
                {.max_step_attempts = 3});
  const absl::Status status = other.Fit(ClassificationEpochs(1), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(absl::StrContains(status.message(), "3 times")) << status;
}

TEST(Trainer, StateGoesFromOneStrategyToAnother) {
  const auto one = Mirrored(1);
  const auto two = Mirrored(2);
  Trainer from(*one, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  ASSERT_TRUE(from.Fit(ClassificationEpochs(5), {}).ok());
  const auto state = from.CaptureState();
  ASSERT_TRUE(state.ok()) << state.status();
  Trainer to(*two, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(), {.seed = 77});
  EXPECT_EQ(to.RestoreState(*state).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(to.Fit(ClassificationEpochs(1), {}).ok());
  ASSERT_TRUE(to.RestoreState(*state).ok());
  EXPECT_EQ(Weights(to), Weights(from));
  // All copies were set: they go on together.
  ASSERT_TRUE(from.Fit(ClassificationEpochs(5), {}).ok());
  ASSERT_TRUE(to.Fit(ClassificationEpochs(5), {}).ok());
  ExpectNear(Weights(to), Weights(from), 1e-4f);

  StrategyState missing(state->begin() + 1, state->end());
  EXPECT_EQ(to.RestoreState(missing).code(), absl::StatusCode::kNotFound);
  StrategyState unknown = *state;
  unknown.emplace_back("dense/kernal", Tensor::Scalar<float>(1));
  const absl::Status status = to.RestoreState(unknown);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "dense/kernel")) << status;
  StrategyState misshapen = *state;
  misshapen[0].second = Tensor::Scalar<float>(1);
  EXPECT_EQ(to.RestoreState(misshapen).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Trainer, AccumulatedStepsMakeOneLargeOne) {
  const auto strategy = Mirrored(1);
  Trainer large(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  ASSERT_TRUE(large.Fit(ClassificationEpochs(4, 60), {}).ok());
  for (const int replicas : {1, 2}) {
    const auto accumulating = Mirrored(replicas);
    Trainer small(*accumulating, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Accumulate(Momentum(), 3));
    ASSERT_TRUE(small.Fit(ClassificationEpochs(12, 20), {}).ok());
    for (const std::string& name : large.VariableNames()) {
      const auto a = large.Variable(name);
      const auto b = small.Variable(name);
      ASSERT_TRUE(a.ok() && b.ok()) << name << b.status();
      for (int64_t i = 0; i < a->num_elements(); ++i) {
        ASSERT_NEAR(a->Elements<float>()[static_cast<size_t>(i)],
                    b->Elements<float>()[static_cast<size_t>(i)], 2e-5)
            << name << " " << replicas;
      }
    }
  }
}

TEST(Trainer, MetricsAreTheSameHoweverTheDataIsCut) {
  std::vector<EpochResult> results;
  for (const int replicas : {1, 2, 3}) {
    const auto strategy = Mirrored(replicas);
    Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(),
                    {.metrics = std::vector<MetricPtr>{metric::Accuracy(), metric::TopK(2)}});
    ASSERT_TRUE(trainer.Fit(ClassificationEpochs(10), {}).ok());
    // Batches that leave replicas with different numbers of examples, and some with none.
    const auto result = trainer.Evaluate(Given(
        {ClassificationBatch(50, 7), ClassificationBatch(51, 1), ClassificationBatch(52, 20)}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->examples, 28);
    results.push_back(*result);
  }
  for (const EpochResult& result : results) {
    ASSERT_EQ(result.metrics.size(), 2u);
    EXPECT_NEAR(result.loss, results[0].loss, 1e-4);
    EXPECT_DOUBLE_EQ(result.metrics[0].second, results[0].metrics[0].second);
    EXPECT_DOUBLE_EQ(result.metrics[1].second, results[0].metrics[1].second);
    EXPECT_GE(result.metrics[1].second, result.metrics[0].second);
  }
}

// A callback that writes down what it sees.
class Recorder final : public Callback {
 public:
  absl::Status OnBegin(Trainer&) override {
    calls += "b";
    return absl::OkStatus();
  }
  absl::StatusOr<Next> OnStep(Trainer&, const TrainingProgress& progress) override {
    calls += "s";
    last = progress;
    return Next::kGoOn;
  }
  absl::StatusOr<Next> OnEpoch(Trainer&, int, const EpochResult& result) override {
    calls += "e";
    has_validation = result.validation != nullptr;
    return Next::kGoOn;
  }
  absl::Status OnEnd(Trainer&, const absl::Status&) override {
    calls += "E";
    return absl::OkStatus();
  }
  std::string calls;
  TrainingProgress last;
  bool has_validation = false;
};

data::Dataset Examples(int64_t number, int64_t count) {
  return data::Dataset::FromTensors(ClassificationBatch(number, count));
}

TEST(Trainer, CallbacksSeeStepsEpochsAndTheEnd) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  const auto recorder = std::make_shared<Recorder>();
  FitOptions fit;
  fit.epochs = 2;
  fit.validation = Examples(9, 30).Batch(10);
  fit.callbacks = {recorder};
  const auto history = trainer.Fit(Examples(0, 30).Batch(10), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(recorder->calls, "bsssessseE");
  EXPECT_TRUE(recorder->has_validation);
  EXPECT_EQ(recorder->last.step, 3);
  EXPECT_EQ(recorder->last.steps, 3);
  EXPECT_EQ(recorder->last.epochs, 2);
  EXPECT_NEAR(recorder->last.learning_rate, 0.1, 1e-9);
  ASSERT_EQ(history->size(), 2u);
  EXPECT_TRUE(history->back().Value("validation_accuracy").has_value());
  EXPECT_FALSE(history->back().Value("validation_auc").has_value());
}

TEST(Trainer, AnEpochHasAtMostItsNumberOfStepsAndTheNextGoesOnThere) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  const auto recorder = std::make_shared<Recorder>();
  FitOptions fit;
  fit.epochs = 5;
  fit.steps_per_epoch = 3;
  fit.callbacks = {recorder};
  // Six batches: the third epoch begins the data again, as does the fifth.
  std::vector<int> opened;
  std::vector<int64_t> taken;
  const auto data = [&](int epoch) -> absl::StatusOr<NextBatch> {
    opened.push_back(epoch);
    auto next = std::make_shared<int64_t>(0);
    return NextBatch([&, next]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == 6) return absl::optional<std::vector<Tensor>>();
      taken.push_back(*next);
      return absl::optional<std::vector<Tensor>>(ClassificationBatch((*next)++));
    });
  };
  const auto history = trainer.Fit(data, fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(recorder->calls,
            "bssse"
            "ssse"
            "ssse"
            "ssse"
            "ssse"
            "E");
  EXPECT_EQ(opened, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(taken, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2}));

  // An epoch over data without an end has an end.
  fit.epochs = 2;
  const auto endless = trainer.Fit(Examples(0, 30).Repeat().Batch(10), fit);
  ASSERT_TRUE(endless.ok()) << endless.status();
  ASSERT_EQ(endless->size(), 2u);
  EXPECT_EQ(endless->back().examples, 30);
  EXPECT_EQ(recorder->last.steps, 3);

  // Where the data ends an epoch is shorter.
  fit.epochs = 3;
  fit.steps_per_epoch = 2;
  const auto shorter = trainer.Fit(Examples(0, 30).Batch(10), fit);
  ASSERT_TRUE(shorter.ok()) << shorter.status();
  EXPECT_EQ((*shorter)[0].examples, 20);
  EXPECT_EQ((*shorter)[1].examples, 10);
  EXPECT_EQ((*shorter)[2].examples, 20);

  fit.steps_per_epoch = 0;
  EXPECT_EQ(trainer.Fit(ClassificationEpochs(1), fit).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Trainer, EndsTheCallbacksThatBeganWhenOneCannotAndFulfilsAStop) {
  class Failing final : public Callback {
   public:
    absl::Status OnBegin(Trainer&) override { return absl::DataLossError("no log file"); }
    absl::Status OnEnd(Trainer&, const absl::Status&) override {
      ADD_FAILURE() << "it never began";
      return absl::OkStatus();
    }
  };
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  const auto first = std::make_shared<Recorder>();
  const auto third = std::make_shared<Recorder>();
  FitOptions fit;
  fit.callbacks = {first, std::make_shared<Failing>(), third};
  trainer.Stop();
  EXPECT_EQ(trainer.Fit(ClassificationEpochs(1), fit).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(first->calls, "bE");
  EXPECT_EQ(third->calls, "");
  EXPECT_TRUE(trainer.Fit(ClassificationEpochs(1), {}).ok());
}

TEST(Trainer, BestWeightsTrainsToTheEndAndKeepsTheBestEpoch) {
  const auto strategy = Mirrored(2);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Sgd({.learning_rate = 0.5, .momentum = 0.95}));
  double best = 1e9;
  int best_epoch = -1;
  std::vector<float> best_weights;
  FitOptions fit;
  fit.epochs = 60;
  fit.validation = Examples(50, 40).Batch(20);
  fit.callbacks = {callback::BestWeights()};
  fit.on_epoch = [&](int epoch, const EpochResult& result) {
    const double value = *result.Value("validation_loss");
    if (value < best) {
      best = value;
      best_epoch = epoch;
      best_weights = Weights(trainer);
    }
    return true;
  };
  const auto history = trainer.Fit(Examples(0, 20).Batch(10), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 60u);
  ASSERT_LT(best_epoch, 59) << "the last epoch is the best; nothing was brought back";
  EXPECT_EQ(Weights(trainer), best_weights);
}

const bool bad_example_registered = data::RegisterMapFunction(
    "trainer_test_bad_example",
    [](const data::MapContext& context, data::Element element) -> absl::StatusOr<data::Element> {
      if (context.index == 17) return absl::DataLossError("a bad example");
      return element;
    });

TEST(Trainer, AnErrorInAMapReachesTheTrainingWithTheElementsIndex) {
  ASSERT_TRUE(bad_example_registered);
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  int64_t steps = 0;
  FitOptions fit;
  fit.on_step = [&](const TrainingProgress& progress) {
    steps = progress.step;
    return true;
  };
  const data::Dataset data = Examples(0, 30).Map("trainer_test_bad_example").Batch(10);
  const absl::Status status = trainer.Fit(data, fit).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a bad example")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "element 17")) << status;
  EXPECT_EQ(steps, 1);
}

TEST(Trainer, EarlyStoppingEndsAndBringsTheBestWeightsBack) {
  const auto strategy = Mirrored(2);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  int worse = 0;
  double best = 1e9;
  std::vector<float> best_weights;
  FitOptions fit;
  fit.epochs = 500;
  fit.validation = Examples(50, 40).Batch(20);
  fit.callbacks = {callback::EarlyStopping({.patience = 2})};
  fit.on_epoch = [&](int, const EpochResult& result) {
    const double value = *result.Value("validation_loss");
    worse = value < best ? 0 : worse + 1;
    if (value < best) {
      best = value;
      best_weights = Weights(trainer);
    }
    return true;
  };
  // Few examples, seen again and again: the validation gets worse in the end.
  const auto history = trainer.Fit(Examples(0, 20).Batch(10), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_LT(history->size(), 500u);
  EXPECT_EQ(worse, 3);
  EXPECT_EQ(Weights(trainer), best_weights);
}

TEST(Trainer, AWatchedValueThatDoesNotExistIsAnErrorThatNamesThoseThatDo) {
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  FitOptions fit;
  fit.callbacks = {callback::EarlyStopping({.value = "validation_loss"})};
  const absl::Status status = trainer.Fit(ClassificationEpochs(2), fit).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "accuracy")) << status;
}

TEST(Trainer, TwoTrainersOfOneStrategyDoNotMeet) {
  const auto strategy = Mirrored(1);
  Trainer a(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  ASSERT_TRUE(a.Fit(ClassificationEpochs(3), {}).ok());
  const std::vector<float> before = Weights(a);
  Trainer b(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(), {.seed = 5});
  ASSERT_TRUE(b.Fit(ClassificationEpochs(3), {}).ok());
  EXPECT_EQ(Weights(a), before);
  EXPECT_NE(Weights(b), before);
}

TEST(Trainer, ABatchNormThatIsUsedTwiceMovesItsStatisticsTwice) {
  const auto strategy = Mirrored(2);
  const nn::LayerPtr norm = nn::BatchNorm({.momentum = 0.5, .synchronized = true});
  Trainer trainer(*strategy, nn::Sequential({norm, norm, nn::Dense({.units = kClasses})}),
                  loss::SparseSoftmaxCrossEntropy(), Momentum());
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(1), {}).ok());
  const auto mean = trainer.Variable("batch_norm/moving_mean");
  ASSERT_TRUE(mean.ok()) << mean.status();
  // The batch's means are about 0.5, and those of what was normalized 0: half of a half of it.
  for (const float value : mean->Elements<float>()) EXPECT_NEAR(value, 0.125, 0.05);
}

TEST(Trainer, ARateThatIsNoneIsAnErrorThatNamesTheStep) {
  const auto strategy = Mirrored(1);
  for (const double bad : {-1.0, std::nan("")}) {
    Trainer trainer(
        *strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(),
        optimizer::Sgd({.schedule = [bad](int64_t step) { return step == 2 ? bad : 0.1; }}));
    const absl::Status status = trainer.Fit(ClassificationEpochs(5), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "step 3")) << status;
  }
}

TEST(Trainer, AMetricWhoseSumsAreNotFloatsIsRefused) {
  class Doubles final : public Metric {
   public:
    std::string name() const override { return "doubles"; }
    absl::StatusOr<std::vector<Output>> Sums(const Scope& scope, Output, Output) const override {
      return std::vector<Output>{scope.Constant(1.0)};
    }
    double Result(const std::vector<Tensor>&) const override { return 0; }
  };
  const auto strategy = Mirrored(1);
  Trainer trainer(*strategy, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum(),
                  {.metrics = std::vector<MetricPtr>{std::make_shared<Doubles>()}});
  const absl::Status status = trainer.Fit(ClassificationEpochs(1), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'doubles'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "float64")) << status;
}

TEST(Trainer, ALossOfOtherThanOneNumberForEachExampleIsRefused) {
  const auto strategy = Mirrored(1);
  Trainer trainer(
      *strategy, TwoLayers(),
      [](const Scope& scope, Output, Output outputs) -> absl::StatusOr<Output> {
        return scope.Call("Square", {outputs});
      },
      Momentum());
  const absl::Status status = trainer.Fit(ClassificationEpochs(1), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "one for each example")) << status;
}

TEST(Trainer, AccuracyIsLeftOutWhereItMeansNothing) {
  const auto strategy = Mirrored(1);
  // Whole numbers as labels of a regression.
  Trainer trainer(
      *strategy, nn::Sequential({nn::Dense({.units = 1}), nn::Reshape({})}),
      [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
        return scope.Call("SquaredDifference",
                          {outputs, scope.Call("Cast", {labels}, {{"DstT", kFloat32}})});
      },
      Momentum());
  const auto history = trainer.Fit(ClassificationEpochs(2), {});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FALSE(history->back().Value("accuracy").has_value());
}

TEST(Trainer, CentralStorageGivesTheNumbersOfMirrored) {
  const auto mirrored = Mirrored(2);
  Trainer expected(*mirrored, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
  ASSERT_TRUE(expected.Fit(ClassificationEpochs(20), {}).ok());
  for (const std::string type : {"CPU", "SIM"}) {
    const auto central = Strategy::CentralStorage({.replicas = 2, .device_type = type});
    ASSERT_TRUE(central.ok()) << central.status();
    Trainer trainer(**central, TwoLayers(), loss::SparseSoftmaxCrossEntropy(), Momentum());
    const auto history = trainer.Fit(ClassificationEpochs(20), {});
    ASSERT_TRUE(history.ok()) << type << history.status();
    ExpectNear(Weights(trainer), Weights(expected), 1e-4f);
  }
}

}  // namespace
}  // namespace tandem
