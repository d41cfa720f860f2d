#include "strategies/trainer/log_callback.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/io/event.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "strategies/testing/classification_problem.h"
#include "strategies/testing/unruly_strategy.h"
#include "strategies/trainer/trainer.h"

namespace tandem {
namespace {

using testing::ClassificationBatch;
using testing::ClassificationEpochs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Key;

// What a reader finds in the files of one run.
struct Logged {
  using Points = std::vector<std::pair<int64_t, double>>;
  std::map<std::string, Points> scalars;
  std::map<std::string, std::vector<int64_t>> others;  // The steps, by plugin and tag.
  int graphs = 0;
  std::vector<std::string> traces;
  std::vector<int64_t> restarts;
  size_t files = 0;

  std::vector<int64_t> StepsOf(const std::string& tag) const {
    std::vector<int64_t> steps;
    const auto found = scalars.find(tag);
    if (found == scalars.end()) return steps;
    for (const auto& point : found->second) steps.push_back(point.first);
    return steps;
  }
  std::vector<double> ValuesOf(const std::string& tag) const {
    std::vector<double> values;
    for (const auto& point : scalars.at(tag)) values.push_back(point.second);
    return values;
  }
};

Logged LogOf(FileSystem* files, const std::string& folder) {
  Logged run;
  const auto paths = ListEventFiles(files, folder);
  if (!paths.ok()) return run;
  run.files = paths->size();
  for (const std::string& path : *paths) {
    const auto reader = *EventReader::Open(files, path);
    for (tensorflow::Event event; *reader->Read(&event);) {
      run.graphs += event.graph_def().empty() ? 0 : 1;
      if (event.has_tagged_run_metadata()) run.traces.push_back(event.tagged_run_metadata().tag());
      if (event.has_session_log()) run.restarts.push_back(event.step());
      for (const tensorflow::Summary::Value& value : event.summary().value()) {
        const std::string& plugin = value.metadata().plugin_data().plugin_name();
        if (plugin == "scalars") {
          run.scalars[value.tag()].emplace_back(event.step(), value.tensor().float_val(0));
        } else {
          run.others[absl::StrCat(plugin, " ", value.tag())].push_back(event.step());
        }
      }
    }
  }
  return run;
}

class LogCallbackTest : public ::testing::Test {
 protected:
  LogCallbackTest() {
    EXPECT_TRUE(files_.MakeDirectories("/logs").ok());
    options_.writer.files = &files_;
  }

  Trainer NewTrainer(TrainerOptions options = {}) const {
    return Trainer(*strategy_, nn::Sequential({nn::Dense({.units = testing::kClasses})}),
                   loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({.learning_rate = 0.25}),
                   std::move(options));
  }
  FitOptions With(const CallbackPtr& log, int epochs = 2) const {
    FitOptions fit;
    fit.epochs = epochs;
    fit.validation = data::Dataset::FromTensors(ClassificationBatch(9, 30)).Batch(30);
    fit.callbacks = {log};
    return fit;
  }

