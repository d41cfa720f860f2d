#include "core/io/example.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
std::string Hex(const Message& example) {
  const absl::StatusOr<std::string> bytes = SerializeExample(example);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? absl::BytesToHexString(*bytes) : "";
}

// What TensorFlow's messages serialize to, in order.
TEST(Example, HasTheBytesOfTensorFlow) {
  tensorflow::Example example;
  SetFeature("n", Int64Feature({1, -1}), &example);
  SetFeature("f", FloatFeature({1.5f}), &example);
  SetFeature("b", BytesFeature({"xy", ""}), &example);
  SetFeature("e", BytesFeature({}), &example);
  SetFeature("m", tensorflow::Feature(), &example);
  EXPECT_EQ(Hex(example),
            "0a440a0d0a016212080a060a0278790a000a070a016512020a000a0d0a0166120812060a040000c03f"
            "0a050a016d12000a140a016e120f1a0d0a0b01ffffffffffffffffff01");
}

TEST(Example, ASequenceHasTheBytesOfTensorFlow) {
  tensorflow::SequenceExample example;
  SetContextFeature("n", Int64Feature({7}), &example);
  AddStep("x", FloatFeature({1.5f}), &example);
  AddStep("x", FloatFeature({}), &example);
  EXPECT_EQ(Hex(example),
            "0a0c0a0a0a016e12051a030a010712150a130a0178120e0a0812060a040000c03f0a021200");
}

TEST(Example, KeysAreWrittenInOrderWhateverTheOrderOfInsertion) {
  tensorflow::Example forwards, backwards;
  for (int i = 0; i < 26; ++i) {
    SetFeature(std::string(1, static_cast<char>('a' + i)), Int64Feature({i}), &forwards);
    SetFeature(std::string(1, static_cast<char>('z' - i)), Int64Feature({25 - i}), &backwards);
  }
  EXPECT_EQ(Hex(forwards), Hex(backwards));
}

TEST(Example, AnotherFeatureOfTheSameNameReplacesTheFirst) {
  tensorflow::Example example;
  SetFeature("a", FloatFeature({1}), &example);
  SetFeature("a", Int64Feature({2}), &example);
  EXPECT_EQ(example.features().feature_size(), 1);
  EXPECT_TRUE(example.features().feature().at("a").has_int64_list());
}

std::string ThereAndBack(const Tensor& tensor) {
  const absl::StatusOr<tensorflow::Feature> feature = FeatureFromTensor(tensor);
  if (!feature.ok()) return feature.status().ToString();
  const absl::StatusOr<Tensor> back = TensorFromFeature(*feature);
  return back.ok() ? back->DebugString() : back.status().ToString();
}

TEST(Example, TensorsBecomeFeaturesOfTheTypeThatHoldsTheirValues) {
  EXPECT_EQ(ThereAndBack(Tensor::FromValues<float>({1, 2}, {1.5f, -2})),
            Tensor::Vector<float>({1.5f, -2}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<Float16>({Float16(1.5f)})),
            Tensor::Vector<float>({1.5f}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<Bfloat16>({Bfloat16(1.5f)})),
            Tensor::Vector<float>({1.5f}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<bool>({true, false})),
            Tensor::Vector<int64_t>({1, 0}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<int8_t>({-128})),
            Tensor::Vector<int64_t>({-128}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<int16_t>({-5})),
            Tensor::Vector<int64_t>({-5}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<int32_t>({-5})),
            Tensor::Vector<int64_t>({-5}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<int64_t>({INT64_MIN})),
            Tensor::Vector<int64_t>({INT64_MIN}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<uint8_t>({255})),
            Tensor::Vector<int64_t>({255}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<uint16_t>({65535})),
            Tensor::Vector<int64_t>({65535}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<uint32_t>({4294967295u})),
            Tensor::Vector<int64_t>({4294967295}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Vector<uint64_t>({7})),
            Tensor::Vector<int64_t>({7}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor::Scalar<std::string>("x")),
            Tensor::Vector<std::string>({"x"}).DebugString());
  EXPECT_EQ(ThereAndBack(Tensor(kFloat32, {0})), Tensor(kFloat32, {0}).DebugString());
}

TEST(Example, TensorsWhoseValuesWouldChangeAreRefused) {
  EXPECT_THAT(ThereAndBack(Tensor::Scalar(1.5)), HasSubstr("float64 must be cast"));
  EXPECT_THAT(ThereAndBack(Tensor::Vector<uint64_t>({uint64_t{1} << 63})),
              HasSubstr("9223372036854775808 does not fit"));
  EXPECT_THAT(ThereAndBack(Tensor()), HasSubstr("INVALID_ARGUMENT"));
}

TEST(Example, AFeatureWithoutAKindHasNoValues) {
  EXPECT_EQ(TensorFromFeature(tensorflow::Feature()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem
