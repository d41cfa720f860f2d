#include "core/io/histogram.h"

#include <cfloat>
#include <cmath>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/summary.pb.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// The file that testdata/make_histogram_values.py wrote.
Json TensorFlowCases() {
  std::ifstream file("core/io/testdata/histogram_values.json");
  return Json::parse(file)["cases"];
}

Tensor VectorOf(const Json& values) {
  const auto numbers = values.get<std::vector<double>>();
  return Tensor::Vector<double>(absl::MakeConstSpan(numbers));
}

std::vector<double> Elements(const Tensor& tensor) {
  return std::vector<double>(tensor.Elements<double>().begin(), tensor.Elements<double>().end());
}

void ExpectMessage(const absl::Status& status, const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(Histogram, IsWhatTensorFlowWrites) {
  const Json cases = TensorFlowCases();
  EXPECT_GE(cases.size(), 8u);
  for (const Json& json : cases) {
    const Json& expected = json["histogram"];
    Histogram histogram;
    ASSERT_TRUE(histogram.AddTensor(VectorOf(json["values"])).ok());
    tensorflow::HistogramProto proto;
    histogram.ToProto(&proto);
    EXPECT_EQ(proto.min(), expected["min"].get<double>()) << json["name"];
    EXPECT_EQ(proto.max(), expected["max"].get<double>()) << json["name"];
    EXPECT_EQ(proto.num(), expected["num"].get<double>()) << json["name"];
    EXPECT_EQ(proto.sum(), expected["sum"].get<double>()) << json["name"];
    EXPECT_EQ(proto.sum_squares(), expected["sum_squares"].get<double>()) << json["name"];
    const std::vector<double> limits(proto.bucket_limit().begin(), proto.bucket_limit().end());
    const std::vector<double> counts(proto.bucket().begin(), proto.bucket().end());
    EXPECT_EQ(limits, expected["limits"].get<std::vector<double>>()) << json["name"];
    EXPECT_EQ(counts, expected["counts"].get<std::vector<double>>()) << json["name"];
  }
}

TEST(Histogram, BucketsAreThoseOfTensorFlow2) {
  for (const Json& json : TensorFlowCases()) {
    for (const auto& [buckets, expected] : json["buckets"].items()) {
      const auto found = HistogramBuckets(VectorOf(json["values"]), std::stoi(buckets));
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->shape(), Shape({std::stoi(buckets), 3}));
      const auto numbers = expected.get<std::vector<double>>();
      for (size_t i = 0; i < numbers.size(); ++i) {
        // Counts are equal; edges are computed in another order.
        const double tolerance = i % 3 == 2 ? 0 : 1e-14 * (std::abs(numbers[i]) + 1e-300);
        EXPECT_NEAR(found->Elements<double>()[i], numbers[i],
                    std::max(tolerance, i % 3 == 2 ? 0 : 4e-15 * std::abs(numbers.front())))
            << json["name"] << ", element " << i << " of " << buckets << " buckets";
      }
    }
  }
}

TEST(Histogram, GoesThroughItsProto) {
  Histogram histogram;
  ASSERT_TRUE(histogram.AddTensor(Tensor::Vector<float>({-1, 0, 0, 3})).ok());
  tensorflow::HistogramProto proto, again;
  histogram.ToProto(&proto);
  const absl::StatusOr<Histogram> back = Histogram::FromProto(proto);
  ASSERT_TRUE(back.ok()) << back.status();
  back->ToProto(&again);
  EXPECT_EQ(again.SerializeAsString(), proto.SerializeAsString());
  EXPECT_EQ(Elements(back->ToTensor()), Elements(histogram.ToTensor()));
}

TEST(Histogram, TheTensorHasTheFilledBucketsBetweenMinimumAndMaximum) {
  Histogram histogram = *Histogram::WithLimits({0, 1, 2, 3, 4});
  EXPECT_EQ(histogram.ToTensor().shape(), Shape({0, 3}));
  ASSERT_TRUE(histogram.AddTensor(Tensor::Vector<double>({1.5, 1.25, 3.5})).ok());
  EXPECT_THAT(Elements(histogram.ToTensor()), ElementsAre(1.25, 2, 2, 2, 3, 0, 3, 3.5, 1));
}

TEST(Histogram, AValueOnAnEdgeIsRightOfIt) {
  Histogram histogram = *Histogram::WithLimits({0, 1, 2});
  for (const double value : {-5.0, 0.0, 1.0, 2.0, 7.0}) ASSERT_TRUE(histogram.Add(value).ok());
  EXPECT_THAT(histogram.counts(), ElementsAre(1, 1, 3));
  Histogram largest;
  ASSERT_TRUE(largest.Add(DBL_MAX).ok());
  ASSERT_TRUE(largest.Add(-DBL_MAX).ok());
  EXPECT_EQ(largest.counts().back(), 1);
}

