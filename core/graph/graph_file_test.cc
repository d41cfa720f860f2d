#include "core/graph/graph_file.h"

#include <fstream>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::string Write(const std::string& contents) {
  const std::string path = testing::TempDir() + "/graph_file_test.pb";
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

constexpr char kText[] = "# A comment: grün.\nnode { name: \"a\" op: \"NoOp\" }\n";

TEST(GraphFileTest, BothFormsAreRead) {
  tensorflow::GraphDef expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kText, &expected));
  for (const std::string& contents : {std::string(kText), expected.SerializeAsString()}) {
    tensorflow::GraphDef def;
    const absl::Status status = ReadGraphFile(Write(contents), &def);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(def.DebugString(), expected.DebugString());
  }
}

TEST(GraphFileTest, ErrorsNameFileAndPlace) {
  tensorflow::GraphDef def;
  const absl::Status missing = ReadGraphFile("/nowhere/graph.pb", &def);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nowhere/graph.pb"));

  const absl::Status text = ReadGraphFile(Write("node {\n  nam: \"a\"\n}"), &def);
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.message()), HasSubstr("graph_file_test.pb': line 2"));

  const absl::Status binary = ReadGraphFile(Write(std::string("\x0a\x7f\x01\x02", 4)), &def);
  EXPECT_EQ(binary.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(binary.message()), HasSubstr("no GraphDef"));

  EXPECT_FALSE(ReadGraphFile(testing::TempDir(), &def).ok());
}

TEST(GraphFileTest, AnEmptyFileIsNoGraph) {
  tensorflow::GraphDef def;
  const absl::Status status = ReadGraphFile(Write(""), &def);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the file is empty"));
}

TEST(GraphFileTest, DeepTextIsRefused) {
  std::string text = "node { attr { key: 'f' value {";
  for (int i = 0; i < 100000; ++i) text += "func { attr { key: 'f' value {";
  tensorflow::GraphDef def;
  EXPECT_EQ(ReadGraphFile(Write(text), &def).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
