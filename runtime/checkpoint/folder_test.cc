#include "runtime/checkpoint/folder.h"

#include <string>

#include "core/base/log.h"
#include "core/io/checkpoint_state.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/write.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { EXPECT_TRUE(files_.MakeDirectories("/run").ok()); }

  void Write(const std::string& prefix, int shards = 1) {
    ASSERT_TRUE(WriteCheckpoint(&files_, prefix, {{"a", Tensor::Scalar<float>(1)}}, shards).ok());
  }
  void Touch(const std::string& path) {
    ASSERT_TRUE(files_.MakeDirectories(DirectoryOf(path)).ok());
    files_.SetContents(path, "x");
  }
  std::vector<std::string> Newest() { return *CheckpointsNewestFirst(&files_, "/run"); }

  FaultyFileSystem files_;
};

TEST(CheckpointStep, IsTheNumberAtTheEnd) {
  EXPECT_EQ(CheckpointStep("a/ckpt-100"), 100);
  EXPECT_EQ(CheckpointStep("my-model-7"), 7);
  EXPECT_EQ(CheckpointStep("a-1/ckpt"), absl::nullopt);
  EXPECT_EQ(CheckpointStep("ckpt-"), absl::nullopt);
  EXPECT_EQ(CheckpointStep("ckpt-1x"), absl::nullopt);
  EXPECT_EQ(CheckpointStep("ckpt-99999999999999999999"), absl::nullopt);
}

TEST_F(FolderTest, TheStateFileDecidesWhichIsTheNewest) {
  for (const char* prefix : {"/run/c-1", "/run/c-2", "/run/c-3", "/run/c-9"}) Write(prefix);
  CheckpointState state;
  state.all = {{"/run/c-3", 1}, {"/run/c-1", 2}, {"/run/c-2", 3}};
  state.latest = "/run/c-1";
  ASSERT_TRUE(WriteCheckpointState(&files_, "/run", state).ok());
  EXPECT_THAT(Newest(), ElementsAre("/run/c-1", "/run/c-2", "/run/c-3", "/run/c-9"));
}

TEST_F(FolderTest, WithoutAStateFileTheStepsDecide) {
  for (const char* prefix : {"/run/c-9", "/run/c-10", "/run/model"}) Write(prefix);
  EXPECT_THAT(Newest(), ElementsAre("/run/c-10", "/run/c-9", "/run/model"));
  SetLogSink([](LogSeverity, absl::string_view) {});
  files_.SetContents("/run/checkpoint", "model_checkpoint_path: {");
  EXPECT_THAT(Newest(), ElementsAre("/run/c-10", "/run/c-9", "/run/model"));
  SetLogSink({});
}

TEST_F(FolderTest, PathsCannotLeaveTheFolder) {
  Write("/run/c-1");
  Write("/elsewhere/c-1");
  files_.SetContents("/run/checkpoint",
                     "model_checkpoint_path: \"/elsewhere/c-1\"\n"
                     "all_model_checkpoint_paths: \"../elsewhere/c-2\"\n"
                     "all_model_checkpoint_paths: \"below/c-3\"\n");
  EXPECT_THAT(Newest(), ElementsAre("/run/c-1", "/run/below/c-3", "/run/c-2"));
}

TEST_F(FolderTest, AFolderThatIsMissingIsNotFound) {
  EXPECT_EQ(CheckpointsNewestFirst(&files_, "/nothing").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(*DataFilesOf(&files_, "/nothing/c-1"), IsEmpty());
}

TEST_F(FolderTest, DataFilesAreThoseOfTheNameAlone) {
  Write("/run/c-1", 2);
  Write("/run/c-11");
  Touch("/run/c-1.data-00000-of-00002.tempstate12");
  Touch("/run/c-1.data-x-of-00002");
  const auto data = DataFilesOf(&files_, "/run/c-1");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_THAT(*data, SizeIs(2));
  EXPECT_EQ((*data)[1].path, "/run/c-1.data-00001-of-00002");
  EXPECT_EQ((*data)[1].shard, 1);
  EXPECT_EQ((*data)[1].num_shards, 2);
}

TEST_F(FolderTest, RemovesACheckpointAndNoOther) {
  Write("/run/c-1", 2);
  Write("/run/c-11");
  Touch("/run/c-1.meta");
  EXPECT_TRUE(RemoveCheckpoint(&files_, "/run/c-1").ok());
  EXPECT_THAT(*files_.ListDirectory("/run"), ElementsAre("c-11.data-00000-of-00001", "c-11.index"));
  EXPECT_TRUE(RemoveCheckpoint(&files_, "/run/c-1").ok());
}

TEST_F(FolderTest, RemovesWhatWasLeftAndNothingElse) {
  Write("/run/c-1");
  for (const char* left :
       {"/run/c-2_temp/part-00000-of-00002.index.tempstate0f",
        "/run/c-2_temp/part-00000-of-00002.index", "/run/c-2.index.tempstate0123456789abcdef",
        "/run/c-1.data-00000-of-00001.tempstate7", "/run/checkpoint.tempstate1",
        "/run/c-3.data-00000-of-00001"}) {
    Touch(left);
  }
  const std::vector<const char*> others = {"/run/other-2_temp/part-00000-of-00002.index",
                                           "/run/other-2.index.tempstate1",
                                           "/run/other-3.data-00000-of-00001",
                                           "/run/c-2.index.tempstate",
                                           "/run/c-2.index.tempstatexyz",
                                           "/run/c-x.index.tempstate1",
                                           "/run/notes.tempstate1",
                                           "/run/c-4_temp/notes"};
  for (const char* other : others) Touch(other);
  SetLogSink([](LogSeverity, absl::string_view) {});
  RemoveLeftovers(&files_, "/run", "c");
  SetLogSink({});
  for (const char* other : others) EXPECT_TRUE(files_.Stat(other).ok()) << other;
  EXPECT_THAT(
      *files_.ListDirectory("/run"),
      ElementsAre("c-1.data-00000-of-00001", "c-1.index", "c-2.index.tempstate",
                  "c-2.index.tempstatexyz", "c-4_temp", "c-x.index.tempstate1", "notes.tempstate1",
                  "other-2.index.tempstate1", "other-2_temp", "other-3.data-00000-of-00001"));
}

}  // namespace
}  // namespace tandem
