// A training that was killed goes on where it was, to the bit.
#include <csignal>
#include <memory>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/input/functions.h"
#include "strategies/testing/unruly_strategy.h"
#include "strategies/trainer/resume_test_util.h"

namespace tandem {
namespace {

using testing::DieAfter;
using testing::ExpectSameBits;
using testing::kStepsPerEpoch;
using testing::Outcome;
using testing::Resuming;
using testing::SavingTo;
using testing::Train;
using testing::TrainingSetup;

std::unique_ptr<Strategy> Deterministic(int replicas) {
  auto strategy = Strategy::Mirrored({.replicas = replicas, .virtual_replicas = 4});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return *std::move(strategy);
}

std::unique_ptr<Strategy> NewStrategy(const std::string& name) {
  return name == "one_device" ? *Strategy::OneDevice({}) : Deterministic(2);
}

class Resume : public ::testing::TestWithParam<std::string> {
 protected:
  Resume() : strategy_(NewStrategy(GetParam())), undisturbed_(Train(*strategy_, {}, {})) {}

  const std::unique_ptr<Strategy> strategy_;
  const Outcome undisturbed_;
};

INSTANTIATE_TEST_SUITE_P(Strategies, Resume, ::testing::Values("one_device", "deterministic"));

TEST_P(Resume, GoesOnToTheBitAfterEveryStep) {
  for (int64_t step = 1; step <= 3 * kStepsPerEpoch; ++step) {
    SCOPED_TRACE(::testing::Message() << "killed after step " << step);
    FaultyFileSystem files;
    FitOptions fit = SavingTo(&files, 1);
    // The checkpoint of the step itself is not written any more.
    DieAfter(step, fit);
    ASSERT_EQ(Train(*strategy_, {}, fit).status.code(), absl::StatusCode::kInternal);
    const Outcome resumed = Train(*strategy_, {}, Resuming(&files, 1));
    ExpectSameBits(resumed, undisturbed_);
    EXPECT_EQ(resumed.steps, 3 * kStepsPerEpoch);
  }
}

TEST_P(Resume, GoesOnFromAnEarlierCheckpointThroughManyDeaths) {
  FaultyFileSystem files;
  FitOptions fit = Resuming(&files, 2);
  fit.checkpoints.asynchronous = true;
  fit.checkpoint_epochs = false;
  int deaths = 0;
  Outcome outcome;
  do {
    FitOptions mortal = fit;
    DieAfter(4, mortal);
    outcome = Train(*strategy_, {}, mortal);
    ++deaths;
  } while (!outcome.status.ok() && deaths < 100);
  EXPECT_GT(deaths, 3);
  EXPECT_LT(deaths, 20);
  ExpectSameBits(outcome, undisturbed_);
}

TEST_P(Resume, GoesOnAfterASignalFromThatVeryStep) {
  FaultyFileSystem files;
  FitOptions fit = SavingTo(&files, 0);
  fit.checkpoint_epochs = false;
  int64_t steps = 0;
  fit.on_step = [&steps](const TrainingProgress&) {
    if (++steps == 8) std::raise(SIGTERM);
    return true;
  };
  const Outcome stopped = Train(*strategy_, {}, fit);
  EXPECT_EQ(ExitCodeOf(stopped.status), 143) << stopped.status;
  EXPECT_TRUE(absl::StrContains(stopped.status.message(), "'/run/ckpt-8' has its state"))
      << stopped.status;
  const auto checkpoint = Checkpoint::Open("/run", {&files});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), "/run/ckpt-8");
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), undisturbed_);
}

TEST_P(Resume, GoesOnAfterAStopBetweenEpochs) {
  FaultyFileSystem files;
  FitOptions fit = SavingTo(&files, 0);
  fit.on_epoch = [](int, const EpochResult&) {
    std::raise(SIGINT);
    return true;
  };
  EXPECT_EQ(ExitCodeOf(Train(*strategy_, {}, fit).status), 130);
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), undisturbed_);
}

int validations_until_signal = 0;

const bool interrupt_registered = data::RegisterMapFunction(
    "resume_test_interrupt",
    [](const data::MapContext& context, data::Element element) -> absl::StatusOr<data::Element> {
      if (context.index == 3 && --validations_until_signal == 0) std::raise(SIGINT);
      return element;
    });

