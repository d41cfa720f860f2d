// A save that is interrupted at any moment: the newest complete checkpoint loads, and nothing stays
// behind.
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/log.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/load.h"
#include "runtime/checkpoint/manager.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ManagerFaultsTest : public ::testing::TestWithParam<int> {
 protected:
  ManagerFaultsTest() {
    SetLogSink([](LogSeverity, absl::string_view) {});
  }
  ~ManagerFaultsTest() override { SetLogSink({}); }

  static std::unique_ptr<CheckpointManager> Manager(FileSystem* files, int max_to_keep = 2) {
    CheckpointManagerOptions options;
    options.files = files;
    options.num_shards = GetParam();
    options.retention.max_to_keep = max_to_keep;
    options.asynchronous = false;
    auto manager = CheckpointManager::Create("/run", options);
    EXPECT_TRUE(manager.ok()) << manager.status();
    return *std::move(manager);
  }
  static NamedTensors State(int64_t step) {
    Tensor large(kInt64, Shape({100}));
    for (int64_t& value : large.MutableElements<int64_t>()) value = step;
    return {{"step", Tensor::Scalar<int64_t>(step)}, {"large", std::move(large)}};
  }
  // The step of what loads, whole; -1 and a failure: nothing does.
  static int64_t Loaded(FileSystem* files) {
    LoadOptions options;
    options.files = files;
    const auto loaded = LoadCheckpoint(
        "/run", {{"step", kInt64, Shape()}, {"large", kInt64, Shape({100})}}, options);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return -1;
    const int64_t step = loaded->tensors[0].second.ScalarValue<int64_t>();
    for (const int64_t value : loaded->tensors[1].second.Elements<int64_t>()) {
      EXPECT_EQ(value, step);
    }
    return step;
  }
  static void ExpectTidy(FileSystem* files) {
    const std::vector<std::string> names = *files->ListDirectory("/run");
    for (const std::string& name : names) EXPECT_THAT(name, Not(HasSubstr("temp")));
  }
};

TEST_P(ManagerFaultsTest, AfterACrashTheNewestCompleteOneLoads) {
  bool fired = true;
  for (int64_t at = 0; fired; ++at) {
    for (const auto unsynced :
         {FaultyFileSystem::Unsynced::kKept, FaultyFileSystem::Unsynced::kLost,
          FaultyFileSystem::Unsynced::kMixed}) {
      for (const int max_to_keep : {1, 2}) {
        FaultyFileSystem files;
        absl::Status status;
        {
          const auto manager = Manager(&files, max_to_keep);
          ASSERT_TRUE(manager->Save(1, State(1)).ok());
          ASSERT_TRUE(manager->Save(2, State(2)).ok());
          files.CrashAt(at);
          status = manager->Save(3, State(3)).status();
          fired = files.fired();
        }
        files.Restart(unsynced, static_cast<uint32_t>(at));
        const int64_t loaded = Loaded(&files);
        if (status.ok()) {
          EXPECT_EQ(loaded, 3) << "crash at " << at;
        } else {
          EXPECT_TRUE(loaded == 2 || loaded == 3) << loaded << " after a crash at " << at;
        }
        // The next run saves again, and nothing is left of the one that crashed.
        const auto manager = Manager(&files, max_to_keep);
        ASSERT_TRUE(manager->Save(4, State(4)).ok());
        EXPECT_EQ(Loaded(&files), 4);
        ExpectTidy(&files);
        // Of those before, none is there that nobody will remove. (Number 3 may be, without a name
        // in the list: the run would have replaced it.)
        for (int64_t step = 1; step <= 2; ++step) {
          const std::string prefix = absl::StrCat("/run/ckpt-", step);
          EXPECT_EQ(files.Stat(prefix + ".index").ok(),
                    absl::c_linear_search(manager->checkpoints(), prefix))
              << prefix << ", crash at " << at;
        }
      }
    }
  }
}

TEST_P(ManagerFaultsTest, AfterAFailureThePreviousOneIsThereAndNothingElse) {
  bool fired = true;
  for (int64_t at = 0; fired; ++at) {
    for (const auto& error : {absl::ResourceExhaustedError("the disk is full"),
                              absl::PermissionDeniedError("may not")}) {
      FaultyFileSystem files;
      const auto manager = Manager(&files, 1);
      ASSERT_TRUE(manager->Save(1, State(1)).ok());
      files.FailAt(at, error);
      const absl::Status status = manager->Save(2, State(2)).status();
      fired = files.fired();
      if (!fired) break;
      if (!status.ok()) {
        EXPECT_EQ(status.code(), error.code());
      }
      const int64_t loaded = Loaded(&files);
      EXPECT_TRUE(loaded == 2 || (loaded == 1 && !status.ok())) << loaded << ", failure at " << at;
      ExpectTidy(&files);
      // The manager goes on.
      ASSERT_TRUE(manager->Save(3, State(3)).ok());
      EXPECT_EQ(Loaded(&files), 3);
      EXPECT_EQ(manager->checkpoints().size(), 1u);
      EXPECT_EQ(files.ListDirectory("/run")->size(), static_cast<size_t>(GetParam()) + 2)
          << "failure at " << at;
    }
  }
}

// The disk stays full: all that a save tries fails from some moment on.
TEST_P(ManagerFaultsTest, OnADiskThatStaysFullThePreviousOneLoads) {
  bool fired = true;
  for (int64_t at = 0; fired; ++at) {
    FaultyFileSystem files;
    {
      const auto manager = Manager(&files, 1);
      ASSERT_TRUE(manager->Save(1, State(1)).ok());
      files.FailAt(at, absl::ResourceExhaustedError("the disk is full"), 1000);
      (void)manager->Save(2, State(2));
      (void)manager->Save(3, State(3));
      fired = files.fired();
    }
    EXPECT_GE(Loaded(&files), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, ManagerFaultsTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace tandem
