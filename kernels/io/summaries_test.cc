#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/io/image.h"
#include "core/tensor/tensor_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"
#include "nlohmann/json.hpp"
#include "proto/summary.pb.h"

namespace tandem::io {
namespace {

using ::tandem::testing::RunOp;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string Decoded(const std::string& text) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(text, &bytes));
  return bytes;
}

template <typename T>
Tensor Numbers(const Shape& shape, const Json& values) {
  std::vector<T> elements;
  for (const std::string value : values) {
    elements.push_back(static_cast<T>(std::stod(value)));
  }
  return Tensor::FromValues<T>(shape, absl::MakeConstSpan(elements));
}

Tensor TensorOf(const Json& json) {
  const Shape shape = *Shape::FromDims(json["shape"].get<std::vector<int64_t>>());
  const Json& values = json["values"];
  const std::string type = json["dtype"];
  if (type == "string") {
    std::vector<std::string> texts;
    for (const std::string value : values) texts.push_back(Decoded(value));
    return Tensor::FromValues<std::string>(shape, absl::MakeConstSpan(texts));
  }
  if (type == "bool") {
    Tensor tensor = Tensor::Zeros(kBool, shape);
    for (size_t i = 0; i < values.size(); ++i) {
      tensor.MutableElements<bool>()[i] = values[i] != "0.0";
    }
    return tensor;
  }
  if (type == "float64") return Numbers<double>(shape, values);
  if (type == "float16") return Numbers<Float16>(shape, values);
  if (type == "bfloat16") return Numbers<Bfloat16>(shape, values);
  if (type == "int8") return Numbers<int8_t>(shape, values);
  if (type == "int16") return Numbers<int16_t>(shape, values);
  if (type == "int32") return Numbers<int32_t>(shape, values);
  if (type == "int64") return Numbers<int64_t>(shape, values);
  if (type == "uint8") return Numbers<uint8_t>(shape, values);
  if (type == "uint16") return Numbers<uint16_t>(shape, values);
  if (type == "uint32") return Numbers<uint32_t>(shape, values);
  if (type == "uint64") return Numbers<uint64_t>(shape, values);
  EXPECT_EQ(type, "float32");
  return Numbers<float>(shape, values);
}

absl::StatusOr<std::string> Summarize(const std::string& op, const std::vector<Tensor>& inputs,
                                      AttrMap attrs) {
  const auto outputs = RunOp(op, inputs, std::move(attrs));
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0].ScalarValue<std::string>();
}

absl::StatusOr<std::string> Summarize(const Json& test) {
  std::vector<Tensor> inputs;
  for (const Json& input : test["inputs"]) inputs.push_back(TensorOf(input));
  AttrMap attrs;
  if (test["op"] == "MergeSummary") attrs.emplace("N", static_cast<int64_t>(inputs.size()));
  if (test.contains("max_images")) attrs.emplace("max_images", test["max_images"].get<int64_t>());
  if (test.contains("bad_color")) {
    const auto color = test["bad_color"].get<std::vector<uint8_t>>();
    attrs.emplace("bad_color", Tensor::Vector<uint8_t>(absl::MakeConstSpan(color)));
  }
  return Summarize(test["op"], inputs, std::move(attrs));
}

// Takes the pixels out, which may be packed in another way.
std::vector<Tensor> TakePixels(tensorflow::Summary& summary) {
  std::vector<Tensor> pixels;
  for (tensorflow::Summary::Value& value : *summary.mutable_value()) {
    if (!value.has_image()) continue;
    const auto decoded = DecodePng(value.image().encoded_image_string());
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    if (decoded.ok()) pixels.push_back(*decoded);
    value.mutable_image()->clear_encoded_image_string();
  }
  return pixels;
}

// The file that testdata/make_summaries.py wrote.
TEST(Summaries, AreThoseOfTensorFlow) {
  std::ifstream file("kernels/io/testdata/summaries.json");
  const Json document = Json::parse(file);
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
  EXPECT_EQ(cases, 63);
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
