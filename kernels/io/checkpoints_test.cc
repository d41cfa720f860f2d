// Checkpoints as graphs write and read them. That the files are TensorFlow's is shown in core/io.
#include <filesystem>
#include <string>
#include <vector>

#include "core/io/bundle_reader.h"
#include "core/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::io {
namespace {

using ::tandem::testing::RunOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Strings(std::initializer_list<std::string> strings) {
  return Tensor::Vector<std::string>(strings);
}

class CheckpointOpsTest : public ::testing::Test {
 protected:
  CheckpointOpsTest() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(::testing::TempDir(), "/checkpoint_ops_", test->name());
    std::filesystem::remove_all(folder_);  // Of a former run.
    EXPECT_TRUE(PosixFileSystem()->MakeDirectories(folder_).ok());
  }

  std::string Prefix(absl::string_view name) const { return JoinPath(folder_, name); }

  static absl::Status Save(const std::string& prefix, const Tensor& names, const Tensor& slices,
                           const std::vector<Tensor>& tensors) {
    std::vector<Tensor> inputs = {Tensor::Scalar(prefix), names, slices};
    std::vector<DataType> types;
    for (const Tensor& tensor : tensors) {
      inputs.push_back(tensor);
      types.push_back(tensor.dtype());
    }
    return RunOp("SaveV2", inputs, {{"dtypes", types}}).status();
  }
  static absl::StatusOr<std::vector<Tensor>> Restore(const std::string& prefix, const Tensor& names,
                                                     const Tensor& slices,
                                                     const std::vector<DataType>& types) {
    return RunOp("RestoreV2", {Tensor::Scalar(prefix), names, slices}, {{"dtypes", types}});
  }

  std::string folder_;
};

TEST_F(CheckpointOpsTest, WhatIsSavedIsRestored) {
  const std::string prefix = Prefix("model");
  const Tensor numbers = Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4});
  const Tensor words = Tensor::Vector<std::string>({"a", ""});
  ASSERT_TRUE(
      Save(prefix, Strings({"numbers", "words"}), Strings({"", ""}), {numbers, words}).ok());
  const auto restored =
      Restore(prefix, Strings({"words", "numbers"}), Strings({"", ""}), {kString, kFloat32});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT((*restored)[0].Elements<std::string>(), ElementsAre("a", ""));
  EXPECT_EQ((*restored)[1].shape(), Shape({2, 2}));
  EXPECT_THAT((*restored)[1].Elements<float>(), ElementsAre(1, 2, 3, 4));
}

