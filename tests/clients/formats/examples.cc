#include <memory>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/io/example.h"
#include "core/io/example_parser.h"
#include "core/io/record.h"
#include "tests/clients/formats/command.h"
#include "tests/clients/formats/tensors_file.h"

namespace tandem::formats {
namespace {

// FORM:KEY:DTYPE[:DIMxDIM…]
absl::StatusOr<FeatureSpec> ParseSpec(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const auto dtype = parts.size() < 3 ? absl::optional<DataType>() : ParseDataType(parts[2]);
  if (!dtype.has_value()) return errors::InvalidArgument("no feature: ", text);
  std::vector<int64_t> dims;
  if (parts.size() > 3) {
    for (const absl::string_view part : absl::StrSplit(parts[3], 'x')) {
      if (!absl::SimpleAtoi(part, &dims.emplace_back())) return errors::InvalidArgument(text);
    }
  }
  const Shape shape{absl::MakeConstSpan(dims)};
  if (parts[0] == "fixed") return FeatureSpec::Fixed(parts[1], *dtype, shape);
  if (parts[0] == "padded") return FeatureSpec::Padded(parts[1], *dtype, shape);
  if (parts[0] == "sparse") return FeatureSpec::Sparse(parts[1], *dtype);
  if (parts[0] == "ragged") return FeatureSpec::Ragged(parts[1], *dtype);
  return errors::InvalidArgument("no form of a feature: ", text);
}

absl::StatusOr<std::vector<FeatureSpec>> ParseSpecs(absl::Span<const std::string> words) {
  std::vector<FeatureSpec> specs;
  for (const std::string& word : words) {
    TANDEM_ASSIGN_OR_RETURN(specs.emplace_back(), ParseSpec(word));
  }
  return specs;
}

absl::StatusOr<std::vector<std::string>> ReadRecords(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(PosixFileSystem(), path));
  std::vector<std::string> records;
  for (;;) {
    absl::string_view record;
    const absl::Status status = reader->Read(&record);
    if (absl::IsOutOfRange(status)) return records;
    TANDEM_RETURN_IF_ERROR(status);
    records.emplace_back(record);
  }
}

// A feature's tensors as "KEY/values" and so on.
void Append(const std::string& key, const ParsedFeature& feature, NamedTensors* tensors) {
  const std::pair<const char*, const Tensor*> parts[] = {
      {"values", &feature.values},
      {"indices", &feature.indices},
      {"dense_shape", &feature.dense_shape},
      {"row_splits", &feature.row_splits},
      {"inner_row_splits", &feature.inner_row_splits},
      {"lengths", &feature.lengths},
  };
  for (const auto& [part, tensor] : parts) {
    if (tensor->is_valid()) tensors->emplace_back(absl::StrCat(key, "/", part), *tensor);
  }
}

// RECORDS TENSORS FEATURE…
absl::Status ParseExamples(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> records, ReadRecords(words[0]));
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> specs,
                          ParseSpecs(absl::MakeConstSpan(words).subspan(2)));
  TANDEM_ASSIGN_OR_RETURN(const ExampleParser parser, ExampleParser::Create(specs));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<ParsedFeature> features, parser.Parse(records));
  NamedTensors tensors;
  for (size_t i = 0; i < features.size(); ++i) Append(specs[i].key, features[i], &tensors);
  return WriteTensors(words[1], tensors);
}

// RECORDS TENSORS FEATURE… -- FEATURE…: of the context, and of the lists.
absl::Status ParseSequences(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> records, ReadRecords(words[0]));
  const auto middle = absl::c_find(words, "--");
  if (middle == words.end()) return errors::InvalidArgument("there is no --");
  const auto count = static_cast<size_t>(middle - words.begin());
  const auto all = absl::MakeConstSpan(words);
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> context, ParseSpecs(all.subspan(2, count - 2)));
  TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureSpec> lists, ParseSpecs(all.subspan(count + 1)));
  TANDEM_ASSIGN_OR_RETURN(const SequenceExampleParser parser,
                          SequenceExampleParser::Create(context, lists));
  TANDEM_ASSIGN_OR_RETURN(const ParsedSequences parsed, parser.Parse(records));
  NamedTensors tensors;
  for (size_t i = 0; i < context.size(); ++i) {
    Append(absl::StrCat("context/", context[i].key), parsed.context[i], &tensors);
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    Append(absl::StrCat("lists/", lists[i].key), parsed.feature_lists[i], &tensors);
  }
  return WriteTensors(words[1], tensors);
}

// TENSORS RECORDS: an example for each row, with a feature for each tensor.
absl::Status WriteExamples(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const NamedTensors tensors, ReadTensors(words[0]));
  TANDEM_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Open(PosixFileSystem(), words[1]));
  const int64_t rows = tensors.empty() ? 0 : tensors[0].second.shape().dim(0);
  for (int64_t row = 0; row < rows; ++row) {
    tensorflow::Example example;
    for (const auto& [name, tensor] : tensors) {
      TANDEM_ASSIGN_OR_RETURN(tensorflow::Feature feature,
                              FeatureFromTensor(tensor.Slice(row, row + 1)));
      SetFeature(name, std::move(feature), &example);
    }
    TANDEM_ASSIGN_OR_RETURN(const std::string record, SerializeExample(example));
    TANDEM_RETURN_IF_ERROR(writer->Write(record));
  }
  return writer->Close();
}

// TENSORS RECORDS: a sequence for each row. A tensor "lists/KEY" has a step for each row of the
// row, "context/KEY" a feature.
absl::Status WriteSequences(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const NamedTensors tensors, ReadTensors(words[0]));
  TANDEM_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Open(PosixFileSystem(), words[1]));
  const int64_t rows = tensors.empty() ? 0 : tensors[0].second.shape().dim(0);
  for (int64_t row = 0; row < rows; ++row) {
    tensorflow::SequenceExample example;
    for (const auto& [name, tensor] : tensors) {
      const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits('/', 1));
      const Tensor of_row = tensor.Slice(row, row + 1);
      if (parts[0] == "context") {
        TANDEM_ASSIGN_OR_RETURN(tensorflow::Feature feature, FeatureFromTensor(of_row));
        SetContextFeature(parts[1], std::move(feature), &example);
        continue;
      }
      TANDEM_ASSIGN_OR_RETURN(
          const Tensor steps,
          of_row.Reshaped(
              Shape({tensor.shape().dim(1), of_row.num_elements() / tensor.shape().dim(1)})));
      for (int64_t step = 0; step < steps.shape().dim(0); ++step) {
        TANDEM_ASSIGN_OR_RETURN(tensorflow::Feature feature,
                                FeatureFromTensor(steps.Slice(step, step + 1)));
        AddStep(parts[1], std::move(feature), &example);
      }
    }
    TANDEM_ASSIGN_OR_RETURN(const std::string record, SerializeExample(example));
    TANDEM_RETURN_IF_ERROR(writer->Write(record));
  }
  return writer->Close();
}

constexpr Command kCommands[] = {
    {"parse_examples", "RECORDS TENSORS FEATURE…", 3, ParseExamples},
    {"parse_sequences", "RECORDS TENSORS FEATURE… -- FEATURE…", 3, ParseSequences},
    {"write_examples", "TENSORS RECORDS", 2, WriteExamples},
    {"write_sequences", "TENSORS RECORDS", 2, WriteSequences},
};

}  // namespace

const absl::Span<const Command> kExampleCommands = kCommands;

}  // namespace tandem::formats
