// The evaluator of a job: Fit evaluates the checkpoints of the others.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "strategies/trainer/resume_test_util.h"

namespace tandem {
namespace {

using testing::Data;
using testing::DieAfter;
using testing::kStepsPerEpoch;
using testing::Outcome;
using testing::Resuming;
using testing::SavingTo;
using testing::Train;
using testing::TrainingSetup;

class Evaluator : public ::testing::Test {
 protected:
  ~Evaluator() override { unsetenv("TF_CONFIG"); }

  static void BecomeEvaluator() {
    setenv("TF_CONFIG",
           R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})", 1);
  }
  static void ExpectResult(const EpochResult& got, const EpochResult& validation) {
    EXPECT_EQ(got.loss, validation.loss);
    EXPECT_EQ(got.metrics, validation.metrics);
    EXPECT_EQ(got.examples, validation.examples);
  }

  const std::unique_ptr<Strategy> strategy_ = *Strategy::OneDevice({});
  FaultyFileSystem files_;
};

TEST_F(Evaluator, EvaluatesWhatATrainingEndedWith) {
  const Outcome trained = Train(*strategy_, {}, SavingTo(&files_, 100));
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  BecomeEvaluator();
  const Outcome evaluated = Train(*strategy_, {}, SavingTo(&files_, 100));
  ASSERT_TRUE(evaluated.status.ok()) << evaluated.status;
  ASSERT_EQ(evaluated.history.size(), 1u);
  ExpectResult(evaluated.history[0], *trained.history.back().validation);
  EXPECT_EQ(evaluated.steps, 0);
}

TEST_F(Evaluator, FollowsATrainingToItsEnd) {
  FitOptions mortal = SavingTo(&files_, 1);
  DieAfter(kStepsPerEpoch + 2, mortal);
  ASSERT_EQ(Train(*strategy_, {}, mortal).status.code(), absl::StatusCode::kInternal);
  // From then on the evaluator knows what it is.
  std::atomic<bool> has_begun{false};
  TrainingSetup setup;
  setup.data = [&](int epoch) {
    has_begun = true;
    return Epochs(Data())(epoch);
  };
  Outcome evaluated;
  BecomeEvaluator();
  std::thread evaluator([&] { evaluated = Train(*strategy_, setup, SavingTo(&files_, 1)); });
  while (!has_begun) std::this_thread::yield();
  unsetenv("TF_CONFIG");
  const Outcome trained = Train(*strategy_, {}, Resuming(&files_, 1));
  evaluator.join();
  ASSERT_TRUE(trained.status.ok()) << trained.status;
  ASSERT_TRUE(evaluated.status.ok()) << evaluated.status;
  ASSERT_GE(evaluated.history.size(), 1u);
  ExpectResult(evaluated.history.back(), *trained.history.back().validation);
}

TEST_F(Evaluator, WaitsUntilItIsStopped) {
  BecomeEvaluator();
  Trainer trainer(*strategy_, nn::Dense({.units = 4}), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({}));
  FitOptions fit = SavingTo(&files_, 1);
  fit.validation = testing::Validation().Batch(10);
  std::atomic<bool> has_begun{false};
  const OpenEpoch data = [&](int epoch) {
    has_begun = true;
    return Epochs(Data())(epoch);
  };
  absl::Status status;
  std::thread evaluator([&] { status = trainer.Fit(data, fit).status(); });
  while (!has_begun) std::this_thread::yield();
  trainer.Stop(StopReason::kPreempted);
  evaluator.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(ExitCodeOf(status), 143);
}

TEST_F(Evaluator, SaysWhatItNeeds) {
  BecomeEvaluator();
  Trainer trainer(*strategy_, nn::Dense({.units = 4}), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::Adam({}));
  const auto results = trainer.Fit(Data(), {.epochs = 1});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(results.status().message(), "FitOptions::checkpoint_dir"))
      << results.status();
}

}  // namespace
}  // namespace tandem