TEST_P(Resume, GoesOnAfterAStopDuringValidation) {
  // The epoch's steps are done then, and its end has not come yet.
  ASSERT_TRUE(interrupt_registered);
  for (const bool save_after_last_step : {false, true}) {
    FaultyFileSystem files;
    FitOptions fit = SavingTo(&files, save_after_last_step ? kStepsPerEpoch : 0);
    fit.validation = testing::Validation().Map("resume_test_interrupt").Batch(10);
    validations_until_signal = 2;
    const Outcome stopped = Train(*strategy_, {}, fit);
    EXPECT_EQ(ExitCodeOf(stopped.status), 130) << stopped.status;
    EXPECT_EQ(stopped.steps, 2 * kStepsPerEpoch);
    ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), undisturbed_);
  }
}

TEST_P(Resume, OfATrainingThatIsDoneGivesItsResult) {
  FaultyFileSystem files;
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 4)), undisturbed_);
  const int64_t effects = files.effects();
  int64_t steps = 0;
  FitOptions again = Resuming(&files, 4);
  again.on_step = [&steps](const TrainingProgress&) { return ++steps > 0; };
  ExpectSameBits(Train(*strategy_, {}, again), undisturbed_);
  EXPECT_EQ(steps, 0);
  // Nothing is written a second time but the folder.
  EXPECT_LE(files.effects(), effects + 1);
}

TEST_P(Resume, TrainsOnWhenMoreEpochsAreAskedFor) {
  FaultyFileSystem files;
  const Outcome longer = Train(*strategy_, {.epochs = 4}, {});
  ExpectSameBits(Train(*strategy_, {.epochs = 2}, Resuming(&files, 0)),
                 Train(*strategy_, {.epochs = 2}, {}));
  ExpectSameBits(Train(*strategy_, {.epochs = 4}, Resuming(&files, 0)), longer);
}

TEST_P(Resume, KeepsWhatACallbackDecided) {
  const auto stops_at_7 = [](FitOptions fit) {
    fit.on_step = [](const TrainingProgress& progress) {
      return progress.epoch == 0 || progress.step < 2;
    };
    return fit;
  };
  const Outcome stopped = Train(*strategy_, {}, stops_at_7({}));
  EXPECT_EQ(stopped.history.size(), 2u);
  FaultyFileSystem files;
  ExpectSameBits(Train(*strategy_, {}, stops_at_7(SavingTo(&files, 0))), stopped);
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), stopped);
}

TEST_P(Resume, GoesOnInEpochsThatShareTheData) {
  const auto short_epochs = [](FitOptions fit) {
    fit.steps_per_epoch = 3;
    return fit;
  };
  const Outcome whole = Train(*strategy_, {.epochs = 5}, short_epochs({}));
  for (const int64_t step : {2, 3, 4, 8}) {
    FaultyFileSystem files;
    FitOptions fit = short_epochs(SavingTo(&files, 1));
    DieAfter(step, fit);
    Train(*strategy_, {.epochs = 5}, fit);
    ExpectSameBits(Train(*strategy_, {.epochs = 5}, short_epochs(Resuming(&files, 1))), whole);
  }
}

// Five batches an epoch from a function.
OpenEpoch Function(int* calls) {
  return [calls](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(NextBatch inner, Epochs(testing::Data())(epoch));
    return NextBatch([inner, calls] {
      ++*calls;
      return inner();
    });
  };
}

TEST_P(Resume, ReadsAFunctionUpToWhereItWas) {
  FaultyFileSystem files;
  int calls = 0;
  FitOptions fit = SavingTo(&files, 1);
  DieAfter(9, fit);
  Train(*strategy_, {.data = Function(&calls)}, fit);
  EXPECT_EQ(calls, 5 + 1 + 4);
  calls = 0;
  ExpectSameBits(Train(*strategy_, {.data = Function(&calls)}, Resuming(&files, 1)), undisturbed_);
  // Three of the second epoch once more, the other two and its end, and the third epoch.
  EXPECT_EQ(calls, 3 + 2 + 1 + 5 + 1);
}

TEST_P(Resume, RestoresASourceThatBringsItsPosition) {
  // Numbers of batches are positions.
  const auto source = [](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(NextBatch inner, Epochs(testing::Data())(epoch));
    const auto given = std::make_shared<int>(0);
    const NextBatch::Function next = [inner, given]() -> NextBatch::Result {
      ++*given;
      return inner();
    };
    return NextBatch(
        next, [given]() -> absl::StatusOr<std::string> { return std::string(1, 'a' + *given); },
        [next, given](absl::string_view position) -> absl::Status {
          while (*given < position[0] - 'a') TANDEM_RETURN_IF_ERROR(next().status());
          return absl::OkStatus();
        });
  };
  FaultyFileSystem files;
  FitOptions fit = SavingTo(&files, 1);
  DieAfter(9, fit);
  Train(*strategy_, {.data = source}, fit);
  ExpectSameBits(Train(*strategy_, {.data = source}, Resuming(&files, 1)), undisturbed_);
}

