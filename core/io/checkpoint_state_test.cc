#include "core/io/checkpoint_state.h"

#include <string>

#include "core/base/status.h"
#include "core/io/bundle.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class CheckpointStateTest : public ::testing::Test {
 protected:
  CheckpointStateTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  std::string Text() { return *ReadFile(&files_, "/d/checkpoint"); }

  FaultyFileSystem files_;
};

// The text is TensorFlow's, down to the order of the fields.
TEST_F(CheckpointStateTest, IsWrittenRelativeToItsFolder) {
  CheckpointState state;
  state.all = {{"/d/model-1", 1.5}, {"/d/sub/model-2", 2.5}, {"/other/model-3", 3.5}};
  state.latest = "/d/sub/model-2";
  state.last_preserved_timestamp = 1.25;
  ASSERT_TRUE(WriteCheckpointState(&files_, "/d", state).ok());
  EXPECT_EQ(Text(),
            "model_checkpoint_path: \"sub/model-2\"\n"
            "all_model_checkpoint_paths: \"model-1\"\n"
            "all_model_checkpoint_paths: \"sub/model-2\"\n"
            "all_model_checkpoint_paths: \"/other/model-3\"\n"
            "all_model_checkpoint_timestamps: 1.5\n"
            "all_model_checkpoint_timestamps: 2.5\n"
            "all_model_checkpoint_timestamps: 3.5\n"
            "last_preserved_timestamp: 1.25\n");
  const absl::StatusOr<CheckpointState> read = ReadCheckpointState(&files_, "/d");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->latest, state.latest);
  ASSERT_EQ(read->all.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->all[i].prefix, state.all[i].prefix);
    EXPECT_EQ(read->all[i].timestamp, state.all[i].timestamp);
  }
  EXPECT_EQ(read->last_preserved_timestamp, 1.25);
}

TEST_F(CheckpointStateTest, PathsBesideTheWorkingDirectoryFindTheirFiles) {
  ASSERT_TRUE(files_.MakeDirectories("ckpt").ok());
  CheckpointState state;
  state.all = {{"ckpt/model-1", 0}, {"./ckpt/model-2", 0}, {"elsewhere/model-3", 0}};
  state.latest = "./ckpt/model-2";
  for (const char* folder : {"ckpt", "ckpt/", "./ckpt"}) {
    ASSERT_TRUE(files_.MakeDirectories(DirectoryOf(CheckpointStatePath(folder))).ok());
    ASSERT_TRUE(WriteCheckpointState(&files_, folder, state).ok());
    const absl::StatusOr<CheckpointState> read = ReadCheckpointState(&files_, folder);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->latest, JoinPath(folder, "model-2"));
    EXPECT_EQ(read->all[0].prefix, JoinPath(folder, "model-1"));
    EXPECT_EQ(read->all[2].prefix.front(), '/');
    EXPECT_THAT(read->all[2].prefix, HasSubstr("/elsewhere/model-3"));
  }
}

TEST_F(CheckpointStateTest, NamesOfAnyBytesComeBack) {
  CheckpointState state;
  state.latest = "/d/quote\"back\\slash\xff\n";
  ASSERT_TRUE(WriteCheckpointState(&files_, "/d", state).ok());
  EXPECT_EQ(ReadCheckpointState(&files_, "/d")->latest, state.latest);
}

TEST_F(CheckpointStateTest, TheLatestIsOnlyOneWhoseIndexExists) {
  EXPECT_EQ(LatestCheckpoint(&files_, "/d").status().code(), absl::StatusCode::kNotFound);
  files_.SetContents("/d/checkpoint", "");
  EXPECT_EQ(LatestCheckpoint(&files_, "/d").status().code(), absl::StatusCode::kNotFound);
  files_.SetContents("/d/checkpoint", "model_checkpoint_path: \"m-3\"\n");
  const absl::Status status = LatestCheckpoint(&files_, "/d").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/d/m-3.index"));
  files_.SetContents("/d/m-3.index", "");
  EXPECT_EQ(*LatestCheckpoint(&files_, "/d"), "/d/m-3");
}

TEST_F(CheckpointStateTest, DamageIsReportedWithItsPlace) {
  for (const char* text : {"model_checkpoint_path: \"a", "\nmodel_checkpoint: \"a\"", "\xff\xfe",
                           "model_checkpoint_path: 1", "all_model_checkpoint_timestamps: \"x\""}) {
    files_.SetContents("/d/checkpoint", text);
    const absl::Status status = ReadCheckpointState(&files_, "/d").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/d/checkpoint: line "));
  }
}

}  // namespace
}  // namespace tandem
