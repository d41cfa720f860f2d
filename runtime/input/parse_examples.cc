// ParseExamples: serialized examples as tensors. Attributes: those of its features
// (feature_attrs.h), threads. ParseSequenceExamples: the same of sequence examples; a single one is
// a batch of one.
// Attributes: those of features with the prefixes context_ and list_, threads.
#include <memory>

#include "core/base/status.h"
#include "core/io/example_parser.h"
#include "runtime/input/feature_attrs.h"
#include "runtime/input/map.h"

namespace tandem::data {
namespace {

// Each feature's tensors, in the order that Dataset::ParseExamples gives.
void Append(ParsedFeature feature, Element* element) {
  const auto add = [element](Tensor& tensor) {
    if (tensor.is_valid()) element->push_back(std::move(tensor));
  };
  add(feature.indices);
  add(feature.values);
  add(feature.dense_shape);
  add(feature.row_splits);
  add(feature.inner_row_splits);
  add(feature.lengths);
}

// The serialized examples of an element, or what it has instead.
absl::StatusOr<absl::Span<const std::string>> Serialized(const Element& element) {
  if (element.size() != 1 || element[0].dtype() != kString || element[0].shape().rank() > 1) {
    std::string found;
    for (const Tensor& tensor : element) {
      absl::StrAppend(&found, found.empty() ? "" : ", ", DataTypeName(tensor.dtype()),
                      tensor.shape().DebugString());
    }
    return errors::InvalidArgument("is ", found.empty() ? "empty" : found,
                                   "; expected serialized examples, a string or a vector of them");
  }
  return element[0].Elements<std::string>();
}

absl::StatusOr<Element> Parse(const ExampleParser& parser, const Element& element) {
  TANDEM_ASSIGN_OR_RETURN(const absl::Span<const std::string> serialized, Serialized(element));
  TANDEM_ASSIGN_OR_RETURN(std::vector<ParsedFeature> features, element[0].shape().IsScalar()
                                                                   ? parser.ParseOne(serialized[0])
                                                                   : parser.Parse(serialized));
  Element result;
  for (ParsedFeature& feature : features) Append(std::move(feature), &result);
  return result;
}

absl::StatusOr<Element> ParseSequences(const SequenceExampleParser& parser,
                                       const Element& element) {
  TANDEM_ASSIGN_OR_RETURN(const absl::Span<const std::string> serialized, Serialized(element));
  TANDEM_ASSIGN_OR_RETURN(ParsedSequences sequences, parser.Parse(serialized));
  Element result;
  for (ParsedFeature& feature : sequences.context) Append(std::move(feature), &result);
  for (ParsedFeature& feature : sequences.feature_lists) Append(std::move(feature), &result);
  return result;
}

absl::StatusOr<OpenedStagePtr> OpenParseExamples(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> features, FeaturesFromAttrs("", stage));
  if (features.empty()) {
    return errors::InvalidArgument(stage.kind(), ": no features were asked for");
  }
  absl::StatusOr<ExampleParser> parser = ExampleParser::Create(std::move(features));
  if (!parser.ok()) return WithContext(parser.status(), stage.kind());
  // Shared, since a function may be copied.
  const auto shared = std::make_shared<const ExampleParser>(*std::move(parser));
  return OpenMapStage(stage, stage.kind(), [shared](const MapContext&, const Element& element) {
    return Parse(*shared, element);
  });
}

absl::StatusOr<OpenedStagePtr> OpenParseSequenceExamples(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> context, FeaturesFromAttrs("context_", stage));
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> lists, FeaturesFromAttrs("list_", stage));
  if (context.empty() && lists.empty()) {
    return errors::InvalidArgument(stage.kind(), ": no features were asked for");
  }
  absl::StatusOr<SequenceExampleParser> parser =
      SequenceExampleParser::Create(std::move(context), std::move(lists));
  if (!parser.ok()) return WithContext(parser.status(), stage.kind());
  const auto shared = std::make_shared<const SequenceExampleParser>(*std::move(parser));
  return OpenMapStage(stage, stage.kind(), [shared](const MapContext&, const Element& element) {
    return ParseSequences(*shared, element);
  });
}

const bool registered =
    RegisterStage("ParseExamples", /*inputs=*/1, OpenParseExamples) &&
    RegisterStage("ParseSequenceExamples", /*inputs=*/1, OpenParseSequenceExamples);

}  // namespace
}  // namespace tandem::data
