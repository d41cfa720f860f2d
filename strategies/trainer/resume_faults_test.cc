// Trainings whose checkpoints cannot be written or read, or are somebody else's.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/checkpoint.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/trainer/resume_test_util.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::DieAfter;
using ::testing::ElementsAre;
using testing::ExpectSameBits;
using ::testing::HasSubstr;
using testing::kStepsPerEpoch;
using ::testing::Not;
using testing::Outcome;
using testing::Resuming;
using testing::SavingTo;
using testing::Train;
using testing::TrainingSetup;

class ResumeFaults : public ::testing::Test {
 protected:
  ResumeFaults() {
    SetLogSink([this](LogSeverity severity, absl::string_view text) {
      if (severity == LogSeverity::kWarning) warnings_.emplace_back(text);
      if (severity == LogSeverity::kInfo) infos_.emplace_back(text);
    });
  }
  ~ResumeFaults() override { SetLogSink({}); }

  // Trains until after `step`, with a checkpoint after each step before.
  void TrainUntil(int64_t step) {
    FitOptions fit = SavingTo(&files_, 1);
    DieAfter(step, fit);
    ASSERT_EQ(Train(*strategy_, {}, fit).status.code(), absl::StatusCode::kInternal);
  }
  std::string Newest() const {
    const auto checkpoint = Checkpoint::Open("/run", {&files_});
    return checkpoint.ok() ? (*checkpoint)->prefix() : checkpoint.status().ToString();
  }
  std::string Contents(const std::string& path) {
    const auto contents = ReadFile(&files_, path);
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.ok() ? *contents : "";
  }

  const std::unique_ptr<Strategy> strategy_ = *Strategy::OneDevice({});
  mutable FaultyFileSystem files_;
  std::vector<std::string> warnings_;
  std::vector<std::string> infos_;
};

TEST_F(ResumeFaults, TheNewestGoodCheckpointIsUsedAndALineNamesTheDamagedOne) {
  TrainUntil(8);
  ASSERT_EQ(Newest(), "/run/ckpt-7");
  const std::string data = "/run/ckpt-7.data-00000-of-00001";
  std::string damaged = Contents(data);
  damaged[damaged.size() / 2] ^= 1;
  files_.SetContents(data, damaged);
  const Outcome resumed = Train(*strategy_, {}, Resuming(&files_, 1));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("'/run/ckpt-7' is passed over"))));
  warnings_.clear();
  ExpectSameBits(resumed, Train(*strategy_, {}, {}));
}

TEST_F(ResumeFaults, EveryDamagedByteIsNoticed) {
  TrainUntil(2);
  const std::string data = "/run/ckpt-1.data-00000-of-00001";
  const std::string whole = Contents(data);
  for (size_t i = 0; i < 40; ++i) {
    std::string damaged = whole;
    damaged[i * (whole.size() - 1) / 39] ^= 0x10;
    files_.SetContents(data, damaged);
    const absl::Status status = Train(*strategy_, {}, Resuming(&files_, 0)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("ckpt-1"));
  }
}

TEST_F(ResumeFaults, AFullDiskEndsTheTrainingOrNotByPolicy) {
  for (const bool asynchronous : {false, true}) {
    for (const bool stops : {true, false}) {
      FaultyFileSystem files;
      FitOptions fit = SavingTo(&files, 1);
      fit.checkpoints.asynchronous = asynchronous;
      fit.stop_on_checkpoint_error = stops;
      // Full from the sixth step on, until the training ends.
      fit.on_step = [&](const TrainingProgress& progress) {
        if (progress.epoch == 1 && progress.step == 1) {
          files.FailAt(0, errors::ResourceExhausted("no space left on device"), 1 << 20);
        }
        return true;
      };
      warnings_.clear();
      const Outcome outcome = Train(*strategy_, {}, fit);
      if (stops) {
        EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted) << outcome.status;
        EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("no space left"));
      } else {
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        EXPECT_EQ(outcome.steps, 3 * kStepsPerEpoch);
        EXPECT_FALSE(warnings_.empty());
        ExpectSameBits(outcome, Train(*strategy_, {}, {}));
      }
      // The one before is there; the disk has room again.
      files.FailAt(0, absl::OkStatus(), 0);
      const auto checkpoint = Checkpoint::Open("/run", {&files});
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), Train(*strategy_, {}, {}));
    }
  }
}

