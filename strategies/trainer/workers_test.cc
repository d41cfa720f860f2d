// Trainings of several workers: one of them writes the log and the checkpoints.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/io/testing/faulty_file_system.h"
#include "gtest/gtest.h"
#include "strategies/trainer/log_callback.h"
#include "strategies/trainer/resume_test_util.h"

namespace tandem {
namespace {

using testing::ExpectSameBits;
using testing::Outcome;
using testing::Resuming;
using testing::SavingTo;
using testing::Train;

class Workers : public ::testing::Test {
 protected:
  ~Workers() override { unsetenv("TF_CONFIG"); }

  static void Become(int worker) {
    const std::string config =
        absl::StrCat(R"({"cluster": {"worker": ["a:1", "b:1"]}, )",
                     R"("task": {"type": "worker", "index": )", worker, "}}");
    setenv("TF_CONFIG", config.c_str(), 1);
  }

  const std::unique_ptr<Strategy> strategy_ = *Strategy::OneDevice({});
};

TEST_F(Workers, OnlyTheFirstWritesCheckpointsAndTheOthersResumeFromThem) {
  const Outcome undisturbed = Train(*strategy_, {}, {});
  FaultyFileSystem files;
  Become(1);
  ExpectSameBits(Train(*strategy_, {}, SavingTo(&files, 1)), undisturbed);
  EXPECT_EQ(files.effects(), 0);
  Become(0);
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, SavingTo(&files, 1)).status.ok());
  const int64_t effects = files.effects();
  EXPECT_GT(effects, 0);
  Become(1);
  const Outcome resumed = Train(*strategy_, {}, Resuming(&files, 1));
  ExpectSameBits(resumed, undisturbed);
  EXPECT_EQ(files.effects(), effects);
  // One that begins beside the first finds what that has written already.
  EXPECT_TRUE(Train(*strategy_, {}, SavingTo(&files, 1)).status.ok());
}

TEST_F(Workers, OnlyTheFirstLogs) {
  const std::string folder = ::testing::TempDir() + "/workers_test_log";
  std::filesystem::remove_all(folder);
  FitOptions fit;
  fit.log_dir = folder;
  Become(1);
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
  fit.log_dir = "";
  fit.callbacks = {callback::Log(folder)};
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
  Become(0);
  ASSERT_TRUE(Train(*strategy_, {.epochs = 1}, fit).status.ok());
  EXPECT_TRUE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tandem
