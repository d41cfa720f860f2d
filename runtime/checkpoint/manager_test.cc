#include "runtime/checkpoint/manager.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/graph/scope.h"
#include "core/io/checkpoint_state.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/load.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Saved = CheckpointManager::Saved;
using WhenBusy = CheckpointManagerOptions::WhenBusy;

// Files that can only be begun while a gate is open.
class GatedFileSystem : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                            WriteMode mode) override {
    {
      MutexLock lock(mu_);
      ++waiting_;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mu_);
      --waiting_;
    }
    return FaultyFileSystem::OpenToWrite(path, mode);
  }
  void SetOpen(bool open) {
    MutexLock lock(mu_);
    open_ = open;
    changed_.NotifyAll();
  }
  void WaitUntilSomebodyWaits() {
    MutexLock lock(mu_);
    while (waiting_ == 0 || open_) changed_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mu_) = true;
  int waiting_ ABSL_GUARDED_BY(mu_) = 0;
};

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest() {
    options_.files = &files_;
    options_.clock = &clock_;
    options_.asynchronous = false;
  }

  std::unique_ptr<CheckpointManager> Manager() {
    auto manager = CheckpointManager::Create("/run", options_);
    EXPECT_TRUE(manager.ok()) << manager.status();
    return *std::move(manager);
  }
  static NamedTensors State(int64_t step) { return {{"step", Tensor::Scalar<int64_t>(step)}}; }
  // The step of the checkpoint that a run would go on from; -1: none.
  int64_t Loaded() {
    LoadOptions options;
    options.files = &files_;
    const auto loaded = LoadCheckpoint("/run", {{"step", kInt64, Shape()}}, options);
    return loaded.ok() ? loaded->tensors[0].second.ScalarValue<int64_t>() : -1;
  }

  GatedFileSystem files_;
  FakeClock clock_{absl::FromUnixSeconds(1'000'000)};
  CheckpointManagerOptions options_;
};

TEST_F(ManagerTest, KeepsTheNewestAndTellsTensorFlow) {
  options_.retention.max_to_keep = 2;
  const auto manager = Manager();
  for (const int64_t step : {10, 20, 30}) {
    EXPECT_EQ(*manager->Save(step, State(step)), Saved::kDone);
    clock_.Advance(absl::Seconds(1));
  }
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-20", "/run/ckpt-30"));
  EXPECT_EQ(manager->latest(), "/run/ckpt-30");
  EXPECT_THAT(*files_.ListDirectory("/run"),
              ElementsAre("checkpoint", "ckpt-20.data-00000-of-00001", "ckpt-20.index",
                          "ckpt-30.data-00000-of-00001", "ckpt-30.index"));
  EXPECT_THAT(*ReadFile(&files_, "/run/checkpoint"),
              HasSubstr("model_checkpoint_path: \"ckpt-30\"\n"
                        "all_model_checkpoint_paths: \"ckpt-20\"\n"
                        "all_model_checkpoint_paths: \"ckpt-30\"\n"
                        "all_model_checkpoint_timestamps: 1000001\n"));
  EXPECT_EQ(Loaded(), 30);
}

TEST_F(ManagerTest, ALaterRunGoesOnWithTheList) {
  options_.retention.max_to_keep = 2;
  options_.retention.keep_best = 1;
  ASSERT_TRUE(Manager()->Save(1, State(1), 0.1).ok());
  ASSERT_TRUE(Manager()->Save(2, State(2), 0.3).ok());
  ASSERT_TRUE(Manager()->Save(3, State(3), 0.2).ok());
  const auto manager = Manager();
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-1", "/run/ckpt-2", "/run/ckpt-3"));
  EXPECT_EQ(manager->best(), "/run/ckpt-1");
  ASSERT_TRUE(manager->Save(4, State(4), 0.05).ok());
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-3", "/run/ckpt-4"));
  EXPECT_EQ(manager->best(), "/run/ckpt-4");
}

TEST_F(ManagerTest, WhatIsKeptForGoodStaysAcrossRuns) {
  options_.retention.max_to_keep = 1;
  options_.retention.preserve_every = absl::Hours(2);
  for (int64_t hour = 0; hour < 7; ++hour) {
    ASSERT_TRUE(Manager()->Save(hour, State(hour)).ok());
    clock_.Advance(absl::Hours(1));
  }
  std::vector<std::string> indices;
  const std::vector<std::string> names = *files_.ListDirectory("/run");
  for (const std::string& name : names) {
    if (name.find(".index") != std::string::npos) indices.push_back(name);
  }
  EXPECT_THAT(indices, ElementsAre("ckpt-2.index", "ckpt-4.index", "ckpt-6.index"));
}

TEST_F(ManagerTest, TheSameStepIsReplaced) {
  const auto manager = Manager();
  ASSERT_TRUE(manager->Save(5, State(1)).ok());
  ASSERT_TRUE(manager->Save(5, State(2)).ok());
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-5"));
  EXPECT_EQ(Loaded(), 2);
}