TEST_F(ResumeFaults, AMachineThatCrashesAtAnyMomentLosesTimeAlone) {
  FaultyFileSystem undisturbed;
  const Outcome expected = Train(*strategy_, {}, Resuming(&undisturbed, 2));
  const int64_t effects = undisturbed.effects();
  for (int64_t n = 0; n < effects; n += 3) {
    SCOPED_TRACE(::testing::Message() << "crashed at effect " << n << " of " << effects);
    FaultyFileSystem files;
    files.CrashAt(n);
    Train(*strategy_, {}, Resuming(&files, 2));
    EXPECT_TRUE(files.fired());
    files.Restart(FaultyFileSystem::Unsynced::kMixed, static_cast<uint32_t>(n));
    ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 2)), expected);
  }
}

// Holds back whoever opens a file to write until it is let through.
class SlowFileSystem final : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    if (!let_through_.Wait(absl::Now() + absl::Minutes(1))) {
      return errors::DeadlineExceeded("was never let through");
    }
    return FaultyFileSystem::OpenToWrite(path, mode);
  }
  void LetThrough() { let_through_.Set(); }

 private:
  Event let_through_;
};

TEST_F(ResumeFaults, TheTrainingGoesOnWhileACheckpointIsWritten) {
  SlowFileSystem files;
  FitOptions fit = SavingTo(&files, 2);
  fit.checkpoints.asynchronous = true;
  fit.checkpoints.when_busy = CheckpointManagerOptions::WhenBusy::kSkip;
  fit.checkpoints.retention.max_to_keep = 0;
  // The one of step 2 is written until step 9; those between are skipped.
  fit.on_step = [&](const TrainingProgress& progress) {
    if (progress.epoch == 1 && progress.step == 4) files.LetThrough();
    return true;
  };
  const Outcome outcome = Train(*strategy_, {.epochs = 2}, fit);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const auto names = files.ListDirectory("/run");
  ASSERT_TRUE(names.ok());
  EXPECT_TRUE(absl::c_linear_search(*names, "ckpt-2.index"));
  EXPECT_FALSE(absl::c_linear_search(*names, "ckpt-4.index"));
  EXPECT_FALSE(absl::c_linear_search(*names, "ckpt-8.index"));
  EXPECT_TRUE(absl::c_linear_search(*names, "ckpt-10.index"));
  // Its values are those of step 2: the later steps have not written into them.
  files.SetContents("/run/ckpt-10.index", "damaged");
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), Train(*strategy_, {}, {}));
}

TEST_F(ResumeFaults, KeepsTheBestByMetric) {
  FitOptions fit = SavingTo(&files_, 0);
  fit.checkpoints.retention.max_to_keep = 1;
  fit.checkpoints.retention.keep_best = 1;
  fit.checkpoint_metric = "loss";
  fit.checkpoints.retention.smaller_is_better = false;
  // The first epoch has the largest loss.
  const Outcome outcome = Train(*strategy_, {}, fit);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_GT(outcome.history[0].loss, outcome.history[1].loss);
  const auto names = files_.ListDirectory("/run");
  EXPECT_TRUE(absl::c_linear_search(*names, "ckpt-5.index"));
  EXPECT_FALSE(absl::c_linear_search(*names, "ckpt-10.index"));
  EXPECT_TRUE(absl::c_linear_search(*names, "ckpt-15.index"));

  FaultyFileSystem others;
  fit.checkpoints.files = &others;
  fit.checkpoint_metric = "validation_accuracies";
  const Outcome refused = Train(*strategy_, {}, fit);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.steps, 0);
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("'validation_accuracies'"),
                    HasSubstr("loss, accuracy, validation_loss, validation_accuracy")));
}