  const std::unique_ptr<Strategy> strategy_ = *Strategy::OneDevice({});
  FaultyFileSystem files_;
  LogOptions options_;
};

TEST_F(LogCallbackTest, LogsTrainingAndValidationAsTwoRuns) {
  options_.every_steps = 4;
  const auto log = callback::Log("/logs", options_);
  Trainer trainer = NewTrainer();
  const auto history = trainer.Fit(ClassificationEpochs(10), With(log));
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_TRUE(log->status().ok()) << log->status();

  const Logged train = LogOf(&files_, "/logs/train");
  EXPECT_THAT(train.StepsOf("batch_loss"), ElementsAre(4, 8, 12, 16, 20));
  EXPECT_THAT(train.StepsOf("batch_accuracy"), ElementsAre(4, 8, 12, 16, 20));
  EXPECT_THAT(train.ValuesOf("batch_learning_rate"), ElementsAre(0.25, 0.25, 0.25, 0.25, 0.25));
  for (const double rate : train.ValuesOf("batch_examples_per_second")) EXPECT_GT(rate, 0);
  EXPECT_THAT(train.scalars, ::testing::Not(Contains(Key("batch_gradient_norm"))));
  EXPECT_THAT(train.StepsOf("epoch_loss"), ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(train.ValuesOf("epoch_loss")[1], static_cast<float>((*history)[1].loss));
  EXPECT_FLOAT_EQ(train.ValuesOf("epoch_accuracy")[1],
                  static_cast<float>(*(*history)[1].Value("accuracy")));
  EXPECT_THAT(train.ValuesOf("epoch_learning_rate"), ElementsAre(0.25, 0.25));
  EXPECT_THAT(train.StepsOf("epoch_examples_per_second"), ElementsAre(0, 1));
  EXPECT_EQ(train.graphs, 1);
  EXPECT_THAT(train.others, IsEmpty()) << "histograms are made on request";
  EXPECT_THAT(train.restarts, IsEmpty());

  const Logged validation = LogOf(&files_, "/logs/validation");
  EXPECT_THAT(validation.StepsOf("epoch_loss"), ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(validation.ValuesOf("epoch_loss")[0],
                  static_cast<float>((*history)[0].validation->loss));
  EXPECT_THAT(validation.StepsOf("epoch_accuracy"), ElementsAre(0, 1));
  EXPECT_THAT(validation.StepsOf("evaluation_loss_vs_iterations"), ElementsAre(10, 20));
  EXPECT_THAT(validation.StepsOf("evaluation_accuracy_vs_iterations"), ElementsAre(10, 20));

  EXPECT_EQ(LogOf(&files_, "/logs").files, 0u) << "without hyperparameters there is no third run";
}

TEST_F(LogCallbackTest, ABatchsLossIsTheMeanSinceTheLastValue) {
  options_.every_steps = 3;
  std::vector<double> losses;
  FitOptions fit = With(callback::Log("/logs", options_), 1);
  fit.on_step = [&](const TrainingProgress& progress) {
    losses.push_back(progress.step_loss);
    return true;
  };
  ASSERT_TRUE(NewTrainer().Fit(ClassificationEpochs(6), fit).ok());
  const std::vector<double> logged = LogOf(&files_, "/logs/train").ValuesOf("batch_loss");
  ASSERT_EQ(logged.size(), 2u);
  EXPECT_NEAR(logged[0], (losses[0] + losses[1] + losses[2]) / 3, 1e-6);
  EXPECT_NEAR(logged[1], (losses[3] + losses[4] + losses[5]) / 3, 1e-6);
}

TEST_F(LogCallbackTest, LogDirIsALogWithDefaults) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/log_dir_is_a_log");
  FitOptions fit;
  fit.epochs = 1;
  fit.log_dir = folder;
  ASSERT_TRUE(NewTrainer().Fit(ClassificationEpochs(3), fit).ok());
  const Logged train = LogOf(PosixFileSystem(), folder + "/train");
  EXPECT_THAT(train.StepsOf("epoch_loss"), Contains(0));
  EXPECT_EQ(LogOf(PosixFileSystem(), folder + "/validation").files, 0u);
}

TEST_F(LogCallbackTest, LogsTheGradientNormOnRequest) {
  options_.every_steps = 1;
  std::vector<double> norms;
  FitOptions fit = With(callback::Log("/logs", options_), 1);
  fit.on_step = [&](const TrainingProgress& progress) {
    norms.push_back(progress.gradient_norm.value_or(-1));
    return true;
  };
  for (const bool check : {false, true}) {
    TrainerOptions options;
    options.gradient_norm = true;
    options.check_gradients = check;
    ASSERT_TRUE(NewTrainer(options).Fit(ClassificationEpochs(3), fit).ok());
  }
  ASSERT_EQ(norms.size(), 6u);
  for (const double norm : norms) EXPECT_GT(norm, 0);
  EXPECT_EQ(norms[3], norms[0]);
  const std::vector<double> logged = LogOf(&files_, "/logs/train").ValuesOf("batch_gradient_norm");
  ASSERT_EQ(logged.size(), 6u);
  EXPECT_FLOAT_EQ(logged[1], norms[1]);
}

TEST_F(LogCallbackTest, TheGradientNormIsThatOfTheVariablesUpdate) {
  TrainerOptions options;
  options.gradient_norm = true;
  Trainer trainer = NewTrainer(options);
  StrategyState before;
  FitOptions fit;
  double norm = 0;
  fit.on_step = [&](const TrainingProgress& progress) {
    if (progress.number == 1) {
      before = *trainer.CaptureState();
      return true;
    }
    norm = *progress.gradient_norm;
    return false;
  };
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(5), fit).ok());
  const StrategyState after = *trainer.CaptureState();
  double squares = 0;
  for (const std::string& name : trainer.TrainableVariableNames()) {
    for (size_t v = 0; v < before.size(); ++v) {
      if (before[v].first != name) continue;
      const auto a = before[v].second.Elements<float>(), b = after[v].second.Elements<float>();
      for (size_t i = 0; i < a.size(); ++i) squares += std::pow((a[i] - b[i]) / 0.25, 2);
    }
  }
  EXPECT_GT(norm, 0);
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-4 * norm);
}

