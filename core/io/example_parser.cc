#include "core/io/example_parser.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/io/example_columns.h"
#include "core/io/example_wire.h"

namespace tandem {
namespace {

using example_columns::Column;
using example_wire::ForEachEntry;
using example_wire::ForEachMessage;
using example_wire::ReadFeature;
using example_wire::WireValues;
using Form = FeatureSpec::Form;
using KeyIndex = absl::flat_hash_map<std::string, size_t>;

constexpr uint32_t kExampleFeatures = 1;
constexpr uint32_t kSequenceContext = 1;
constexpr uint32_t kSequenceFeatureLists = 2;
constexpr uint32_t kFeatureListFeature = 1;

bool IsDense(Form form) { return form == Form::kFixed || form == Form::kPadded; }

absl::Status CheckSpec(const FeatureSpec& spec) {
  const auto refuse = [&](const auto&... why) {
    return errors::InvalidArgument("specification of feature '", absl::CHexEscape(spec.key),
                                   "': ", why...);
  };
  if (spec.dtype != kFloat32 && spec.dtype != kInt64 && spec.dtype != kString) {
    return refuse("examples hold float32, int64 and string; found ", DataTypeName(spec.dtype));
  }
  if (spec.form == Form::kRagged && spec.splits_dtype != kInt32 && spec.splits_dtype != kInt64) {
    return refuse("row splits are int32 or int64; found ", DataTypeName(spec.splits_dtype));
  }
  if (spec.form == Form::kPadded && spec.shape.num_elements() == 0) {
    return refuse("rows of shape ", spec.shape.DebugString(), " have no elements");
  }
  if (!spec.default_value.is_valid()) return absl::OkStatus();
  if (!IsDense(spec.form)) return refuse("only dense features have defaults");
  const Shape expected = spec.form == Form::kFixed ? spec.shape : Shape();
  if (spec.default_value.dtype() != spec.dtype || spec.default_value.shape() != expected) {
    return refuse("expected a default of type ", DataTypeName(spec.dtype), " and shape ",
                  expected.DebugString(), "; found ", spec.default_value.DebugString());
  }
  return absl::OkStatus();
}

absl::StatusOr<KeyIndex> CheckSpecs(const std::vector<FeatureSpec>& specs) {
  KeyIndex index;
  for (size_t i = 0; i < specs.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(CheckSpec(specs[i]));
    if (!index.emplace(specs[i].key, i).second) {
      return errors::InvalidArgument("feature '", absl::CHexEscape(specs[i].key),
                                     "' is specified twice");
    }
  }
  return index;
}

std::vector<Column> MakeColumns(const std::vector<FeatureSpec>& specs, size_t examples,
                                const ExampleParserOptions& options) {
  std::vector<Column> columns(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    columns[i].spec = &specs[i];
    columns[i].max_tensor_bytes = options.max_tensor_bytes;
    columns[i].rows.resize(examples);
  }
  return columns;
}

// Puts the values of a Features message into row `example` of the columns.
const char* ScanFeatures(absl::string_view features, const KeyIndex& index, size_t example,
                         std::vector<Column>& columns) {
  return ForEachEntry(features, [&](absl::string_view key, absl::string_view feature) {
    const auto found = index.find(key);
    if (found == index.end()) return static_cast<const char*>(nullptr);
    Column& column = columns[found->second];
    WireValues values;
    const char* const damage = ReadFeature(feature, &values);
    // A later entry replaces an earlier one; TensorFlow looks past one without a kind where values
    // are dense, and so do we.
    if (values.dtype != DataType::kInvalid || !IsDense(column.spec->form)) {
      column.rows[example] = values;
    }
    return damage;
  });
}

absl::Status NoExample(const char* what, size_t example, absl::string_view serialized,
                       const char* damage) {
  return errors::InvalidArgument("example ", example, " is not a serialized ", what,
                                 ": damaged at byte ", damage - serialized.data(), " of ",
                                 serialized.size());
}

std::vector<absl::string_view> Views(absl::Span<const std::string> strings) {
  return std::vector<absl::string_view>(strings.begin(), strings.end());
}

// The values of one FeatureList for one example, which follow those of the examples before it.
const char* ScanSteps(absl::string_view list, Column& column) {
  int64_t steps = 0;
  const char* const damage =
      ForEachMessage(list, [&](uint32_t field, absl::string_view feature) -> const char* {
        if (field != kFeatureListFeature) return nullptr;
        WireValues values;
        const char* const inner = ReadFeature(feature, &values);
        column.rows.push_back(values);
        ++steps;
        return inner;
      });
  column.steps.push_back(steps);
  return damage;
}

}  // namespace

FeatureSpec FeatureSpec::Fixed(std::string key, DataType dtype, Shape shape, Tensor default_value) {
  FeatureSpec spec;
  spec.key = std::move(key);
  spec.dtype = dtype;
  spec.form = Form::kFixed;
  spec.shape = std::move(shape);
  spec.default_value = std::move(default_value);
  return spec;
}

FeatureSpec FeatureSpec::Padded(std::string key, DataType dtype, Shape row_shape, Tensor padding) {
  FeatureSpec spec = Fixed(std::move(key), dtype, std::move(row_shape), std::move(padding));
  spec.form = Form::kPadded;
  return spec;
}

FeatureSpec FeatureSpec::Sparse(std::string key, DataType dtype) {
  FeatureSpec spec = Fixed(std::move(key), dtype, Shape());
  spec.form = Form::kSparse;
  return spec;
}

FeatureSpec FeatureSpec::Ragged(std::string key, DataType dtype, DataType splits_dtype) {
  FeatureSpec spec = Fixed(std::move(key), dtype, Shape());
  spec.form = Form::kRagged;
  spec.splits_dtype = splits_dtype;
  return spec;
}

absl::StatusOr<ExampleParser> ExampleParser::Create(std::vector<FeatureSpec> features,
                                                    ExampleParserOptions options) {
  ExampleParser parser;
  TANDEM_ASSIGN_OR_RETURN(parser.index_of_key_, CheckSpecs(features));
  parser.features_ = std::move(features);
  parser.options_ = options;
  return parser;
}

absl::StatusOr<std::vector<ParsedFeature>> ExampleParser::Parse(
    absl::Span<const absl::string_view> serialized) const {
  std::vector<Column> columns = MakeColumns(features_, serialized.size(), options_);
  for (size_t i = 0; i < serialized.size(); ++i) {
    const char* const damage =
        ForEachMessage(serialized[i], [&](uint32_t field, absl::string_view bytes) {
          return field == kExampleFeatures ? ScanFeatures(bytes, index_of_key_, i, columns)
                                           : nullptr;
        });
    if (damage != nullptr) return NoExample("tf.Example", i, serialized[i], damage);
  }
  std::vector<ParsedFeature> results(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(results[i], FeatureOfExamples(columns[i]));
  }
  return results;
}

absl::StatusOr<std::vector<ParsedFeature>> ExampleParser::Parse(
    absl::Span<const std::string> serialized) const {
  return Parse(Views(serialized));
}

absl::StatusOr<std::vector<ParsedFeature>> ExampleParser::ParseOne(
    absl::string_view serialized) const {
  TANDEM_ASSIGN_OR_RETURN(std::vector<ParsedFeature> results,
                          Parse(absl::MakeConstSpan(&serialized, 1)));
  for (size_t i = 0; i < results.size(); ++i) {
    ParsedFeature& result = results[i];
    result.row_splits.Reset();
    if (IsDense(features_[i].form)) {
      Shape shape = result.values.shape();
      shape.RemoveDim(0);
      TANDEM_ASSIGN_OR_RETURN(result.values, result.values.Reshaped(std::move(shape)));
    }
    if (result.indices.is_valid()) {
      const int64_t count = result.values.num_elements();
      TANDEM_ASSIGN_OR_RETURN(result.indices, Tensor::Create(kInt64, Shape({count, 1})));
      for (int64_t j = 0; j < count; ++j) {
        result.indices.MutableElements<int64_t>()[static_cast<size_t>(j)] = j;
      }
      result.dense_shape = Tensor::Vector<int64_t>({count});
    }
  }
  return results;
}

absl::StatusOr<SequenceExampleParser> SequenceExampleParser::Create(
    std::vector<FeatureSpec> context, std::vector<FeatureSpec> feature_lists,
    ExampleParserOptions options) {
  SequenceExampleParser parser;
  TANDEM_ASSIGN_OR_RETURN(parser.index_of_context_key_, CheckSpecs(context));
  TANDEM_ASSIGN_OR_RETURN(parser.index_of_list_key_, CheckSpecs(feature_lists));
  for (const FeatureSpec& spec : feature_lists) {
    if (spec.form != Form::kFixed) continue;
    return errors::InvalidArgument("specification of feature list '", absl::CHexEscape(spec.key),
                                   "': lists have no fixed form; expected kPadded, kSparse or "
                                   "kRagged");
  }
  parser.context_ = std::move(context);
  parser.feature_lists_ = std::move(feature_lists);
  parser.options_ = options;
  return parser;
}

absl::StatusOr<ParsedSequences> SequenceExampleParser::Parse(
    absl::Span<const absl::string_view> serialized) const {
  std::vector<Column> context = MakeColumns(context_, serialized.size(), options_);
  std::vector<Column> lists = MakeColumns(feature_lists_, 0, options_);
  // Where each list of the current example lies: the last one with a key counts.
  std::vector<absl::string_view> list_bytes(lists.size());
  std::vector<bool> list_found(lists.size());
  for (size_t i = 0; i < serialized.size(); ++i) {
    list_found.assign(lists.size(), false);
    const char* damage =
        ForEachMessage(serialized[i], [&](uint32_t field, absl::string_view bytes) -> const char* {
          if (field == kSequenceContext) {
            return ScanFeatures(bytes, index_of_context_key_, i, context);
          }
          if (field != kSequenceFeatureLists) return nullptr;
          return ForEachEntry(bytes,
                              [&](absl::string_view key, absl::string_view value) -> const char* {
                                const auto found = index_of_list_key_.find(key);
                                if (found == index_of_list_key_.end()) return nullptr;
                                list_bytes[found->second] = value;
                                list_found[found->second] = true;
                                return nullptr;
                              });
        });
    for (size_t j = 0; j < lists.size() && damage == nullptr; ++j) {
      if (list_found[j]) {
        damage = ScanSteps(list_bytes[j], lists[j]);
      } else if (lists[j].spec->form == Form::kPadded && !lists[j].spec->allow_missing) {
        return errors::InvalidArgument("example ", i, ": feature list '",
                                       absl::CHexEscape(lists[j].spec->key),
                                       "' is missing, and its specification does not allow that");
      } else {
        lists[j].steps.push_back(0);
      }
    }
    if (damage != nullptr) return NoExample("tf.SequenceExample", i, serialized[i], damage);
  }
  ParsedSequences results;
  results.context.resize(context.size());
  results.feature_lists.resize(lists.size());
  for (size_t i = 0; i < context.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(results.context[i], FeatureOfExamples(context[i]));
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(results.feature_lists[i], FeatureOfSteps(lists[i]));
  }
  return results;
}

absl::StatusOr<ParsedSequences> SequenceExampleParser::Parse(
    absl::Span<const std::string> serialized) const {
  return Parse(Views(serialized));
}

}  // namespace tandem