TEST_F(CheckpointOpsTest, PartsOfATensorMakeOneAndAreCutFromOne) {
  const std::string prefix = Prefix("model");
  const Tensor top = Tensor::FromValues<int32_t>({1, 2}, {1, 2});
  const Tensor bottom = Tensor::FromValues<int32_t>({2, 2}, {3, 4, 5, 6});
  ASSERT_TRUE(
      Save(prefix, Strings({"w", "w"}), Strings({"3 2 0,1:-", "3 2 1,2:-"}), {top, bottom}).ok());
  const auto restored =
      Restore(prefix, Strings({"w", "w"}), Strings({"", "3 2 0,2:1,1"}), {kInt32, kInt32});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_THAT((*restored)[0].Elements<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ((*restored)[1].shape(), Shape({2, 1}));
  EXPECT_THAT((*restored)[1].Elements<int32_t>(), ElementsAre(2, 4));
  EXPECT_THAT(Restore(prefix, Strings({"w"}), Strings({"4 2 0,2:-"}), {kInt32}).status().message(),
              AllOf(HasSubstr("[3,2]"), HasSubstr("[4,2]")));
}

TEST_F(CheckpointOpsTest, PartsOfSeveralDevicesAreMerged) {
  const std::string prefix = Prefix("model");
  std::vector<std::string> parts;
  for (const int shard : {0, 1}) {
    const auto part =
        RunOp("ShardedFilename", {Tensor::Scalar(Prefix("model_temp/part")),
                                  Tensor::Scalar<int32_t>(shard), Tensor::Scalar<int32_t>(2)});
    ASSERT_TRUE(part.ok()) << part.status();
    parts.push_back((*part)[0].ScalarValue<std::string>());
    ASSERT_TRUE(Save(parts.back(), Strings({absl::StrCat("v", shard)}), Strings({""}),
                     {Tensor::Scalar<double>(shard)})
                    .ok());
  }
  EXPECT_EQ(parts[1], Prefix("model_temp/part-00001-of-00002"));
  const auto merged =
      RunOp("MergeV2Checkpoints", {Strings({parts[0], parts[1]}), Tensor::Scalar(prefix)});
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto restored =
      Restore(prefix, Strings({"v0", "v1"}), Strings({"", ""}), {kFloat64, kFloat64});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)[1].ScalarValue<double>(), 1);
  EXPECT_THAT(*PosixFileSystem()->ListDirectory(folder_),
              ElementsAre("model.data-00000-of-00002", "model.data-00001-of-00002", "model.index"));

  const Tensor one_missing = Strings({parts[0], parts[1]});
  EXPECT_EQ(RunOp("MergeV2Checkpoints", {one_missing, Tensor::Scalar(prefix)}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointOpsTest, PartsThatAreMissingCanBeAllowed) {
  const std::string part = Prefix("part");
  ASSERT_TRUE(Save(part, Strings({"v"}), Strings({""}), {Tensor::Scalar<float>(1)}).ok());
  const Tensor parts = Strings({Prefix("nothing"), part});
  const auto merged = RunOp("MergeV2Checkpoints", {parts, Tensor::Scalar(Prefix("model"))},
                            {{"allow_missing_files", true}});
  EXPECT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(Restore(Prefix("model"), Strings({"v"}), Strings({""}), {kFloat32}).ok());
}

TEST_F(CheckpointOpsTest, ErrorsHaveTensorFlowsCodesAndNameTheTensor) {
  const std::string prefix = Prefix("model");
  ASSERT_TRUE(Save(prefix, Strings({"v"}), Strings({""}), {Tensor::Scalar<float>(1)}).ok());
  const absl::Status missing = Restore(prefix, Strings({"w"}), Strings({""}), {kFloat32}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("Key w not found in checkpoint"));
  const absl::Status type = Restore(prefix, Strings({"v"}), Strings({""}), {kInt32}).status();
  EXPECT_EQ(type.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(type.message(), AllOf(HasSubstr("'v'"), HasSubstr("float32"), HasSubstr("int32")));
  const absl::Status nothing =
      Restore(Prefix("nothing"), Strings({"v"}), Strings({""}), {kFloat32}).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointOpsTest, RefusesArgumentsThatDoNotFit) {
  const Tensor v = Tensor::Scalar<float>(1);
  for (const auto& [names, slices] :
       std::vector<std::pair<Tensor, Tensor>>{{Strings({"a", "b"}), Strings({""})},
                                              {Strings({"a"}), Strings({"", ""})},
                                              {Tensor::Scalar<std::string>("a"), Strings({""})},
                                              {Strings({""}), Strings({""})},
                                              {Strings({"a"}), Strings({"3 0,1"})},
                                              {Strings({"a"}), Strings({"x"})}}) {
    EXPECT_EQ(Save(Prefix("model"), names, slices, {v}).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Save(folder_ + "/", Strings({"a"}), Strings({""}), {v}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("MergeV2Checkpoints",
                  {Tensor::Scalar<std::string>("a"), Tensor::Scalar<std::string>("b")})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  // Nothing is left of what failed.
  EXPECT_THAT(*PosixFileSystem()->ListDirectory(folder_), ElementsAre());
}

TEST_F(CheckpointOpsTest, PartsInTheGraphSayTheShapes) {
  // Constants, so that the shape function sees the part, and refuses one that is none.
  const std::vector<Tensor> inputs = {Tensor::Scalar(Prefix("model")), Strings({"w"}),
                                      Strings({"4 2 3,2:-"})};
  const absl::Status status =
      RunOp("RestoreV2", inputs, {{"dtypes", std::vector<DataType>{kFloat32}}}, true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("3,2"));
}

TEST(ShardedFilespec, MatchesAllShards) {
  const auto spec =
      RunOp("ShardedFilespec", {Tensor::Scalar<std::string>("a/b"), Tensor::Scalar<int32_t>(12)});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ((*spec)[0].ScalarValue<std::string>(), "a/b-\?\?\?\?\?-of-00012");
}

}  // namespace
}  // namespace tandem::io