TEST(ResumeElsewhere, GoesOnUnderAnotherNumberOfReplicas) {
  // In deterministic mode even to the bit.
  const Outcome undisturbed = Train(*Deterministic(2), {}, {});
  for (const int replicas : {1, 4}) {
    FaultyFileSystem files;
    FitOptions fit = SavingTo(&files, 1);
    DieAfter(8, fit);
    Train(*Deterministic(2), {}, fit);
    ExpectSameBits(Train(*Deterministic(replicas), {}, Resuming(&files, 1)), undisturbed);
  }
}

TEST(ResumeElsewhere, GoesOnUnderAnotherStrategy) {
  const std::unique_ptr<Strategy> mirrored = *Strategy::Mirrored({.replicas = 2});
  const std::unique_ptr<Strategy> one_device = *Strategy::OneDevice({});
  const std::unique_ptr<Strategy> central = *Strategy::CentralStorage({.replicas = 4});
  const testing::UnrulyStrategy unruly({.steps_in_flight = 5});
  FaultyFileSystem files;
  // Each does a step less than an epoch, dies, and leaves the rest to the next.
  int64_t deaths = 0;
  for (const Strategy* strategy : {mirrored.get(), one_device.get(), central.get()}) {
    FitOptions fit = Resuming(&files, 1);
    DieAfter(kStepsPerEpoch, fit);
    const Outcome outcome = Train(*strategy, {}, fit);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInternal) << outcome.status;
    EXPECT_EQ(outcome.steps, ++deaths * (kStepsPerEpoch - 1) + 1);
  }
  const Outcome last = Train(*mirrored, {}, Resuming(&files, 1));
  ASSERT_TRUE(last.status.ok()) << last.status;
  EXPECT_EQ(last.steps, 3 * kStepsPerEpoch);
  EXPECT_EQ(last.history.size(), 3u);

  FaultyFileSystem others;
  FitOptions fit = SavingTo(&others, 5);
  const Outcome many_in_flight = Train(unruly, {.epochs = 2}, fit);
  ASSERT_TRUE(many_in_flight.status.ok()) << many_in_flight.status;
  const Outcome after = Train(*one_device, {}, Resuming(&others, 0));
  ASSERT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.steps, 3 * kStepsPerEpoch);
  EXPECT_EQ(after.history[1].loss, many_in_flight.history[1].loss);
}

TEST(ResumeElsewhere, AStopThatHadToCancelStepsSavesNothing) {
  // Five steps end together; the training is stopped when the second epoch has begun three.
  const testing::UnrulyStrategy unruly({.steps_in_flight = 5});
  int calls = 0;
  const OpenEpoch data = [&calls](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(NextBatch inner, Epochs(testing::Data())(epoch));
    return NextBatch([inner, &calls] {
      if (++calls == kStepsPerEpoch + 1 + 3) std::raise(SIGTERM);
      return inner();
    });
  };
  FaultyFileSystem files;
  FitOptions fit = SavingTo(&files, 0);
  fit.step_grace = absl::Milliseconds(1);
  const Outcome stopped = Train(unruly, {.data = data}, fit);
  EXPECT_EQ(ExitCodeOf(stopped.status), 143) << stopped.status;
  EXPECT_EQ(stopped.steps, 8);
  const auto checkpoint = Checkpoint::Open("/run", {&files});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), "/run/ckpt-5");
  const Outcome resumed = Train(unruly, {.data = data}, Resuming(&files, 0));
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  for (const EpochResult& epoch : resumed.history) EXPECT_EQ(epoch.examples, 37);
}

TEST(ResumeElsewhere, CheckpointsHaveTheNamesOfTheProgram) {
  FaultyFileSystem files;
  const Outcome outcome =
      Train(*Strategy::Mirrored({.replicas = 2}).value(), {}, SavingTo(&files, 0));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const auto checkpoint = Checkpoint::Open("/run", {&files});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::vector<std::string> names = outcome.variables;
  absl::c_sort(names);
  EXPECT_EQ((*checkpoint)->Names(), names);
  EXPECT_TRUE(absl::c_linear_search(names, "dense/kernel"));
  EXPECT_TRUE(absl::c_linear_search(names, "dense/kernel/adam/momentum"));
  EXPECT_EQ((*checkpoint)->Read("_tandem/step")->ScalarValue<int64_t>(), 3 * kStepsPerEpoch);
}

}  // namespace
}  // namespace tandem