TEST_F(ResumeFaults, AModelThatDiffersIsRefusedWithAllDifferences) {
  TrainUntil(3);
  const auto refusal = [&](const TrainingSetup& setup) {
    const absl::Status status = Train(*strategy_, setup, Resuming(&files_, 0)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({.units = 9}),
              AllOf(HasSubstr("'dense/kernel' is float32[6,9] in the program and float32[6,8]"),
                    HasSubstr("'dense/bias'"), HasSubstr("'dense_1/kernel'"), HasSubstr("ckpt-2")));
  EXPECT_THAT(refusal({.optimizer = optimizer::Sgd({.momentum = 0.9})}),
              AllOf(HasSubstr("dense/kernel/sgd/momentum"), HasSubstr("dense/kernel/adam/velocity"),
                    HasSubstr("lacks"), HasSubstr("the model has not")));
  EXPECT_THAT(refusal({.optimizer = optimizer::Sgd({})}), HasSubstr("the model has not"));
  // Shapes and names in one message.
  EXPECT_THAT(
      refusal({.units = 9, .optimizer = optimizer::Sgd({.momentum = 0.9})}),
      AllOf(HasSubstr("'dense/kernel' is float32[6,9] in the program"),
            HasSubstr("dense/kernel/sgd/momentum"), HasSubstr("dense/kernel/adam/velocity")));
  EXPECT_THAT(refusal({.seed = 2}), AllOf(HasSubstr("has the seed 1"), HasSubstr("2")));
  EXPECT_THAT(refusal({.metrics = std::vector<MetricPtr>{metric::TopK(2)}}),
              AllOf(HasSubstr("accuracy"), HasSubstr("mid-epoch")));
  // Nothing of this has changed the checkpoints.
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files_, 0)), Train(*strategy_, {}, {}));
}

TEST_F(ResumeFaults, AnotherOptimizerIsRefusedWithAllDifferences) {
  TrainUntil(8);
  const auto adam = [](const optimizer::Schedule& schedule, double beta1, int steps) {
    return optimizer::Accumulate(optimizer::Adam({.beta1 = beta1, .schedule = schedule}), steps);
  };
  const optimizer::Schedule same = optimizer::CosineDecay(0.05, 20);
  const auto refusal = [&](const optimizer::OptimizerPtr& optimizer) {
    const absl::Status status =
        Train(*strategy_, {.optimizer = optimizer}, Resuming(&files_, 0)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(adam(optimizer::CosineDecay(0.1, 20), 0.9, 3)),
              AllOf(HasSubstr("learning rate of step 1 was 0.05 and is 0.1"), HasSubstr("ckpt-7"),
                    HasSubstr("accept_optimizer_changes"), Not(HasSubstr("beta"))));
  // It begins the same way.
  EXPECT_THAT(refusal(adam(optimizer::CosineDecay(0.05, 30), 0.9, 3)),
              AllOf(HasSubstr("learning rate of step"), Not(HasSubstr("of step 1 was"))));
  EXPECT_THAT(refusal(adam(same, 0.8, 2)), AllOf(HasSubstr("beta1 was '0.9' and is '0.8'"),
                                                 HasSubstr("Accumulate was '3' and is '2'")));
  EXPECT_THAT(refusal(optimizer::ClipByNorm(adam(same, 0.9, 3), 2)),
              HasSubstr("ClipByNorm was not there and is '2'"));
  // Nothing was trained meanwhile.
  EXPECT_EQ(Newest(), "/run/ckpt-7");

  // What was not trained yet may change: the rate of the second half of the cosine.
  const auto later = [same](int64_t step) { return step < 4 ? same(step) : 0.001; };
  FaultyFileSystem copy;
  ASSERT_TRUE(copy.MakeDirectories("/run").ok());
  const auto names = files_.ListDirectory("/run");
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name : *names) {
    copy.SetContents("/run/" + name, Contents("/run/" + name));
  }
  EXPECT_TRUE(
      Train(*strategy_, {.optimizer = adam(later, 0.9, 3)}, Resuming(&copy, 0)).status.ok());

  FitOptions accepting = Resuming(&files_, 0);
  accepting.accept_optimizer_changes = true;
  warnings_.clear();
  const Outcome changed = Train(*strategy_, {.optimizer = adam(same, 0.8, 3)}, accepting);
  EXPECT_TRUE(changed.status.ok()) << changed.status;
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("beta1 was '0.9' and is '0.8'")));
  // One that is done trains no more, with whatever optimizer.
  EXPECT_TRUE(
      Train(*strategy_, {.optimizer = adam(same, 0.7, 3)}, Resuming(&files_, 0)).status.ok());
}