TEST_F(ManagerTest, OnlyItsOwnCheckpointsAreRemoved) {
  options_.retention.max_to_keep = 1;
  for (const char* prefix : {"/run/other-1", "/elsewhere/ckpt-1", "/run/ckpt-01"}) {
    ASSERT_TRUE(WriteCheckpoint(&files_, prefix, State(0)).ok());
  }
  files_.SetContents("/run/checkpoint",
                     "model_checkpoint_path: \"other-1\"\n"
                     "all_model_checkpoint_paths: \"/elsewhere/ckpt-1\"\n"
                     "all_model_checkpoint_paths: \"ckpt-01\"\n"
                     "all_model_checkpoint_paths: \"other-1\"\n");
  const auto manager = Manager();
  ASSERT_TRUE(manager->Save(2, State(2)).ok());
  ASSERT_TRUE(manager->Save(3, State(3)).ok());
  for (const char* prefix : {"/run/other-1", "/elsewhere/ckpt-1", "/run/ckpt-01"}) {
    EXPECT_TRUE(files_.Stat(std::string(prefix) + ".index").ok()) << prefix;
  }
  EXPECT_FALSE(files_.Stat("/run/ckpt-2.index").ok());
}

TEST_F(ManagerTest, ADamagedListIsBegunAnew) {
  ASSERT_TRUE(files_.MakeDirectories("/run").ok());
  files_.SetContents("/run/checkpoint", "nonsense {");
  SetLogSink([](LogSeverity, absl::string_view) {});
  const auto manager = Manager();
  SetLogSink({});
  ASSERT_TRUE(manager->Save(1, State(1)).ok());
  EXPECT_EQ(Loaded(), 1);
}

TEST_F(ManagerTest, IsDueAtMultiplesOfTheSteps) {
  options_.save_every_steps = 10;
  const auto manager = Manager();
  std::vector<int64_t> due;
  for (int64_t step = 0; step <= 30; ++step) {
    if (manager->IsDue(step)) due.push_back(step);
  }
  EXPECT_THAT(due, ElementsAre(10, 20, 30));
  EXPECT_TRUE(manager->IsDue(45));  // 40 was passed.
  EXPECT_FALSE(manager->IsDue(49));
  EXPECT_FALSE(manager->IsDue(11));  // Went back.
  EXPECT_TRUE(manager->IsDue(20));
  EXPECT_TRUE(Manager()->IsDue(50));  // The first that a resumed run asks for.
  EXPECT_FALSE(Manager()->IsDue(51));
}

TEST_F(ManagerTest, IsDueAfterATime) {
  options_.save_every = absl::Minutes(5);
  const auto manager = Manager();
  EXPECT_FALSE(manager->IsDue(1));
  clock_.Advance(absl::Minutes(5));
  EXPECT_TRUE(manager->IsDue(2));
  ASSERT_TRUE(manager->Save(2, State(2)).ok());
  EXPECT_FALSE(manager->IsDue(3));
  clock_.Advance(absl::Minutes(4));
  EXPECT_FALSE(manager->IsDue(4));
}

TEST_F(ManagerTest, AnAsynchronousSaveHoldsNobodyUp) {
  options_.asynchronous = true;
  const auto manager = Manager();
  files_.SetOpen(false);
  EXPECT_EQ(*manager->Save(1, State(1)), Saved::kStarted);
  files_.WaitUntilSomebodyWaits();
  EXPECT_THAT(manager->checkpoints(), IsEmpty());
  files_.SetOpen(true);
  ASSERT_TRUE(manager->Wait().ok());
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-1"));
  EXPECT_EQ(Loaded(), 1);
}

TEST_F(ManagerTest, ASaveIsSkippedWhileAnotherIsRunning) {
  options_.asynchronous = true;
  options_.when_busy = WhenBusy::kSkip;
  options_.save_every_steps = 1;
  const auto manager = Manager();
  files_.SetOpen(false);
  EXPECT_TRUE(manager->IsDue(1));
  EXPECT_EQ(*manager->Save(1, State(1)), Saved::kStarted);
  EXPECT_FALSE(manager->IsDue(2));
  EXPECT_EQ(*manager->Save(2, State(2)), Saved::kSkipped);
  files_.SetOpen(true);
  ASSERT_TRUE(manager->Wait().ok());
  EXPECT_EQ(*manager->Save(3, State(3)), Saved::kStarted);
  ASSERT_TRUE(manager->Wait().ok());
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-1", "/run/ckpt-3"));
}

TEST_F(ManagerTest, ASaveWaitsForOneThatIsRunning) {
  options_.asynchronous = true;
  const auto manager = Manager();
  for (int64_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(*manager->Save(step, State(step)), Saved::kStarted);
  }
  ASSERT_TRUE(manager->Wait().ok());
  EXPECT_EQ(manager->checkpoints().size(), 5u);
}

