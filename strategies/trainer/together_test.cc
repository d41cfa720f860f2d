// Trainings of several workers, which are threads of this process: they give the numbers of one,
// and lose nothing when workers come, go and are lost.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/rpc/security.h"
#include "strategies/strategy.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/trainer.h"
#include "strategies/workers.h"

namespace tandem {
namespace {

using testing::ClassificationEpochs;
using testing::kClasses;

constexpr int kVirtualReplicas = 6;
constexpr int64_t kSteps = 40;  // Of an epoch.

// An address of this test process's own, so that ports cannot collide.
std::string Host() {
  const int pid = getpid();
  return absl::StrCat("127.", 10 + pid / 62500 % 200, ".", 1 + pid / 250 % 250, ".", 1 + pid % 250);
}

// What a worker's training ended with.
struct Outcome {
  absl::Status status;
  std::vector<EpochResult> history;
  StrategyState state;
  int64_t steps = 0;
};

Outcome Train(const Strategy& strategy, const FitOptions& fit,
              const std::function<void(Trainer&)>& begun = nullptr) {
  const nn::LayerPtr model =
      nn::Sequential({nn::Dense({.units = 16, .activation = "relu"}), nn::BatchNorm({}),
                      nn::Dropout({.rate = 0.2}), nn::Dense({.units = kClasses})});
  Trainer trainer(strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  if (begun) begun(trainer);
  Outcome outcome;
  FitOptions options = fit;
  options.epochs = 2;
  options.handle_signals = false;
  absl::StatusOr<std::vector<EpochResult>> history =
      trainer.Fit(ClassificationEpochs(kSteps), options);
  outcome.status = history.status();
  outcome.steps = trainer.step();
  if (!history.ok()) return outcome;
  outcome.history = *std::move(history);
  absl::StatusOr<StrategyState> state = trainer.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  if (state.ok()) outcome.state = *std::move(state);
  return outcome;
}

void ExpectSameBits(const Outcome& got, const Outcome& expected) {
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_EQ(got.steps, expected.steps);
  ASSERT_EQ(got.state.size(), expected.state.size());
  for (size_t i = 0; i < got.state.size(); ++i) {
    EXPECT_EQ(got.state[i].first, expected.state[i].first);
    const Tensor& a = got.state[i].second;
    const Tensor& b = expected.state[i].second;
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.num_bytes()), 0) << got.state[i].first;
  }
  ASSERT_EQ(got.history.size(), expected.history.size());
  for (size_t i = 0; i < got.history.size(); ++i) {
    EXPECT_EQ(got.history[i].loss, expected.history[i].loss) << i;
    EXPECT_EQ(got.history[i].examples, expected.history[i].examples) << i;
    EXPECT_EQ(got.history[i].metrics, expected.history[i].metrics) << i;
  }
}

// The next step comes late unless so many workers are there: those that are on their way shall be
// in time for some step.
void WaitUntil(const Strategy& strategy, int workers, bool waits) {
  if (waits && strategy.workers()->size() < workers) absl::SleepFor(absl::Milliseconds(100));
}

class FailsAmongThree final : public Callback {
 public:
  explicit FailsAmongThree(const Strategy& strategy) : strategy_(strategy) {}
  absl::StatusOr<Next> OnStep(Trainer&, const TrainingProgress& progress) override {
    if (progress.number < 13 || strategy_.workers()->size() < 3) return Next::kGoOn;
    return errors::Internal("its disk is full");
  }

 private:
  const Strategy& strategy_;
};

class Together : public ::testing::Test {
 protected:
  Together() {
    first_port_ = next_port_ += 20;
    setenv("TANDEM_FLIGHT_DIR", ::testing::TempDir().c_str(), 1);
    auto server =
        membership::RendezvousServer::Start(absl::StrCat(Host(), ":0"), Security(), &arbiter_);
    EXPECT_TRUE(server.ok()) << server.status();
    rendezvous_ = *std::move(server);
  }

  // What the training gives that nothing happens to.
  static const Outcome& Undisturbed() {
    static const Outcome& outcome = *new Outcome(Train(
        **Strategy::Mirrored({.replicas = 1, .virtual_replicas = kVirtualReplicas}), FitOptions()));
    return outcome;
  }

  std::unique_ptr<Strategy> Make(int index, int least, int most, int replicas = 1) const {
    Strategy::MultiWorkerOptions options;
    options.replicas = replicas;
    options.virtual_replicas = kVirtualReplicas;
    options.job.emplace();
    options.job->source = "a test";
    for (int i = 0; i < most; ++i) {
      options.job->config.jobs["worker"][i] = absl::StrCat(Host(), ":", first_port_ + i);
    }
    options.job->config.task = TaskId{"worker", index};
    options.job->min_workers = least;
    options.job->max_workers = most;
    options.job->rendezvous = rendezvous_->address();
    options.heartbeat = absl::Milliseconds(100);
    options.lost_after = absl::Seconds(3);
    options.start_timeout = absl::Seconds(60);
    auto strategy = Strategy::MultiWorkerMirrored(options);
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    return *std::move(strategy);
  }

