#include "core/base/text_proto.h"

#include "google/protobuf/struct.pb.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using google::protobuf::Value;

TEST(TextProto, TextBecomesAMessage) {
  Value value;
  const absl::Status status = ParseTextProto("# A comment.\nnumber_value: 2.5", &value);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(value.number_value(), 2.5);
}

TEST(TextProto, TheFirstErrorIsNamedWithItsPlace) {
  Value value;
  const absl::Status status = ParseTextProto("number_value: 1\n  nothing: 2\nnor: 3", &value);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).rfind("line 2, column 10: ", 0), 0u) << status;
}

TEST(TextProto, DepthIsBounded) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "list_value { values { ";
  Value value;
  EXPECT_EQ(ParseTextProto(text, &value).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