TEST(Histogram, MergedCountsAreThoseOfAllValues) {
  Histogram first, second, all;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE((i % 3 == 0 ? first : second).Add(i - 40).ok());
    ASSERT_TRUE(all.Add(i - 40).ok());
  }
  ASSERT_TRUE(first.Merge(second).ok());
  tensorflow::HistogramProto merged, expected;
  first.ToProto(&merged);
  all.ToProto(&expected);
  EXPECT_EQ(merged.SerializeAsString(), expected.SerializeAsString());
  ExpectMessage(first.Merge(*Histogram::WithLimits({1, 2})), HasSubstr("cannot be merged"));
}

TEST(Histogram, CountsEveryTypeOfRealNumbers) {
  const auto count = [](const Tensor& tensor) {
    Histogram histogram;
    EXPECT_TRUE(histogram.AddTensor(tensor).ok());
    return histogram.sum();
  };
  EXPECT_EQ(count(Tensor::Vector<float>({1, 2})), 3);
  EXPECT_EQ(count(Tensor::Vector<Float16>({Float16(1), Float16(2)})), 3);
  EXPECT_EQ(count(Tensor::Vector<Bfloat16>({Bfloat16(1), Bfloat16(2)})), 3);
  EXPECT_EQ(count(Tensor::Vector<int8_t>({-1, 2})), 1);
  EXPECT_EQ(count(Tensor::Vector<int16_t>({-1, 2})), 1);
  EXPECT_EQ(count(Tensor::Vector<int32_t>({-1, 2})), 1);
  EXPECT_EQ(count(Tensor::Vector<int64_t>({-1, 2})), 1);
  EXPECT_EQ(count(Tensor::Vector<uint8_t>({200, 55})), 255);
  EXPECT_EQ(count(Tensor::Vector<uint16_t>({1, 2})), 3);
  EXPECT_EQ(count(Tensor::Vector<uint32_t>({1, 2})), 3);
  EXPECT_EQ(count(Tensor::Vector<uint64_t>({1, 2})), 3);
  EXPECT_EQ(count(Tensor::Vector<bool>({true, false, true})), 2);
}

TEST(Histogram, WhatCannotBeCountedIsRefusedAndNothingIsCounted) {
  Histogram histogram;
  ExpectMessage(histogram.AddTensor(Tensor::Vector<float>({1, NAN, 2, INFINITY})),
                AllOf(HasSubstr("element 1"), HasSubstr("float32[4]"), HasSubstr("2 in all")));
  ExpectMessage(histogram.Add(INFINITY), HasSubstr("inf"));
  ExpectMessage(histogram.AddTensor(Tensor::Scalar<std::string>("x")), HasSubstr("string"));
  ExpectMessage(histogram.AddTensor(Tensor()), HasSubstr("real numbers"));
  EXPECT_EQ(histogram.num(), 0);
  ExpectMessage(HistogramBuckets(Tensor::Scalar(NAN)).status(), HasSubstr("not finite"));
  ExpectMessage(HistogramBuckets(Tensor::Scalar(1.0), -1).status(), HasSubstr("found -1"));
  ExpectMessage(HistogramBuckets(Tensor::Scalar(1.0), 2'000'000).status(), HasSubstr("2000000"));
}

TEST(Histogram, FiniteElementsAreTakenFromOthers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto finite =
      TakeFinite(Tensor::FromValues<float>({2, 3}, {1, kInf, -2, std::nanf(""), 3, -kInf}));
  ASSERT_TRUE(finite.ok()) << finite.status();
  EXPECT_EQ(finite->left_out, 3);
  EXPECT_EQ(finite->values.shape(), Shape({3}));
  EXPECT_THAT(finite->values.Elements<double>(), ElementsAre(1, -2, 3));
  EXPECT_EQ(TakeFinite(Tensor::Vector<bool>({true}))->left_out, 0);
  EXPECT_EQ(TakeFinite(Tensor::Vector<std::string>({"a"})).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Histogram, ARangeThatIsNoDoubleStillCountsAllValues) {
  const Tensor found = *HistogramBuckets(Tensor::Vector<double>({-DBL_MAX, 0, DBL_MAX}), 2);
  EXPECT_EQ(Elements(found)[2] + Elements(found)[5], 3);
}

TEST(Histogram, LimitsAndProtosAreChecked) {
  ExpectMessage(Histogram::WithLimits({}).status(), HasSubstr("no buckets"));
  ExpectMessage(Histogram::WithLimits({1, 1}).status(), HasSubstr("limit 1"));
  ExpectMessage(Histogram::WithLimits({NAN}).status(), HasSubstr("limit 0"));
  tensorflow::HistogramProto proto;
  ExpectMessage(Histogram::FromProto(proto).status(), HasSubstr("no buckets"));
  proto.add_bucket_limit(1);
  ExpectMessage(Histogram::FromProto(proto).status(), HasSubstr("1 limits and 0 counts"));
  proto.add_bucket(-1);
  ExpectMessage(Histogram::FromProto(proto).status(), HasSubstr("count 0"));
}

}  // namespace
}  // namespace tandem