TEST_F(ResumeFaults, ACheckpointThatSaysNothingOfItsOptimizerIsTaken) {
  TrainUntil(3);
  NamedTensors tensors;
  {
    const auto checkpoint = Checkpoint::Open("/run/ckpt-2", {&files_});
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (const std::string& name : (*checkpoint)->bundle().Names()) {
      if (absl::StartsWith(name, "_tandem/optimizer/")) continue;
      tensors.emplace_back(name, *(*checkpoint)->bundle().Read(name));
    }
    EXPECT_EQ(tensors.size(), (*checkpoint)->bundle().Names().size() - 3);
  }
  FaultyFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/run").ok());
  ASSERT_TRUE(WriteCheckpoint(&files, "/run/ckpt-2", std::move(tensors)).ok());
  ExpectSameBits(Train(*strategy_, {}, Resuming(&files, 0)), Train(*strategy_, {}, {}));
}

// Counts what is read of data files.
class CountingFileSystem final : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenToRead(const std::string& path) override {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                            FaultyFileSystem::OpenToRead(path));
    if (!absl::StrContains(path, ".data-")) return file;
    return std::make_unique<CountingFile>(std::move(file), &bytes_read_);
  }
  int64_t bytes_read() const { return bytes_read_; }

 private:
  class CountingFile final : public RandomAccessFile {
   public:
    CountingFile(std::unique_ptr<RandomAccessFile> file, std::atomic<int64_t>* count)
        : file_(std::move(file)), count_(count) {}
    const std::string& path() const override { return file_->path(); }
    absl::StatusOr<size_t> Read(int64_t offset, absl::Span<char> bytes) const override {
      const absl::StatusOr<size_t> read = file_->Read(offset, bytes);
      if (read.ok()) *count_ += static_cast<int64_t>(*read);
      return read;
    }
    absl::StatusOr<int64_t> Size() const override { return file_->Size(); }

   private:
    const std::unique_ptr<RandomAccessFile> file_;
    std::atomic<int64_t>* const count_;
  };

  std::atomic<int64_t> bytes_read_{0};
};

TEST_F(ResumeFaults, ACheckpointIsReadOnce) {
  CountingFileSystem files;
  FitOptions fit = SavingTo(&files, 1);
  DieAfter(3, fit);
  Train(*strategy_, {}, fit);
  ASSERT_EQ(files.bytes_read(), 0);
  const int64_t size = files.Stat("/run/ckpt-2.data-00000-of-00001")->size;
  ASSERT_GT(size, 0);
  ASSERT_TRUE(Train(*strategy_, {}, Resuming(&files, 0)).status.ok());
  EXPECT_EQ(files.bytes_read(), size);
}

TEST_F(ResumeFaults, OtherMetricsAreTakenBetweenEpochs) {
  FitOptions fit = SavingTo(&files_, 0);
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
  const Outcome outcome =
      Train(*strategy_, {.metrics = std::vector<MetricPtr>{metric::TopK(2)}}, Resuming(&files_, 0));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_TRUE(outcome.history[0].Value("accuracy").has_value());
  EXPECT_FALSE(outcome.history[1].Value("accuracy").has_value());
}

