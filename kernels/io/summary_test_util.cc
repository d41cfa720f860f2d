#include "kernels/io/summary_test_util.h"

#include <cstdint>
#include <fstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/io/image.h"
#include "gtest/gtest.h"

namespace tandem::io {
namespace {

using Json = nlohmann::json;

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

}  // namespace

Json ReadSummaryCases() {
  std::ifstream file("kernels/io/testdata/summaries.json");
  return Json::parse(file);
}

std::string Decoded(const std::string& text) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(text, &bytes));
  return bytes;
}

std::vector<Tensor> InputsOf(const Json& test) {
  std::vector<Tensor> inputs;
  for (const Json& input : test["inputs"]) inputs.push_back(TensorOf(input));
  return inputs;
}

AttrMap AttrsOf(const Json& test) {
  AttrMap attrs;
  for (const char* const name : {"max_images", "max_outputs"}) {
    if (test.contains(name)) attrs.emplace(name, test[name].get<int64_t>());
  }
  if (test.contains("bad_color")) {
    const auto color = test["bad_color"].get<std::vector<uint8_t>>();
    attrs.emplace("bad_color", Tensor::Vector<uint8_t>(absl::MakeConstSpan(color)));
  }
  return attrs;
}

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

}  // namespace tandem::io
