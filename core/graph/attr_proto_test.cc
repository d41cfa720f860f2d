#include "core/graph/attr_proto.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/attr_value.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

FunctionRef Function(std::string name, AttrMap attrs = {}) {
  FunctionRef function;
  function.name = std::move(name);
  function.attrs = std::move(attrs);
  return function;
}

TEST(AttrProtoTest, EveryKindSurvivesTheWire) {
  const AttrValue values[] = {
      std::string("te\0xt", 5),
      int64_t{-7},
      0.5f,
      true,
      kBfloat16,
      PartialShape({2, -1}),
      PartialShape(),
      Tensor::Vector<int32_t>({1, 2, 3}),
      Tensor::Scalar<std::string>("s"),
      Function("f", {{"T", kFloat32}, {"g", Function("g")}}),
      std::vector<std::string>{"a", "b"},
      std::vector<int64_t>{1, -2},
      std::vector<float>{0.5f},
      std::vector<bool>{true, false},
      std::vector<DataType>{kFloat32, kInt64},
      std::vector<PartialShape>{PartialShape(), PartialShape({1})},
      std::vector<Tensor>{Tensor::Scalar<float>(1.0f)},
      std::vector<FunctionRef>{Function("f"), Function("g", {{"n", 1}})},
      AttrValue::Placeholder{"T"},
      AttrValue(),
  };
  for (const AttrValue& value : values) {
    tensorflow::AttrValue proto;
    ASSERT_TRUE(AttrToProto(value, &proto).ok());
    const absl::StatusOr<AttrValue> back = AttrFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->kind(), value.kind()) << value.DebugString();
    EXPECT_EQ(back->DebugString(), value.DebugString());
    tensorflow::AttrValue again;
    ASSERT_TRUE(AttrToProto(*back, &again).ok());
    EXPECT_EQ(again.DebugString(), proto.DebugString());
  }
}

TEST(AttrProtoTest, AnEmptyListIsAListOfNoKind) {
  tensorflow::AttrValue proto;
  ASSERT_TRUE(AttrToProto(std::vector<int64_t>(), &proto).ok());
  EXPECT_TRUE(proto.has_list());
  const absl::StatusOr<AttrValue> value = AttrFromProto(proto);
  ASSERT_TRUE(value.ok());
  EXPECT_NE(value->Get<AttrValue::EmptyList>(), nullptr);
  ASSERT_TRUE(AttrToProto(*value, &proto).ok());
  EXPECT_TRUE(proto.has_list());
}

TEST(AttrProtoTest, BadMessagesAreRefused) {
  tensorflow::AttrValue type;
  type.set_type(static_cast<tensorflow::DataType>(77));
  tensorflow::AttrValue types;
  types.mutable_list()->add_type(static_cast<tensorflow::DataType>(-1));
  tensorflow::AttrValue mixed;
  mixed.mutable_list()->add_i(1);
  mixed.mutable_list()->add_s("x");
  tensorflow::AttrValue overflow;
  for (int i = 0; i < 2; ++i) {
    overflow.mutable_shape()->add_dim()->set_size(int64_t{1} << 40);
  }
  tensorflow::AttrValue bytes;
  bytes.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  bytes.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(4);
  bytes.mutable_tensor()->set_tensor_content("not sixteen bytes");
  for (const tensorflow::AttrValue& proto : {type, types, mixed, overflow, bytes}) {
    EXPECT_EQ(AttrFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument)
        << proto.DebugString();
  }
}

TEST(AttrProtoTest, DeepNestingIsRefused) {
  tensorflow::AttrValue proto;
  tensorflow::AttrValue* at = &proto;
  for (int i = 0; i < 1000; ++i) at = &(*at->mutable_func()->mutable_attr())["f"];
  EXPECT_EQ(AttrFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttrProtoTest, ManySmallMessagesShareOneBudget) {
  // A thousand elements in a few bytes: the one value repeats.
  tensorflow::AttrValue proto;
  proto.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  proto.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1000);
  proto.mutable_tensor()->add_float_val(1.0f);
  TensorBudget budget{10000};
  EXPECT_TRUE(AttrFromProto(proto, &budget).ok());
  EXPECT_TRUE(AttrFromProto(proto, &budget).ok());
  EXPECT_EQ(AttrFromProto(proto, &budget).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem
