#include "core/io/example_parser.h"

#include <fstream>
#include <random>

#include "absl/strings/escaping.h"
#include "core/io/example.h"
#include "core/io/testing/mutations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;
using Json = nlohmann::json;

std::string Bytes(const tensorflow::Example& example) { return *SerializeExample(example); }

std::string OneFeature(const std::string& key, tensorflow::Feature feature) {
  tensorflow::Example example;
  SetFeature(key, std::move(feature), &example);
  return Bytes(example);
}

template <typename Result>
void ExpectError(const absl::StatusOr<Result>& result, const Matcher<std::string>& message,
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), message);
}

absl::StatusOr<std::vector<ParsedFeature>> Parse(std::vector<FeatureSpec> specs,
                                                 const std::vector<std::string>& serialized) {
  absl::StatusOr<ExampleParser> parser = ExampleParser::Create(std::move(specs));
  if (!parser.ok()) return parser.status();
  return parser->Parse(serialized);
}

// The file that testdata/make_example_values.py wrote.

Tensor TensorOf(const Json& json, DataType dtype) {
  const auto dims = json["shape"].get<std::vector<int64_t>>();
  Tensor tensor(dtype, Shape(dims));
  for (size_t i = 0; i < json["data"].size(); ++i) {
    const Json& value = json["data"][i];
    if (dtype == kFloat32) tensor.MutableElements<float>()[i] = value.get<float>();
    if (dtype == kInt64) tensor.MutableElements<int64_t>()[i] = value.get<int64_t>();
    if (dtype == kInt32) tensor.MutableElements<int32_t>()[i] = value.get<int32_t>();
    if (dtype == kString) {
      tensor.MutableElements<std::string>()[i] = absl::HexStringToBytes(value.get<std::string>());
    }
  }
  return tensor;
}