TEST_F(ResumeFaults, AnotherInputIsRefused) {
  TrainUntil(3);
  const auto refusal = [&](const OpenEpoch& data) {
    const absl::Status status = Train(*strategy_, {.data = data}, Resuming(&files_, 0)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](int) -> absl::StatusOr<NextBatch> {
                return NextBatch([] { return NextBatch::Result(errors::Internal("not asked")); });
              }),
              HasSubstr("a function, which has none"));
  EXPECT_THAT(refusal(Epochs(testing::Data().Take(3))),
              HasSubstr("cannot go on where the training was"));
}

// Pipelines of the same stages, whose positions cannot be told apart.
OpenEpoch Pipeline(uint64_t seed, int64_t batch, int64_t count, int rows = 37) {
  return Epochs(data::Dataset::FromTensors(testing::ClassificationBatch(0, rows))
                    .Shuffle(20, seed)
                    .Batch(batch)
                    .Take(count));
}

TEST_F(ResumeFaults, ADataSetThatDiffersIsRefusedInMidEpochAndNamed) {
  FitOptions fit = SavingTo(&files_, 1);
  DieAfter(3, fit);
  Train(*strategy_, {.data = Pipeline(3, 8, 4)}, fit);
  ASSERT_EQ(Newest(), "/run/ckpt-2");
  const auto refusal = [&](const OpenEpoch& data) {
    const absl::Status status = Train(*strategy_, {.data = data}, Resuming(&files_, 0)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Pipeline(4, 8, 4)),
              AllOf(HasSubstr("Shuffle(buffer=20, reshuffle=1, seed=4) and was "
                              "Shuffle(buffer=20, reshuffle=1, seed=3)"),
                    HasSubstr("mid-epoch")));
  EXPECT_THAT(refusal(Pipeline(3, 9, 4)), HasSubstr("size=9) and was Batch("));
  EXPECT_THAT(refusal(Pipeline(3, 8, 5)), HasSubstr("Take(count=5) and was Take(count=4)"));
  EXPECT_THAT(refusal(Pipeline(3, 8, 4, 38)), HasSubstr("FromTensors"));
  ExpectSameBits(Train(*strategy_, {.data = Pipeline(3, 8, 4)}, Resuming(&files_, 0)),
                 Train(*strategy_, {.data = Pipeline(3, 8, 4)}, {}));
}

TEST_F(ResumeFaults, AnotherDataSetIsTakenAfterAnEpochsEnd) {
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1, .data = Pipeline(3, 8, 4)}, SavingTo(&files_, 0))
                  .status.ok());
  const Outcome outcome =
      Train(*strategy_, {.epochs = 2, .data = Pipeline(4, 9, 3)}, Resuming(&files_, 0));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.history[1].examples, 27);
}

TEST_F(ResumeFaults, ThatItGoesOnIsLoggedOnceItDoes) {
  TrainUntil(3);
  infos_.clear();
  EXPECT_FALSE(Train(*strategy_, {.units = 9}, Resuming(&files_, 0)).status.ok());
  EXPECT_THAT(infos_, Not(Contains(HasSubstr("goes on after"))));
  EXPECT_TRUE(Train(*strategy_, {}, Resuming(&files_, 0)).status.ok());
  EXPECT_THAT(infos_, Contains(HasSubstr("goes on after 2 steps")));
  infos_.clear();
  EXPECT_FALSE(Train(*strategy_, {.units = 9}, Resuming(&files_, 0)).status.ok());
  EXPECT_THAT(infos_, Not(Contains(HasSubstr("is done"))));
}

TEST_F(ResumeFaults, AFolderThatAnotherTrainingHasIsRefused) {
  const std::string folder = ::testing::TempDir() + "/resume_faults_locked";
  FitOptions fit = SavingTo(PosixFileSystem(), 1);
  fit.checkpoint_dir = folder;
  absl::Status second;
  fit.on_step = [&](const TrainingProgress& progress) {
    if (progress.epoch == 0 && progress.step == 2) {
      FitOptions other = Resuming(PosixFileSystem(), 1);
      other.checkpoint_dir = folder;
      second = Train(*strategy_, {}, other).status;
    }
    return true;
  };
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(std::string(second.message()), AllOf(HasSubstr(folder), HasSubstr("pid ")));
  fit.on_step = nullptr;
  fit.resume = true;
  EXPECT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
}

