#include "tools/generate_ops/wrappers.h"

#include <fstream>
#include <sstream>

#include "core/op/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/generate_ops/test_wrappers.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The test runs in the root of the repository's files.
std::string Golden(const std::string& name) {
  std::ifstream file("tools/generate_ops/" + name);
  EXPECT_TRUE(file.is_open()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<const OpDef*> Ops() { return OpsToWrap(OpRegistry::Global().List()); }

Output Float(const Scope& scope) { return ops::Placeholder(scope, kFloat32); }

TEST(WrappersTest, TheTextIsAsExpected) {
  EXPECT_EQ(WrapperHeader(Ops(), "tools/generate_ops/test_wrappers.h"),
            Golden("golden_wrappers.h.txt"));
  EXPECT_EQ(WrapperSource(Ops(), "tools/generate_ops/test_wrappers.h"),
            Golden("golden_wrappers.cc.txt"));
}

TEST(WrappersTest, HiddenOpsGetNone) {
  for (const OpDef* op : Ops()) {
    EXPECT_NE(op->name, "_Hidden");
    EXPECT_NE(op->name, "Const");
  }
}

TEST(WrappersTest, OptionsAreAttributes) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  const Output plain = ops::MatMul(root, x, x);
  const Output turned = ops::MatMul(root, x, x, {.transpose_b = true});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_FALSE(*plain.node->Attr<bool>("transpose_b"));
  EXPECT_TRUE(*turned.node->Attr<bool>("transpose_b"));
  const Output conv = ops::Conv2D(root, x, x, {1, 2, 2, 1}, "SAME", {.data_format = "NCHW"});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_THAT(*conv.node->Attr<std::vector<int64_t>>("strides"), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(*conv.node->Attr<std::vector<int64_t>>("dilations"), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(*conv.node->Attr<std::string>("data_format"), "NCHW");
}

TEST(WrappersTest, EachKindOfResultComesBack) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  EXPECT_NE(ops::NoOp(root), nullptr);
  const auto [values, indices] = ops::TopKV2(root, x, 2, {.index_type = kInt64});
  const std::vector<Output> parts = ops::Split(root, 0, x, 3);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(values.index, 0);
  EXPECT_EQ(indices.dtype(), kInt64);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].index, 2);
  EXPECT_TRUE(ops::ConcatV2(root, {x, parts[0], 1.5f}, 0).valid()) << root.status();
}

TEST(WrappersTest, SeveralListsKeepTheirLengths) {
  const Scope root = Scope::NewRoot();
  const ops::ParseExampleOutputs parsed =
      ops::ParseExample(root, "text", {"a", "b"}, {1.0f, "default"}, {kInt64, kFloat32});
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_EQ(parsed.sparse_indices.size(), 2u);
  ASSERT_EQ(parsed.sparse_values.size(), 2u);
  EXPECT_EQ(parsed.sparse_values[0].dtype(), kInt64);
  ASSERT_EQ(parsed.dense_values.size(), 2u);
  EXPECT_EQ(parsed.dense_values[1].dtype(), kString);
  EXPECT_EQ(parsed.dense_values[1].index, 5);
}

TEST(WrappersTest, NamesThatCppReservesGetAnUnderscore) {
  const Scope root = Scope::NewRoot();
  const ops::KeywordsOutputs outputs =
      ops::Keywords(root, 1.0f, 2.0f, /*class_=*/3, {.delete_ = "x", .auto_ = 2.0f});
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(*outputs.switch_.node->Attr<int64_t>("class"), 3);
  EXPECT_EQ(*outputs.union_.node->Attr<std::string>("delete"), "x");
  EXPECT_EQ(*outputs.union_.node->Attr<float>("options"), 0.5f);
}

TEST(WrappersTest, AfterAnErrorNothingIsValid) {
  const Scope root = Scope::NewRoot();
  const Output x = Float(root);
  EXPECT_FALSE(ops::MatMul(root, x, 1.5f, {}).node == nullptr);
  EXPECT_FALSE(ops::MatMul(root, x, "text").valid());
  EXPECT_THAT(std::string(root.status().message()), HasSubstr("MatMul"));
  EXPECT_FALSE(ops::TopKV2(root, x, 2).values.valid());
  EXPECT_TRUE(ops::Split(root, 0, x, 3).empty());
  EXPECT_EQ(ops::NoOp(root), nullptr);
}

}  // namespace
}  // namespace tandem