  // Calls f(index) on a thread for each.
  static void OnAll(int count, const std::function<void(int index)>& f) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(f, i);
    for (std::thread& thread : threads) thread.join();
  }

  std::string Folder() const {
    const std::string folder =
        absl::StrCat(::testing::TempDir(), "/together_", getpid(), "_", first_port_);
    std::filesystem::remove_all(folder);
    return folder;
  }

 private:
  membership::MemoryArbiter arbiter_;
  std::unique_ptr<membership::RendezvousServer> rendezvous_;
  static int next_port_;
  int first_port_ = 0;
};

int Together::next_port_ = 25000;

TEST_F(Together, AnyNumberOfWorkersGivesTheBitsOfOne) {
  for (const int workers : {1, 2, 3}) {
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(workers, " workers with ", replicas, " replicas"));
      std::vector<Outcome> outcomes(static_cast<size_t>(workers));
      OnAll(workers, [&](int index) {
        const auto strategy = Make(index, workers, workers, replicas);
        outcomes[static_cast<size_t>(index)] = Train(*strategy, FitOptions());
      });
      for (const Outcome& outcome : outcomes) ExpectSameBits(outcome, Undisturbed());
    }
  }
}

TEST_F(Together, ValidationAndPredictionSeeAllExamplesOnce) {
  std::vector<EpochResult> results(2);
  std::vector<std::vector<float>> predictions(2);
  std::vector<Tensor> batch = testing::ClassificationBatch(7, 11);
  batch.pop_back();
  const auto evaluate = [&](const Strategy& strategy, EpochResult& result,
                            std::vector<float>& prediction) {
    Trainer trainer(strategy, nn::Dense({.units = kClasses}), loss::SparseSoftmaxCrossEntropy(),
                    optimizer::Sgd({}));
    ASSERT_TRUE(trainer.Fit(ClassificationEpochs(5), {.handle_signals = false}).ok());
    const auto evaluated = trainer.Evaluate(ClassificationEpochs(3, 7));
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    result = *evaluated;
    const auto predicted = trainer.Predict(batch);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    const auto values = predicted->Elements<float>();
    prediction.assign(values.begin(), values.end());
  };
  OnAll(2, [&](int index) {
    const size_t i = static_cast<size_t>(index);
    const auto strategy = Make(index, 2, 2);
    evaluate(*strategy, results[i], predictions[i]);
  });
  EpochResult expected;
  std::vector<float> prediction;
  evaluate(**Strategy::Mirrored({.replicas = 1, .virtual_replicas = kVirtualReplicas}), expected,
           prediction);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].examples, 21);
    EXPECT_EQ(results[i].loss, expected.loss);
    EXPECT_EQ(results[i].metrics, expected.metrics);
    EXPECT_EQ(predictions[i], prediction);
  }
}

TEST_F(Together, WhoComesLateIsGivenAllOfIt) {
  Event under_way;
  std::vector<Outcome> outcomes(3);
  std::atomic<int> size{0};
  OnAll(3, [&](int index) {
    if (index == 2) under_way.Wait();
    const auto strategy = Make(index, 2, 3);
    FitOptions fit;
    fit.on_step = [&](const TrainingProgress& progress) {
      if (progress.number == 5) under_way.Set();
      WaitUntil(*strategy, 3, progress.number >= 5);
      size = strategy->workers()->size();
      return true;
    };
    outcomes[static_cast<size_t>(index)] = Train(*strategy, fit);
  });
  EXPECT_EQ(size, 3);
  for (const Outcome& outcome : outcomes) ExpectSameBits(outcome, Undisturbed());
}

// The step that the others repeat is the first one of an epoch, of which nothing has been counted.
TEST_F(Together, WhoComesWhenAnEpochBeginsIsGivenItsFirstBatch) {
  std::vector<Outcome> outcomes(3);
  Event is_gone;
  OnAll(3, [&](int index) {
    if (index == 2) is_gone.Wait();
    const auto strategy = Make(index, 2, 3);
    FitOptions fit;
    fit.on_epoch = [&](int epoch, const EpochResult&) {
      // Leaves without a step; the other one is alone with the next one, and waits.
      if (index == 1 && epoch == 0) {
        strategy->workers()->Leave();
        is_gone.Set();
      }
      return true;
    };
    outcomes[static_cast<size_t>(index)] = Train(*strategy, fit);
  });
  EXPECT_TRUE(absl::IsCancelled(outcomes[1].status)) << outcomes[1].status;
  ExpectSameBits(outcomes[0], Undisturbed());
  ExpectSameBits(outcomes[2], Undisturbed());
}

TEST_F(Together, TheOthersGoOnWithoutOneThatFails) {
  for (const int failing : {0, 2}) {
    SCOPED_TRACE(failing);
    std::vector<Outcome> outcomes(3);
    OnAll(3, [&](int index) {
      const auto strategy = Make(index, 1, 3);
      FitOptions fit;
      fit.on_step = [&](const TrainingProgress& progress) {
        WaitUntil(*strategy, 3, progress.number < 40);
        return true;
      };
      if (index == failing) fit.callbacks = {std::make_shared<FailsAmongThree>(*strategy)};
      outcomes[static_cast<size_t>(index)] = Train(*strategy, fit);
    });
    for (int index = 0; index < 3; ++index) {
      const Outcome& outcome = outcomes[static_cast<size_t>(index)];
      if (index == failing) {
        EXPECT_TRUE(absl::IsInternal(outcome.status)) << outcome.status;
      } else {
        ExpectSameBits(outcome, Undisturbed());
      }
    }
  }
}