TEST_F(LogCallbackTest, LogsHistogramsOfTheTrainedVariablesOnRequest) {
  options_.histogram_epochs = 2;
  Trainer trainer(*strategy_, nn::Sequential({nn::Dense({.units = testing::kClasses})}),
                  loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(3), With(callback::Log("/logs", options_), 4)).ok());
  const Logged train = LogOf(&files_, "/logs/train");
  ASSERT_EQ(trainer.TrainableVariableNames().size(), 2u);
  EXPECT_EQ(train.others.size(), 2u) << "slots are left out";
  for (const std::string& name : trainer.TrainableVariableNames()) {
    const std::string key = absl::StrCat("histograms ", name, "/histogram");
    ASSERT_THAT(train.others, Contains(Key(key)));
    EXPECT_THAT(train.others.at(key), ElementsAre(1, 3));
  }
}

TEST_F(LogCallbackTest, HyperparametersAndTheEndAreInTheFolderItself) {
  options_.hyperparameters = {{"rate", 0.25}};
  ASSERT_TRUE(
      NewTrainer().Fit(ClassificationEpochs(3), With(callback::Log("/logs", options_), 1)).ok());
  const Logged run = LogOf(&files_, "/logs");
  EXPECT_THAT(run.others, IsSupersetOf({Key("hparams _hparams_/session_start_info"),
                                        Key("hparams _hparams_/session_end_info")}));
}

TEST_F(LogCallbackTest, TracesTheStepsThatWereAskedFor) {
  options_.trace_steps = {3, 4};
  ASSERT_TRUE(
      NewTrainer().Fit(ClassificationEpochs(6), With(callback::Log("/logs", options_), 1)).ok());
  const Logged train = LogOf(&files_, "/logs/train");
  EXPECT_THAT(train.traces, ElementsAre("step 3", "step 4"));
  const auto text = ReadFile(&files_, "/logs/steps_3-4.trace.json");
  ASSERT_TRUE(text.ok()) << text.status();
  int products = 0;
  const nlohmann::json document = nlohmann::json::parse(*text);
  for (const nlohmann::json& bar : document["traceEvents"]) {
    if (bar["ph"] != "X") continue;
    const std::string inputs = bar["args"]["inputs"];
    if (absl::StrContains(inputs, "float32[20,6]")) ++products;
  }
  EXPECT_GE(products, 2) << "one a step at least";
}

TEST_F(LogCallbackTest, StepsThatEndOutOfOrderAreAllLogged) {
  options_.every_steps = 1;
  options_.trace_steps = {2, 3};
  const testing::UnrulyStrategy unruly({.steps_in_flight = 4});
  Trainer trainer(unruly, nn::Sequential({nn::Dense({.units = testing::kClasses})}),
                  loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({}));
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(8), With(callback::Log("/logs", options_), 1)).ok());
  const Logged train = LogOf(&files_, "/logs/train");
  EXPECT_THAT(train.StepsOf("batch_loss"), ::testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(train.traces, ::testing::UnorderedElementsAre("step 2", "step 3"));
  EXPECT_TRUE(files_.Stat("/logs/steps_2-3.trace.json").ok());
}

