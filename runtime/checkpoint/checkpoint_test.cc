// Checkpoints that TensorFlow wrote, and folders in which some are damaged.
#include "runtime/checkpoint/checkpoint.h"

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/io/checkpoint_state.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kData = "runtime/checkpoint/testdata";

TEST(TensorFlowsCheckpoint, OfKerasIsReadByKeyPathAndName) {
  const auto checkpoint = Checkpoint::Open(kData + "/keras");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), kData + "/keras/ckpt-41");
  for (const char* name : {"optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE",
                           "model/_functional/_operations/1/_kernel",
                           "optimizer/_trainable_variables/0", "sequential/dense/kernel"}) {
    const auto kernel = (*checkpoint)->Read(name);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(kernel->shape(), Shape({3, 2}));
    EXPECT_THAT(kernel->Elements<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_EQ((*checkpoint)->Read("adam/iteration")->ScalarValue<int64_t>(), 42);
  const auto names = (*checkpoint)->Names();
  EXPECT_THAT(names, SizeIs(9));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains(kObjectGraphName)));

  const absl::Status missing = (*checkpoint)->Read("sequential/dense/kernl").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("Did you mean 'sequential/dense/kernel'"));
}

TEST(TensorFlowsCheckpoint, OfObjectsWithOddNamesIsReadByPath) {
  const auto checkpoint = Checkpoint::Open(kData + "/objects/model");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->Read("inner/a..b")->ScalarValue<float>(), 1);
  EXPECT_EQ((*checkpoint)->Read("inner/c.Sd")->ScalarValue<float>(), 2);
  // Both variables have this name.
  const absl::Status both = (*checkpoint)->Read("Variable").status();
  EXPECT_EQ(both.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(both.message(), HasSubstr("several"));
}

TEST(TensorFlowsCheckpoint, OfASaverIsFoundInAFolderThatWasMoved) {
  const auto checkpoint = Checkpoint::Open(kData + "/saver");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), kData + "/saver/model-3");
  EXPECT_EQ((*checkpoint)->bundle().num_shards(), 2);
  EXPECT_EQ((*checkpoint)->objects(), nullptr);
  EXPECT_THAT((*checkpoint)->Read("a")->Elements<float>(), ElementsAre(1, 2));
  EXPECT_EQ((*checkpoint)->Read("scope/b")->ScalarValue<int32_t>(), 7);
}

TEST(TensorFlowsCheckpoint, IsOpenedByItsIndexToo) {
  const auto checkpoint = Checkpoint::Open(kData + "/saver/model-3.index");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), kData + "/saver/model-3");
}

class CheckpointTest : public ::testing::Test {
 protected:
  // Three, each with its number.
  CheckpointTest() {
    SetLogSink([this](LogSeverity severity, absl::string_view text) {
      if (severity >= LogSeverity::kWarning) warnings_.emplace_back(text);
    });
    CheckpointState state;
    for (int i = 1; i <= 3; ++i) {
      const std::string prefix = absl::StrCat("/run/c-", i);
      EXPECT_TRUE(WriteCheckpoint(&files_, prefix,
                                  {{"i", Tensor::Scalar<int32_t>(i)},
                                   {"words", Tensor::Vector<std::string>({"a", "b"})}})
                      .ok());
      state.all.push_back({prefix, static_cast<double>(i)});
      state.latest = prefix;
    }
    EXPECT_TRUE(WriteCheckpointState(&files_, "/run", state).ok());
  }
  ~CheckpointTest() override { SetLogSink({}); }

  void Flip(const std::string& path, size_t at) {
    std::string bytes = *ReadFile(&files_, path);
    bytes[at % bytes.size()] = static_cast<char>(bytes[at % bytes.size()] ^ 1);
    files_.SetContents(path, bytes);
  }
  int Opened(bool verify = true) {
    const auto checkpoint = Checkpoint::Open("/run", {&files_, verify});
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return (*checkpoint)->Read("i")->ScalarValue<int32_t>();
  }

  FaultyFileSystem files_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointTest, OpensTheNewest) {
  EXPECT_EQ(Opened(), 3);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CheckpointTest, PassesOverWhatIsDamagedAndSaysWhy) {
  Flip("/run/c-3.data-00000-of-00001", 0);
  EXPECT_EQ(Opened(), 2);
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("/run/c-3"), HasSubstr("checksum")));
  Flip("/run/c-2.index", 20);
  EXPECT_EQ(Opened(), 1);
  const auto checkpoint = Checkpoint::Open("/run", {&files_, true});
  ASSERT_THAT((*checkpoint)->passed_over(), SizeIs(2));
  EXPECT_EQ((*checkpoint)->passed_over()[0].first, "/run/c-3");
  EXPECT_EQ((*checkpoint)->passed_over()[1].first, "/run/c-2");
}

TEST_F(CheckpointTest, PassesOverWhatIsIncomplete) {
  ASSERT_TRUE(files_.Remove("/run/c-3.index").ok());
  ASSERT_TRUE(files_.Remove("/run/c-2.data-00000-of-00001").ok());
  EXPECT_EQ(Opened(), 1);
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(CheckpointTest, AnIndexOfAnotherCheckpointIsNoticed) {
  files_.SetContents("/run/c-3.index", *ReadFile(&files_, "/run/c-2.index"));
  EXPECT_EQ(Opened(), 2);
}

TEST_F(CheckpointTest, WhenAllAreDamagedEachIsNamed) {
  for (const int i : {1, 2, 3}) Flip(absl::StrCat("/run/c-", i, ".data-00000-of-00001"), 1);
  const absl::Status status = Checkpoint::Open("/run", {&files_, true}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("c-1: "), HasSubstr("c-2: "), HasSubstr("c-3: ")));
}

TEST_F(CheckpointTest, EveryFlippedBitIsNoticed) {
  const std::string data = "/run/c-3.data-00000-of-00001";
  for (size_t at = 0; at < ReadFile(&files_, data)->size(); ++at) {
    Flip(data, at);
    EXPECT_EQ(Checkpoint::Open("/run/c-3", {&files_, true}).status().code(),
              absl::StatusCode::kDataLoss)
        << at;
    Flip(data, at);
  }
  EXPECT_EQ(Opened(), 3);
}

TEST_F(CheckpointTest, IsOpenedByItsDataFileToo) {
  const auto checkpoint = Checkpoint::Open("/run/c-3.data-00000-of-00001", {&files_, true});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->prefix(), "/run/c-3");
}

TEST_F(CheckpointTest, SaysWhatIsNotThere) {
  ASSERT_TRUE(files_.MakeDirectories("/empty").ok());
  for (const char* path : {"/empty", "/nothing", "/run/c-4", "/run/c-4.data-00000-of-00001", ""}) {
    EXPECT_EQ(Checkpoint::Open(path, {&files_, true}).status().code(), absl::StatusCode::kNotFound)
        << path;
  }
}

TEST_F(CheckpointTest, ADamagedGraphOfObjectsIsNoticed) {
  ASSERT_TRUE(WriteCheckpoint(&files_, "/run/c-3",
                              {{kObjectGraphName, Tensor::Scalar<std::string>("nonsense")}})
                  .ok());
  EXPECT_EQ(Checkpoint::Open("/run/c-3", {&files_, true}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Opened(), 2);
  ASSERT_TRUE(
      WriteCheckpoint(&files_, "/run/c-3", {{kObjectGraphName, Tensor::Scalar<float>(1)}}).ok());
  EXPECT_EQ(Opened(), 2);
}

}  // namespace
}  // namespace tandem
