#include "core/graph/op_def_proto.h"

#include "core/op/registry.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/op_def.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

tensorflow::OpDef Parse(const std::string& text) {
  tensorflow::OpDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << text;
  return def;
}

TEST(OpDefProtoTest, ASignatureIsWrittenInFull) {
  tensorflow::OpDef proto;
  ASSERT_TRUE(OpDefToProto(*OpRegistry::Global().Find("ConcatV2"), &proto).ok());
  const tensorflow::OpDef expected = Parse(R"pb(
    name: "ConcatV2"
    input_arg { name: "values" type_attr: "T" number_attr: "N" }
    input_arg { name: "axis" type_attr: "Tidx" }
    output_arg { name: "output" type_attr: "T" }
    attr { name: "N" type: "int" has_minimum: true minimum: 2 }
    attr { name: "T" type: "type" }
    attr {
      name: "Tidx"
      type: "type"
      allowed_values { list { type: [ DT_INT32, DT_INT64 ] } }
      default_value { type: DT_INT32 }
    })pb");
  EXPECT_EQ(proto.DebugString(), expected.DebugString());
}

TEST(OpDefProtoTest, EverySignatureSurvivesTheWire) {
  for (const OpDef* def : OpRegistry::Global().List()) {
    tensorflow::OpDef proto;
    ASSERT_TRUE(OpDefToProto(*def, &proto).ok()) << def->name;
    const absl::StatusOr<OpDef> back = OpDefFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->DebugString(), def->DebugString());
    EXPECT_EQ(back->is_stateful, def->is_stateful);
  }
}

TEST(OpDefProtoTest, InconsistentSignaturesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "has no name"},
      {"name: 'f' input_arg { name: 'x' }", "input 'x': exactly one of"},
      {"name: 'f' input_arg { type: DT_FLOAT }", "it has no name"},
      {"name: 'f' input_arg { name: 'x' type: DT_FLOAT type_attr: 'T' }", "2 are"},
      {"name: 'f' output_arg { name: 'x' type_attr: 'T' }", "output 'x': it refers to 'T'"},
      {"name: 'f' input_arg { name: 'x' type_attr: 'T' } attr { name: 'T' type: 'int' }",
       "no attribute of kind type"},
      {"name: 'f' input_arg { name: 'x' type: DT_FLOAT number_attr: 'N' }", "'N'"},
      {"name: 'f' input_arg { name: 'x' type: DT_FLOAT_REF }", "no tensor can have"},
      {"name: 'f' input_arg { name: 'x' type: 77 }", "no tensor can have"},
      {"name: 'f' input_arg { name: 'x' type: DT_INT8 } input_arg { name: 'x' type: DT_INT8 }",
       "declared twice"},
      {"name: 'f' attr { name: 'T' type: 'typ' }", "'typ' is no kind"},
      {"name: 'f' attr { name: 'T' type: 'type' } attr { name: 'T' type: 'type' }", "twice"},
      {"name: 'f' attr { name: 'T' type: 'type' default_value { i: 3 } }", "its default"},
      {"name: 'f' attr { name: 'T' type: 'type' allowed_values { list { type: 99 } } }", "99"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = OpDefFromProto(Parse(text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace tandem
