#include <string>

#include "core/io/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::io {
namespace {

using ::tandem::testing::RunOp;
using ::testing::HasSubstr;

Tensor Text(const std::string& text) { return Tensor::Scalar<std::string>(text); }

std::string PathOf(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/read_write_file_test/", name);
}

TEST(WriteFile, MakesFoldersAndReadFileReadsItBack) {
  const std::string path = PathOf("new/folder/file");
  const std::string contents("bytes \0 \xff\n", 10);
  const auto written = RunOp("WriteFile", {Text(path), Text(contents)});
  ASSERT_TRUE(written.ok()) << written.status();
  const auto read = RunOp("ReadFile", {Text(path)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)[0].ScalarValue<std::string>(), contents);
}

TEST(WriteFile, ReplacesWhatWasThere) {
  const std::string path = PathOf("file");
  ASSERT_TRUE(RunOp("WriteFile", {Text(path), Text("a long text")}).ok());
  ASSERT_TRUE(RunOp("WriteFile", {Text(path), Text("short")}).ok());
  EXPECT_EQ((*RunOp("ReadFile", {Text(path)}))[0].ScalarValue<std::string>(), "short");
}

TEST(ReadFile, NamesAFileThatIsNotThere) {
  const absl::Status status = RunOp("ReadFile", {Text("/no/such/file")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file"));
}

TEST(ReadFile, WantsOneName) {
  const Tensor names = Tensor::Vector<std::string>({"a", "b"});
  for (const bool constant : {false, true}) {
    EXPECT_EQ(RunOp("ReadFile", {names}, {}, constant).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(RunOp("WriteFile", {Text("a"), names}, {}, constant).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::io