TEST_F(LogCallbackTest, ATrainingThatGoesOnGoesOnOnTheSameAxesInNewFiles) {
  options_.every_steps = 5;
  ASSERT_TRUE(
      NewTrainer().Fit(ClassificationEpochs(10), With(callback::Log("/logs", options_), 1)).ok());
  TrainerOptions later;
  later.first_step = 10;
  ASSERT_TRUE(NewTrainer(later)
                  .Fit(ClassificationEpochs(10), With(callback::Log("/logs", options_), 1))
                  .ok());
  const Logged train = LogOf(&files_, "/logs/train");
  EXPECT_EQ(train.files, 2u);
  EXPECT_THAT(train.StepsOf("batch_loss"), ElementsAre(5, 10, 15, 20));
  EXPECT_THAT(train.restarts, ElementsAre(11)) << "what was logged from there on is out of date";
  EXPECT_THAT(LogOf(&files_, "/logs/validation").StepsOf("evaluation_loss_vs_iterations"),
              ElementsAre(10, 20));
}

TEST_F(LogCallbackTest, EverythingIsInTheFilesAfterAnError) {
  options_.every_steps = 1;
  options_.hyperparameters = {{"rate", 0.25}};
  options_.trace_steps = {2, 100};
  int batches = 0;
  const OpenEpoch failing = [&](int) -> absl::StatusOr<NextBatch> {
    return NextBatch([&]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (++batches > 3) return absl::DataLossError("the disk with the data is gone");
      return absl::optional<std::vector<Tensor>>(ClassificationBatch(batches));
    });
  };
  const auto status = NewTrainer().Fit(failing, With(callback::Log("/logs", options_))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(LogOf(&files_, "/logs/train").StepsOf("batch_loss"), ElementsAre(1, 2, 3));
  EXPECT_THAT(LogOf(&files_, "/logs").others, Contains(Key("hparams _hparams_/session_end_info")));
  EXPECT_TRUE(files_.Stat("/logs/steps_2-100.trace.json").ok()) << "what there is of it";
}

TEST_F(LogCallbackTest, ALossThatIsNotANumberIsLogged) {
  options_.every_steps = 1;
  FitOptions fit = With(callback::Log("/logs", options_), 1);
  fit.stop_on_non_finite_loss = false;
  Trainer trainer(*strategy_, nn::Sequential({nn::Dense({.units = testing::kClasses})}),
                  loss::SparseSoftmaxCrossEntropy(), optimizer::Sgd({.learning_rate = 1e38}));
  ASSERT_TRUE(trainer.Fit(ClassificationEpochs(4), fit).ok());
  const std::vector<double> losses = LogOf(&files_, "/logs/train").ValuesOf("batch_loss");
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_FALSE(std::isfinite(losses.back()));
}

TEST_F(LogCallbackTest, AFullDiskDoesNotEndTheTraining) {
  options_.every_steps = 1;
  const auto log = callback::Log("/logs", options_);
  FitOptions fit = With(log);
  fit.on_step = [&](const TrainingProgress& progress) {
    if (progress.number == 1) {
      files_.FailAt(0, absl::ResourceExhaustedError("the disk is full"), 1'000'000);
    }
    return true;
  };
  const auto history = NewTrainer().Fit(ClassificationEpochs(3), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->size(), 2u);
  EXPECT_EQ(log->status().code(), absl::StatusCode::kResourceExhausted) << log->status();
}

TEST_F(LogCallbackTest, AFolderThatCannotBeWrittenToIsSaidBeforeTheFirstStep) {
  files_.FailAt(0, absl::PermissionDeniedError("no"), 1'000'000);
  Trainer trainer = NewTrainer();
  const auto status =
      trainer.Fit(ClassificationEpochs(3), With(callback::Log("/logs", options_))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_EQ(trainer.step(), 0);
}

TEST_F(LogCallbackTest, OptionsAreChecked) {
  std::vector<LogOptions> bad(5, options_);
  bad[0].every_steps = -1;
  bad[1].histogram_epochs = -1;
  bad[2].trace_steps = {0, 3};
  bad[3].trace_steps = {5, 4};
  bad[4].trace_steps = {1, kMaxTracedSteps + 1};
  for (const LogOptions& options : bad) {
    const auto status =
        NewTrainer().Fit(ClassificationEpochs(3), With(callback::Log("/logs", options))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

}  // namespace
}  // namespace tandem
