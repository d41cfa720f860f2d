// Serialized tf.Examples and tf.SequenceExamples, by every form of a feature.
#include <vector>

#include "core/io/example_parser.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

// The names of the corpus: "f" floats, "i" integers, "s" strings.
std::vector<FeatureSpec> AllForms(bool lists) {
  std::vector<FeatureSpec> specs;
  for (const auto& [key, dtype] :
       {std::pair<const char*, DataType>{"f", kFloat32}, {"i", kInt64}, {"s", kString}}) {
    specs.push_back(FeatureSpec::Sparse(key, dtype));
    specs.push_back(FeatureSpec::Ragged(absl::StrCat(key, "r"), dtype));
    specs.push_back(FeatureSpec::Padded(absl::StrCat(key, "p"), dtype, Shape({2})));
    if (!lists) {
      specs.push_back(FeatureSpec::Fixed(absl::StrCat(key, "x"), dtype, Shape({2}),
                                         Tensor::Zeros(dtype, Shape({2}))));
    }
  }
  return specs;
}

ExampleParserOptions Limits() {
  ExampleParserOptions options;
  options.max_tensor_bytes = size_t{64} << 20;
  return options;
}

void Check(const std::vector<ParsedFeature>& features) {
  for (const ParsedFeature& feature : features) {
    if (feature.indices.is_valid()) {
      TANDEM_FUZZ_CHECK(feature.indices.shape().dim(0) == feature.values.num_elements(),
                        "an index for each value");
    }
    if (feature.row_splits.is_valid() && !feature.inner_row_splits.is_valid()) {
      const auto splits = feature.row_splits.Elements<int64_t>();
      TANDEM_FUZZ_CHECK(splits.back() == feature.values.num_elements(), "all values are in rows");
    }
  }
}

void Fuzz(FuzzInput input) {
  static const ExampleParser* const parser =
      new ExampleParser(*ExampleParser::Create(AllForms(false), Limits()));
  static const SequenceExampleParser* const sequences = new SequenceExampleParser(
      *SequenceExampleParser::Create(AllForms(false), AllForms(true), Limits()));

  const absl::string_view all = input.rest();
  const auto one = parser->ParseOne(all);
  const absl::string_view batch[] = {all, "", all};
  const auto parsed = parser->Parse(absl::Span<const absl::string_view>(batch));
  TANDEM_FUZZ_CHECK(parsed.ok() == one.ok(), parsed.status().ToString(), one.status().ToString());
  if (parsed.ok()) Check(*parsed);
  const auto sequence = sequences->Parse(absl::Span<const absl::string_view>(batch));
  if (sequence.ok()) {
    Check(sequence->context);
    Check(sequence->feature_lists);
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