TEST_F(ResumeFaults, AFunctionThatEndsTooEarlyIsRefused) {
  const auto function = [](int64_t count) -> OpenEpoch {
    return [count](int epoch) -> absl::StatusOr<NextBatch> {
      TANDEM_ASSIGN_OR_RETURN(NextBatch inner, Epochs(testing::Data().Take(count))(epoch));
      return NextBatch([inner] { return inner(); });
    };
  };
  FitOptions fit = SavingTo(&files_, 1);
  DieAfter(4, fit);
  Train(*strategy_, {.data = function(5)}, fit);
  const absl::Status status = Train(*strategy_, {.data = function(2)}, Resuming(&files_, 0)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ends after 2 batches"), HasSubstr("had taken 3")));
}

TEST_F(ResumeFaults, AFolderOfAnotherTrainingIsNotOverwritten) {
  TrainUntil(3);
  const absl::Status status = Train(*strategy_, {}, SavingTo(&files_, 1)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'/run'"), HasSubstr("ckpt-2"), HasSubstr("resume")));
  EXPECT_EQ(Newest(), "/run/ckpt-2");
}

TEST_F(ResumeFaults, ResumeNeedsAFolder) {
  FitOptions fit;
  fit.resume = true;
  EXPECT_EQ(Train(*strategy_, {}, fit).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ResumeFaults, ACheckpointWithoutNotesIsNoTraining) {
  ASSERT_TRUE(files_.MakeDirectories("/run").ok());
  ASSERT_TRUE(WriteCheckpoint(&files_, "/run/ckpt-4", {{"x", Tensor::Scalar<float>(1)}}).ok());
  const absl::Status status = Train(*strategy_, {}, Resuming(&files_, 0)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no notes of a training"));
}

TEST_F(ResumeFaults, StrangeNotesAreDamage) {
  TrainUntil(3);
  // The same checkpoint with one note changed.
  const auto with = [&](const std::string& name, const Tensor& value) {
    NamedTensors tensors;
    {
      const auto checkpoint = Checkpoint::Open("/run/ckpt-2", {&files_});
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
      for (const std::string& one : (*checkpoint)->bundle().Names()) {
        tensors.emplace_back(one, one == name ? value : *(*checkpoint)->bundle().Read(one));
      }
    }
    FaultyFileSystem files;
    EXPECT_TRUE(files.MakeDirectories("/run").ok());
    EXPECT_TRUE(WriteCheckpoint(&files, "/run/ckpt-2", std::move(tensors)).ok());
    return Train(*strategy_, {}, Resuming(&files, 0)).status;
  };
  for (const auto& [name, value] : NamedTensors{
           {"_tandem/step", Tensor::Scalar<float>(2)},
           {"_tandem/step", Tensor::Scalar<int64_t>(-2)},
           {"_tandem/epoch", Tensor::Scalar<int64_t>(int64_t{1} << 40)},
           {"_tandem/history/lengths", Tensor::Vector<int64_t>({3})},
           {"_tandem/history/lengths", Tensor::Vector<int64_t>({-1})},
           {"_tandem/input/opened", Tensor::Scalar<int64_t>(0)},
           {"_tandem/optimizer/options", Tensor::Vector<std::string>({"beta1"})},
           {"_tandem/optimizer/steps", Tensor::Vector<int64_t>({0, 7})},
       }) {
    const absl::Status status = with(name, value);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name << ": " << status;
  }
  for (const auto& [name, value] : NamedTensors{
           {"_tandem/input/position", Tensor::Scalar<std::string>("\xff\xff")},
           {"_tandem/epoch/sums/0", Tensor::Scalar<float>(2)},
           {"_tandem/callback/early_stopping.validation_loss/epochs_since",
            Tensor::Scalar<float>(2)},
       }) {
    const absl::Status status = with(name, value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << ": " << status;
  }
}

}  // namespace
}  // namespace tandem