TEST_F(Together, AnInterruptEndsAllAfterTheSameStep) {
  std::vector<Outcome> outcomes(2);
  OnAll(2, [&](int index) {
    const auto strategy = Make(index, 2, 2);
    Trainer* trainer = nullptr;
    FitOptions fit;
    fit.on_step = [&](const TrainingProgress& progress) {
      if (index == 1 && progress.number == 9) trainer->Stop();
      return true;
    };
    outcomes[static_cast<size_t>(index)] =
        Train(*strategy, fit, [&](Trainer& begun) { trainer = &begun; });
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    EXPECT_EQ(ExitCodeOf(outcome.status), 130);
    EXPECT_EQ(outcome.steps, 10);
  }
  EXPECT_TRUE(absl::StrContains(outcomes[0].status.message(), "another worker was interrupted"))
      << outcomes[0].status;
}

TEST_F(Together, OneThatIsToldToGoLeavesACheckpointAndTheOthersGoOn) {
  const std::string folder = Folder();
  std::vector<Outcome> outcomes(2);
  OnAll(2, [&](int index) {
    const auto strategy = Make(index, 1, 2);
    Trainer* trainer = nullptr;
    FitOptions fit;
    fit.checkpoint_dir = folder;
    fit.checkpoint_epochs = false;
    fit.on_step = [&](const TrainingProgress& progress) {
      WaitUntil(*strategy, 2, progress.number < 40);
      // Once it is there; it may come late.
      if (index == 1 && progress.number >= 9) trainer->Stop(StopReason::kPreempted);
      // The agreement takes heartbeats.
      absl::SleepFor(absl::Milliseconds(15));
      return true;
    };
    outcomes[static_cast<size_t>(index)] =
        Train(*strategy, fit, [&](Trainer& begun) { trainer = &begun; });
  });
  EXPECT_TRUE(absl::IsCancelled(outcomes[1].status)) << outcomes[1].status;
  EXPECT_EQ(ExitCodeOf(outcomes[1].status), 143);
  ExpectSameBits(outcomes[0], Undisturbed());
  // That of the farewell, and the last one.
  const auto checkpoints = CheckpointsNewestFirst(PosixFileSystem(), folder);
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  ASSERT_EQ(checkpoints->size(), 2u);
  EXPECT_TRUE(absl::EndsWith((*checkpoints)[1], absl::StrCat("-", outcomes[1].steps)))
      << (*checkpoints)[1];
  // Written once: a second time it would have another number of shards.
  EXPECT_TRUE(std::filesystem::exists((*checkpoints)[1] + ".data-00000-of-00001"));
}

TEST_F(Together, ItGoesOnFromACheckpointOfAnotherNumberOfWorkers) {
  const std::string folder = Folder();
  const auto run = [&](int workers, int64_t stop_at, bool resume) {
    std::vector<Outcome> outcomes(static_cast<size_t>(workers));
    OnAll(workers, [&](int index) {
      const auto strategy = Make(index, workers, workers);
      Trainer* trainer = nullptr;
      FitOptions fit;
      fit.checkpoint_dir = folder;
      fit.resume = resume;
      fit.on_step = [&](const TrainingProgress& progress) {
        if (index == 0 && progress.number == stop_at) trainer->Stop();
        return true;
      };
      outcomes[static_cast<size_t>(index)] =
          Train(*strategy, fit, [&](Trainer& begun) { trainer = &begun; });
    });
    return outcomes;
  };
  for (const Outcome& outcome : run(2, 30, false)) {
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
  }
  // Another training does not begin in a folder that has one.
  for (const Outcome& outcome : run(1, -1, false)) {
    EXPECT_TRUE(absl::IsFailedPrecondition(outcome.status)) << outcome.status;
  }
  for (const Outcome& outcome : run(3, 55, true)) {
    EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
    EXPECT_EQ(outcome.steps, 56);
  }
  for (const Outcome& outcome : run(1, -1, true)) ExpectSameBits(outcome, Undisturbed());
}

TEST_F(Together, TrainingTwiceGoesOnWithTheSameGroup) {
  std::vector<std::vector<double>> losses(2);
  OnAll(2, [&](int index) {
    const auto strategy = Make(index, 2, 2);
    for (int round = 0; round < 2; ++round) {
      const Outcome outcome = Train(*strategy, FitOptions());
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      if (!outcome.status.ok()) return;
      losses[static_cast<size_t>(index)].push_back(outcome.history.back().loss);
    }
  });
  for (const auto& of_worker : losses) {
    ASSERT_EQ(of_worker.size(), 2u);
    for (const double loss : of_worker) EXPECT_EQ(loss, Undisturbed().history.back().loss);
  }
}

}  // namespace
}  // namespace tandem