std::vector<FeatureSpec> SpecsOf(const Json& json) {
  std::vector<FeatureSpec> specs;
  for (const Json& entry : json) {
    FeatureSpec spec;
    spec.key = entry["key"];
    spec.dtype = *ParseDataType(entry["dtype"].get<std::string>());
    const std::string form = entry["form"];
    spec.form = form == "fixed"    ? FeatureSpec::Form::kFixed
                : form == "padded" ? FeatureSpec::Form::kPadded
                : form == "sparse" ? FeatureSpec::Form::kSparse
                                   : FeatureSpec::Form::kRagged;
    spec.shape = Shape(entry["shape"].get<std::vector<int64_t>>());
    spec.splits_dtype = *ParseDataType(entry["splits"].get<std::string>());
    spec.allow_missing = entry["allow_missing"];
    const Json& value = entry["default"];
    if (!value.is_null()) {
      const Json data = value.is_array() ? value : Json::array({value});
      const Shape shape = value.is_array() ? spec.shape : Shape();
      spec.default_value =
          TensorOf({{"shape", std::vector<int64_t>(shape.dims().begin(), shape.dims().end())},
                    {"data", data}},
                   spec.dtype);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

void ExpectEqual(const Tensor& found, const Json& expected, DataType dtype,
                 const std::string& what) {
  ASSERT_EQ(found.is_valid(), !expected.is_null()) << what;
  if (!found.is_valid()) return;
  EXPECT_EQ(found.dtype(), dtype) << what;
  EXPECT_EQ(found.DebugString(1 << 20), TensorOf(expected, dtype).DebugString(1 << 20)) << what;
}

void ExpectEqual(const std::vector<ParsedFeature>& found, const Json& expected,
                 const std::vector<FeatureSpec>& specs, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto at = [&](const char* part) { return expected[i].value(part, Json()); };
    ExpectEqual(found[i].values, at("values"), specs[i].dtype, what + " values");
    ExpectEqual(found[i].indices, at("indices"), kInt64, what + " indices");
    ExpectEqual(found[i].dense_shape, at("dense_shape"), kInt64, what + " dense_shape");
    ExpectEqual(found[i].row_splits, at("row_splits"), specs[i].splits_dtype, what + " splits");
    ExpectEqual(found[i].inner_row_splits, at("inner_row_splits"), specs[i].splits_dtype,
                what + " inner splits");
    ExpectEqual(found[i].lengths, at("lengths"), kInt64, what + " lengths");
  }
}

TEST(ExampleParser, ParsesWhatTensorFlowParses) {
  std::ifstream file("core/io/testdata/example_values.json");
  const Json cases = Json::parse(file)["cases"];
  EXPECT_GT(cases.size(), 200u);
  for (const Json& json : cases) {
    std::vector<std::string> serialized;
    for (const Json& hex : json["examples"]) {
      serialized.push_back(absl::HexStringToBytes(hex.get<std::string>()));
    }
    const Json& expected = json["expected"];
    if (json.contains("features")) {
      const std::string what = json["name"].get<std::string>() + json["features"].dump();
      const std::vector<FeatureSpec> specs = SpecsOf(json["features"]);
      const auto found = Parse(specs, serialized);
      ASSERT_EQ(found.ok(), expected != "error") << what << found.status();
      if (found.ok()) ExpectEqual(*found, expected, specs, what);
      continue;
    }
    const std::string what =
        json["name"].get<std::string>() + json["context"].dump() + json["lists"].dump();
    const std::vector<FeatureSpec> context = SpecsOf(json["context"]);
    const std::vector<FeatureSpec> lists = SpecsOf(json["lists"]);
    const auto found = SequenceExampleParser::Create(context, lists)->Parse(serialized);
    ASSERT_EQ(found.ok(), expected != "error") << what << found.status();
    if (!found.ok()) continue;
    ExpectEqual(found->context, expected["context"], context, what);
    ExpectEqual(found->feature_lists, expected["lists"], lists, what);
  }
}

TEST(ExampleParser, ErrorsNameExampleFeatureExpectedAndFound) {
  const std::string good = OneFeature("a", FloatFeature({1, 2}));
  const FeatureSpec fixed = FeatureSpec::Fixed("a", kFloat32, {2});
  ExpectError(Parse({fixed}, {good, OneFeature("a", Int64Feature({1, 2}))}),
              AllOf(HasSubstr("example 1: feature 'a' holds int64"), HasSubstr("float32")));
  ExpectError(Parse({fixed}, {good, OneFeature("b", Int64Feature({1, 2}))}),
              AllOf(HasSubstr("example 1: feature 'a' is missing"), HasSubstr("2 float32")));
  ExpectError(Parse({fixed}, {good, good, OneFeature("a", FloatFeature({1, 2, 3}))}),
              AllOf(HasSubstr("example 2: feature 'a' has 3 float32"), HasSubstr("expected 2"),
                    HasSubstr("[2]")));
  ExpectError(
      Parse({FeatureSpec::Padded("a", kFloat32, {2})}, {OneFeature("a", FloatFeature({1, 2, 3}))}),
      HasSubstr("a multiple of 2"));
  ExpectError(Parse({FeatureSpec::Sparse("a\n", kString)}, {OneFeature("a\n", Int64Feature({1}))}),
              HasSubstr("feature 'a\\n' holds int64"));
  ExpectError(Parse({fixed}, {good, good.substr(0, good.size() - 1)}),
              AllOf(HasSubstr("example 1 is not a serialized tf.Example"), HasSubstr("byte 1 of")));
}

TEST(ExampleParser, ErrorsInFeatureListsNameTheStep) {
  tensorflow::SequenceExample first, second;
  AddStep("a", FloatFeature({1, 2}), &first);
  AddStep("a", FloatFeature({1, 2}), &second);
  AddStep("a", FloatFeature({1}), &second);
  const std::vector<std::string> serialized = {*SerializeExample(first), *SerializeExample(second)};
  const auto parse = [&](FeatureSpec spec) {
    return SequenceExampleParser::Create({}, {std::move(spec)})->Parse(serialized);
  };
  ExpectError(parse(FeatureSpec::Padded("a", kFloat32, {2})),
              AllOf(HasSubstr("example 1: feature list 'a', step 1 has 1"),
                    HasSubstr("expected 2, for shape [2]")));
  ExpectError(parse(FeatureSpec::Sparse("a", kInt64)),
              HasSubstr("example 0: feature list 'a', step 0 holds float32"));
  FeatureSpec required = FeatureSpec::Padded("b", kInt64);
  required.allow_missing = false;
  ExpectError(parse(required), HasSubstr("example 0: feature list 'b' is missing"));
}

TEST(ExampleParser, OneExampleHasNoDimensionForTheBatch) {
  tensorflow::Example example;
  SetFeature("a", FloatFeature({1, 2}), &example);
  const auto parser = ExampleParser::Create(
      {FeatureSpec::Fixed("a", kFloat32, {2, 1}), FeatureSpec::Padded("b", kInt64, {3}),
       FeatureSpec::Sparse("a2", kFloat32), FeatureSpec::Ragged("c", kString)});
  ASSERT_TRUE(parser.ok()) << parser.status();
  SetFeature("a2", FloatFeature({5, 6}), &example);
  SetFeature("c", BytesFeature({"x"}), &example);
  const auto found = parser->ParseOne(Bytes(example));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[0].values.DebugString(),
            Tensor::FromValues<float>({2, 1}, {1, 2}).DebugString());
  EXPECT_EQ((*found)[1].values.shape(), Shape({0, 3}));
  EXPECT_EQ((*found)[2].indices.DebugString(),
            Tensor::FromValues<int64_t>({2, 1}, {0, 1}).DebugString());
  EXPECT_EQ((*found)[2].dense_shape.DebugString(), Tensor::Vector<int64_t>({2}).DebugString());
  EXPECT_EQ((*found)[3].values.DebugString(), Tensor::Vector<std::string>({"x"}).DebugString());
  EXPECT_FALSE((*found)[3].row_splits.is_valid());
}

// TensorFlow refuses these; they follow from how messages are written.
TEST(ExampleParser, TakesWhatOtherWritersMayWrite) {
  const auto sparse = [](const std::string& bytes) {
    const auto found = Parse({FeatureSpec::Ragged("a", kInt64)}, {bytes});
    return found.ok() ? (*found)[0].values.DebugString() : found.status().ToString();
  };
  const auto hex = [](const char* text) { return absl::HexStringToBytes(text); };
  const std::string seven = Tensor::Vector<int64_t>({7}).DebugString();
  // An unknown field beside the entries, in an entry, in a feature.
  EXPECT_EQ(sparse(hex("0a0e0a0a0a016112051a030a01071805")), seven);
  EXPECT_EQ(sparse(hex("0a0e0a0c0a016112051a030a01072805")), seven);
  EXPECT_EQ(sparse(hex("0a0e0a0c0a0161120728051a030a0107")), seven);
  // Packed and unpacked values in one list.
  EXPECT_EQ(sparse(hex("0a110a0f0a0161120a1a080a010708080a0109")),
            Tensor::Vector<int64_t>({7, 8, 9}).DebugString());
  // An entry without a value.
  EXPECT_EQ(sparse(hex("0a050a030a0161")), Tensor(kInt64, {0}).DebugString());
}

TEST(ExampleParser, SpecificationsAreChecked) {
  const auto create = [](std::vector<FeatureSpec> specs) {
    return ExampleParser::Create(std::move(specs));
  };
  ExpectError(create({FeatureSpec::Fixed("a", kInt32, {})}), HasSubstr("found int32"));
  ExpectError(create({FeatureSpec::Sparse("a", kInt64), FeatureSpec::Ragged("a", kInt64)}),
              HasSubstr("twice"));
  ExpectError(create({FeatureSpec::Fixed("a", kInt64, {2}, Tensor::Scalar<int64_t>(1))}),
              HasSubstr("shape [2]"));
  ExpectError(create({FeatureSpec::Fixed("a", kInt64, {}, Tensor::Scalar(1.f))}),
              HasSubstr("type int64"));
  ExpectError(create({FeatureSpec::Padded("a", kInt64, {0})}), HasSubstr("no elements"));
  ExpectError(create({FeatureSpec::Ragged("a", kInt64, kFloat32)}), HasSubstr("float32"));
  ExpectError(SequenceExampleParser::Create({}, {FeatureSpec::Fixed("a", kInt64, {})}),
              HasSubstr("no fixed form"));
}

TEST(ExampleParser, OneLongExampleCannotMakeAPaddedBatchLargerThanTheLimit) {
  std::vector<std::string> serialized(1000);
  serialized[7] = OneFeature("a", Int64Feature(std::vector<int64_t>(1000, 1)));
  const auto parser = ExampleParser::Create({FeatureSpec::Padded("a", kInt64)},
                                            {.max_tensor_bytes = size_t{1} << 20});
  ExpectError(parser->Parse(serialized), HasSubstr("[1000,1000]"),
              absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(parser->Parse(absl::MakeSpan(serialized).subspan(0, 100)).ok());
}

TEST(ExampleParser, DamagedExamplesNeverDoHarm) {
  tensorflow::Example example;
  tensorflow::SequenceExample sequence;
  SetFeature("f", FloatFeature({1, 2, 3}), &example);
  SetFeature("i", Int64Feature({1, -1, 1 << 20}), &example);
  SetFeature("s", BytesFeature({"abc", "", "de"}), &example);
  *sequence.mutable_context() = example.features();
  for (int step = 0; step < 3; ++step) {
    AddStep("f", FloatFeature({1, 2}), &sequence);
    AddStep("i", Int64Feature({step}), &sequence);
  }
  const auto parser =
      *ExampleParser::Create({FeatureSpec::Fixed("f", kFloat32, {3}),
                              FeatureSpec::Sparse("i", kInt64), FeatureSpec::Ragged("s", kString)},
                             {.max_tensor_bytes = 1 << 20});
  const auto sequence_parser = *SequenceExampleParser::Create(
      parser.features(),
      {FeatureSpec::Padded("f", kFloat32, {2}), FeatureSpec::Ragged("i", kInt64)},
      {.max_tensor_bytes = 1 << 20});
  const std::string bytes = Bytes(example), sequence_bytes = *SerializeExample(sequence);
  std::mt19937_64 random(1);
  const int64_t peak_before = HostAllocator()->stats().peak_bytes;
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<std::string> batch = {bytes, Mutate(bytes, random)};
    const std::vector<std::string> sequences = {Mutate(sequence_bytes, random), sequence_bytes};
    read += parser.Parse(batch).ok() ? 1 : 0;
    read += sequence_parser.Parse(sequences).ok() ? 1 : 0;
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 30000);
  EXPECT_LT(HostAllocator()->stats().peak_bytes, peak_before + (int64_t{4} << 20));
}

}  // namespace
}  // namespace tandem
