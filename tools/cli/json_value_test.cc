#include "tools/cli/json_value.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem::cli {
namespace {

template <typename T>
std::vector<T> Values(const std::string& text) {
  const absl::StatusOr<Tensor> tensor = TensorFromJson(text, DataTypeOf<T>());
  EXPECT_TRUE(tensor.ok()) << text << ": " << tensor.status();
  if (!tensor.ok()) return {};
  return std::vector<T>(tensor->Elements<T>().begin(), tensor->Elements<T>().end());
}

void ExpectRefused(const std::string& text, DataType dtype, const std::string& why) {
  const absl::Status status = TensorFromJson(text, dtype).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 50) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
}

TEST(JsonValue, ListsAreTensors) {
  EXPECT_EQ(Values<float>("1.5"), std::vector<float>({1.5}));
  EXPECT_EQ(Values<float>("[1, true, -2.5e3]"), std::vector<float>({1, 1, -2500}));
  EXPECT_EQ(Values<int32_t>("[2.0, -3]"), std::vector<int32_t>({2, -3}));
  EXPECT_EQ(Values<bool>("[true, 0, 1]"), std::vector<bool>({true, false, true}));
  EXPECT_EQ(Values<std::string>("[\"a\", \"b c\"]"), std::vector<std::string>({"a", "b c"}));
  EXPECT_EQ(Values<std::string>("bare word"), std::vector<std::string>({"bare word"}));
  const auto matrix = TensorFromJson("[[1, 2, 3], [4, 5, 6]]", kFloat64);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->shape(), Shape({2, 3}));
  const auto empty = TensorFromJson("[[], []]", kFloat32);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape(), Shape({2, 0}));
}

TEST(JsonValue, EveryNumberOfAnIntegerTypeIsExact) {
  EXPECT_EQ(Values<int64_t>("[9007199254740993, 1.0, -9223372036854775808]"),
            std::vector<int64_t>({9007199254740993, 1, std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(Values<uint64_t>("18446744073709551615"),
            std::vector<uint64_t>({std::numeric_limits<uint64_t>::max()}));
}

TEST(JsonValue, WhatIsNotFiniteHasNames) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const char* text :
       {"[nan, inf, -inf, 1]", "[NaN,Infinity,-Infinity,1]", R"(["nan", "+inf", "-inf", 1])"}) {
    const std::vector<float> values = Values<float>(text);
    ASSERT_EQ(values.size(), 4u) << text;
    EXPECT_TRUE(std::isnan(values[0])) << text;
    EXPECT_EQ(std::vector<float>(values.begin() + 1, values.end()),
              std::vector<float>({kInf, -kInf, 1}));
  }
  EXPECT_EQ(Values<double>("-inf"), std::vector<double>({-kInf}));
  ExpectRefused("nan", kInt32, "int32");
  ExpectRefused("inf", kBool, "neither true nor false");
  ExpectRefused("[nano]", kFloat32, "not JSON");
  ExpectRefused("\"nan", kFloat32, "not JSON");
}

TEST(JsonValue, AStringIsWhatItIsUnlessItBeginsLikeJson) {
  for (const char* text : {"bare word", "", "5", "true", "nan", "{\"a\": 1}", " [", "\xff"}) {
    EXPECT_EQ(Values<std::string>(text), std::vector<std::string>({text}));
  }
  EXPECT_EQ(Values<std::string>("\"5\""), std::vector<std::string>({"5"}));
  EXPECT_EQ(Values<std::string>("[\"nan\"]"), std::vector<std::string>({"nan"}));
  ExpectRefused("[a, b]", kString, "a string that begins with \" or [ must be");
  ExpectRefused("\"half", kString, "must be");
}

TEST(JsonValue, ANumberThatDoesNotFitIsRefused) {
  ExpectRefused("3000000000", kInt32, "3000000000 is no value of type int32");
  ExpectRefused("18446744073709551615", kInt64, "18446744073709551615 is no");
  ExpectRefused("-9223372036854775808", kInt32, "-9223372036854775808 is no");
  ExpectRefused("2.7", kInt32, "2.7");
  ExpectRefused("1e300", kInt64, "no value of type");
  ExpectRefused("[1, 1e300]", kFloat32, "too large");
  ExpectRefused("100000", kFloat16, "too large");
  ExpectRefused("-1", kUint8, "-1");
  ExpectRefused("256", kUint8, "256");
  ExpectRefused("2", kBool, "neither true nor false");
  ExpectRefused("\"text\"", kFloat32, "no number");
  ExpectRefused("null", kFloat32, "no number");
  ExpectRefused("{\"a\": 1}", kFloat32, "no number");
  ExpectRefused("[1]", kString, "no string");
  ExpectRefused("what", kFloat32, "not JSON");
}

TEST(JsonValue, RaggedAndEndlessListsAreRefused) {
  ExpectRefused("[[1, 2], [3]]", kFloat32, "unequal lengths");
  ExpectRefused("[[1], 2]", kFloat32, "unequal depth");
  ExpectRefused("[1, [2]]", kFloat32, "unequal lengths");
  const std::string deep(60'000, '[');
  ExpectRefused(deep, kFloat32, "not JSON");
  ExpectRefused(deep + "1" + std::string(60'000, ']'), kFloat32, "deep");
  ExpectRefused(std::string(255, '[') + "1" + std::string(255, ']'), kFloat32, "254");
}

}  // namespace
}  // namespace tandem::cli