TEST_F(ManagerTest, PatienceEnds) {
  options_.asynchronous = true;
  options_.patience = absl::Milliseconds(1);
  const auto manager = Manager();
  files_.SetOpen(false);
  ASSERT_TRUE(manager->Save(1, State(1)).ok());
  EXPECT_EQ(manager->Save(2, State(2)).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(manager->Wait().code(), absl::StatusCode::kDeadlineExceeded);
  files_.SetOpen(true);
}

TEST_F(ManagerTest, AnErrorReachesTheNextCallOnce) {
  options_.asynchronous = true;
  const auto manager = Manager();
  ASSERT_TRUE(manager->Save(1, State(1)).ok());
  ASSERT_TRUE(manager->Wait().ok());
  files_.FailAt(2, absl::ResourceExhaustedError("the disk is full"), 1);
  ASSERT_TRUE(manager->Save(2, State(2)).ok());
  EXPECT_EQ(manager->Save(3, State(3)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Loaded(), 1);
  EXPECT_TRUE(manager->Save(3, State(3)).ok());
  EXPECT_TRUE(manager->Wait().ok());
  EXPECT_THAT(manager->checkpoints(), ElementsAre("/run/ckpt-1", "/run/ckpt-3"));
}

TEST_F(ManagerTest, TheEndWaitsForTheSaveAndLogsItsError) {
  options_.asynchronous = true;
  ASSERT_TRUE(Manager()->Save(1, State(1)).ok());
  EXPECT_EQ(Loaded(), 1);
  std::vector<std::string> errors;
  SetLogSink([&](LogSeverity severity, absl::string_view text) {
    if (severity == LogSeverity::kError) errors.emplace_back(text);
  });
  {
    const auto manager = Manager();
    files_.FailAt(1, absl::PermissionDeniedError("may not"));
    ASSERT_TRUE(manager->Save(2, State(2)).ok());
  }
  SetLogSink({});
  EXPECT_THAT(errors, ElementsAre(HasSubstr("may not")));
}

// Variables that a save shares are not written over: what is saved is the step of the save.
TEST_F(ManagerTest, TrainingGoesOnWhileItsStateIsWritten) {
  Scope scope = Scope::NewRoot();
  const Output variable =
      scope.Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({1000})}});
  const Tensor zeros = Tensor::Zeros(kFloat32, Shape({1000}));
  scope.WithOpName("init").AddNode("AssignVariableOp", {variable, zeros});
  Tensor ones(kFloat32, Shape({1000}));
  for (float& one : ones.MutableElements<float>()) one = 1;
  scope.WithOpName("train").AddNode("AssignAddVariableOp", {variable, ones});
  scope.WithOpName("read").Call("ReadVariableOp", {variable}, {{"dtype", kFloat32}});
  ASSERT_TRUE(scope.status().ok()) << scope.status();
  const auto session = *Session::Create(*scope.graph());
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  const auto read = [&] { return (*session->Run({}, {"read"}))[0]; };

  options_.asynchronous = true;
  const auto manager = Manager();
  for (int round = 0; round < 3; ++round) {
    const float before = read().Elements<float>()[999];
    files_.SetOpen(false);
    ASSERT_TRUE(manager->Save(round, {{"v", read()}}).ok());
    for (int step = 0; step < 5; ++step) ASSERT_TRUE(session->Run({}, {}, {"train"}).ok());
    files_.SetOpen(true);
    ASSERT_TRUE(manager->Wait().ok());
    const auto checkpoint = Checkpoint::Open("/run", {&files_, true});
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const Tensor saved = *(*checkpoint)->Read("v");
    for (const float value : saved.Elements<float>()) ASSERT_EQ(value, before);
    EXPECT_EQ(read().Elements<float>()[0], before + 5);
  }
}

TEST_F(ManagerTest, RefusesWhatMakesNoSense) {
  const auto refused = [&](auto change) {
    CheckpointManagerOptions options = options_;
    change(options);
    return CheckpointManager::Create("/run", options).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(refused([](auto& o) { o.name = ""; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.name = "a/b"; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.num_shards = 0; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.save_every_steps = -1; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.save_every = absl::ZeroDuration(); }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.retention.max_to_keep = -1; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.retention.keep_best = -1; }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.retention.preserve_every = absl::ZeroDuration(); }), kInvalid);
  EXPECT_EQ(refused([](auto& o) { o.patience = absl::ZeroDuration(); }), kInvalid);
  EXPECT_EQ(Manager()->Save(-1, State(1)).status().code(), kInvalid);
  EXPECT_EQ(Manager()->Save(1, {{"_tandem/metric", Tensor::Scalar<float>(1)}}).status().code(),
            kInvalid);
}

}  // namespace
}  // namespace tandem
