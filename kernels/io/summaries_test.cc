#include <string>
#include <vector>

#include "core/tensor/tensor_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/io/summary_test_util.h"
#include "kernels/testing/op_runner.h"
#include "nlohmann/json.hpp"
#include "proto/summary.pb.h"

namespace tandem::io {
namespace {

using ::tandem::testing::RunOp;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::json;

absl::StatusOr<std::string> Summarize(const std::string& op, const std::vector<Tensor>& inputs,
                                      AttrMap attrs) {
  const auto outputs = RunOp(op, inputs, std::move(attrs));
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0].ScalarValue<std::string>();
}

absl::StatusOr<std::string> Summarize(const Json& test) {
  const std::vector<Tensor> inputs = InputsOf(test);
  AttrMap attrs = AttrsOf(test);
  if (test["op"] == "MergeSummary") attrs.emplace("N", static_cast<int64_t>(inputs.size()));
  return Summarize(test["op"], inputs, std::move(attrs));
}

// The file that testdata/make_summaries.py wrote.
TEST(Summaries, AreThoseOfTensorFlow) {
  const Json document = ReadSummaryCases();
  int cases = 0;
  for (const Json& test : document["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    ++cases;
    const absl::StatusOr<std::string> found = Summarize(test);
    if (test.contains("error")) {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << found.status();
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    tensorflow::Summary summary, expected;
    ASSERT_TRUE(summary.ParseFromString(*found));
    ASSERT_TRUE(expected.ParseFromString(Decoded(test["summary"])));
    const std::vector<Tensor> pixels = TakePixels(summary);
    const std::vector<Tensor> expected_pixels = TakePixels(expected);
    EXPECT_EQ(summary.SerializeAsString(), expected.SerializeAsString())
        << summary.ShortDebugString() << "\n"
        << expected.ShortDebugString();
    ASSERT_EQ(pixels.size(), expected_pixels.size());
    for (size_t i = 0; i < pixels.size(); ++i) {
      EXPECT_THAT(pixels[i].Elements<uint8_t>(),
                  ElementsAreArray(expected_pixels[i].Elements<uint8_t>()));
    }
  }
  EXPECT_EQ(cases, 69);
}

TEST(TensorSummary, HasTheNameOfItsNode) {
  const auto found = Summarize("TensorSummary", {Tensor::Vector<float>({1, 2})}, {});
  ASSERT_TRUE(found.ok()) << found.status();
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString(*found));
  ASSERT_EQ(summary.value_size(), 1);
  EXPECT_FALSE(summary.value(0).node_name().empty());
  EXPECT_TRUE(summary.value(0).tag().empty());
  const auto tensor = TensorFromProto(summary.value(0).tensor());
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->Elements<float>(), ElementsAreArray({1.f, 2.f}));
}

TEST(TensorSummary, TwoWithoutTagsMayBeMerged) {
  const Tensor one = Tensor::Scalar(*Summarize("TensorSummary", {Tensor::Scalar(1.f)}, {}));
  const auto merged = Summarize("MergeSummary", {one, one}, {{"N", int64_t{2}}});
  ASSERT_TRUE(merged.ok()) << merged.status();
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString(*merged));
  EXPECT_EQ(summary.value_size(), 2);
}

TEST(TensorSummary, MetadataMustBeMetadata) {
  const absl::Status status = Summarize("TensorSummaryV2",
                                        {Tensor::Scalar<std::string>("t"), Tensor::Scalar(1.f),
                                         Tensor::Scalar<std::string>("\x0a\xff")},
                                        {})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'t'"));
}

TEST(ImageSummary, AnImageWithoutPixelsIsRefused) {
  const absl::Status status =
      Summarize("ImageSummary",
                {Tensor::Scalar<std::string>("i"), Tensor(kUint8, Shape({1, 0, 2, 1}))}, {})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(ImageSummary, ABadColourThatIsNoVectorOfBytesIsRefused) {
  const std::vector<Tensor> inputs = {Tensor::Scalar<std::string>("i"),
                                      Tensor::Zeros(kUint8, {1, 1, 1, 1})};
  for (const Tensor& color : {Tensor::Vector<float>({1, 2, 3, 4}), Tensor::Scalar<uint8_t>(1)}) {
    EXPECT_EQ(Summarize("ImageSummary", inputs, {{"bad_color", color}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem::io
