#include "tools/cli/record_text.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tensor/element_text.h"
#include "proto/example.pb.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

constexpr int kShownValues = 8;
constexpr size_t kShownBytes = 60;

// A record that is one of TensorFlow's messages; bytes that are none may still look like one.
struct Parsed {
  tensorflow::Example example;            // With features, or
  tensorflow::SequenceExample sequences;  // with feature lists.
  bool is_example = false;
  bool is_sequences = false;
};

Parsed Parse(absl::string_view record) {
  Parsed parsed;
  const int size = static_cast<int>(std::min<size_t>(record.size(), INT32_MAX));
  if (parsed.sequences.ParseFromArray(record.data(), size) &&
      parsed.sequences.feature_lists().feature_list_size() > 0) {
    parsed.is_sequences = true;
  } else if (parsed.example.ParseFromArray(record.data(), size)) {
    parsed.is_example = parsed.example.features().feature_size() > 0;
  }
  return parsed;
}

std::string Shown(absl::string_view bytes) {
  size_t shown = std::min(bytes.size(), kShownBytes);
  // Not within a character.
  while (shown > 0 && shown < bytes.size() && (bytes[shown] & 0xc0) == 0x80) --shown;
  std::string text = QuotedText(bytes.substr(0, shown));
  if (bytes.size() > kShownBytes) absl::StrAppend(&text, "… (", bytes.size(), " bytes)");
  return text;
}

template <typename Values, typename ToText>
std::string Shown(const char* type, const Values& values, const ToText& to_text) {
  std::string text = absl::StrCat(type, "[", values.size(), "]");
  for (int i = 0; i < std::min(values.size(), kShownValues); ++i) {
    absl::StrAppend(&text, " ", to_text(values[i]));
  }
  if (values.size() > kShownValues) text += " …";
  return text;
}

std::string Shown(const tensorflow::Feature& feature) {
  const auto number = [](auto value) { return ElementText(value); };
  switch (feature.kind_case()) {
    case tensorflow::Feature::kFloatList:
      return Shown("float32", feature.float_list().value(), number);
    case tensorflow::Feature::kInt64List:
      return Shown("int64", feature.int64_list().value(), number);
    case tensorflow::Feature::kBytesList:
      return Shown("string", feature.bytes_list().value(),
                   [](const std::string& value) { return Shown(value); });
    case tensorflow::Feature::KIND_NOT_SET:
      break;
  }
  return "no values";
}

// In the order of the keys, which a message does not have.
template <typename Map>
auto Sorted(const Map& map) {
  std::map<std::string, typename Map::mapped_type> sorted(map.begin(), map.end());
  return sorted;
}

std::string Shown(const tensorflow::Features& features, absl::string_view indent) {
  std::string text;
  for (const auto& [key, feature] : Sorted(features.feature())) {
    absl::StrAppend(&text, indent, absl::CHexEscape(key), ": ", Shown(feature), "\n");
  }
  return text;
}

Json ToJson(const tensorflow::Feature& feature) {
  Json values = Json::array();
  switch (feature.kind_case()) {
    case tensorflow::Feature::kFloatList:
      for (const float value : feature.float_list().value()) values.push_back(value);
      return {{"type", "float32"}, {"values", values}};
    case tensorflow::Feature::kInt64List:
      for (const int64_t value : feature.int64_list().value()) values.push_back(value);
      return {{"type", "int64"}, {"values", values}};
    case tensorflow::Feature::kBytesList:
      for (const std::string& value : feature.bytes_list().value()) {
        values.push_back(absl::Base64Escape(value));
      }
      return {{"type", "string"}, {"base64", values}};
    case tensorflow::Feature::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

Json ToJson(const tensorflow::Features& features) {
  Json json = Json::object();
  for (const auto& [key, feature] : features.feature()) json[key] = ToJson(feature);
  return json;
}

}  // namespace

std::string RecordText(absl::string_view record) {
  const Parsed parsed = Parse(record);
  if (parsed.is_example) return Shown(parsed.example.features(), "  ");
  if (!parsed.is_sequences) return absl::StrCat("  ", Shown(record), "\n");
  std::string text = Shown(parsed.sequences.context(), "  ");
  for (const auto& [key, list] : Sorted(parsed.sequences.feature_lists().feature_list())) {
    absl::StrAppend(&text, "  ", absl::CHexEscape(key), ": ", list.feature_size(), " steps\n");
    for (int i = 0; i < std::min(list.feature_size(), kShownValues); ++i) {
      absl::StrAppend(&text, "    ", Shown(list.feature(i)), "\n");
    }
    if (list.feature_size() > kShownValues) text += "    …\n";
  }
  return text;
}

Json RecordJson(absl::string_view record) {
  const Parsed parsed = Parse(record);
  if (parsed.is_example) {
    return {{"kind", "Example"}, {"features", ToJson(parsed.example.features())}};
  }
  if (!parsed.is_sequences) return {{"kind", "bytes"}, {"base64", absl::Base64Escape(record)}};
  Json lists = Json::object();
  for (const auto& [key, list] : parsed.sequences.feature_lists().feature_list()) {
    Json steps = Json::array();
    for (const tensorflow::Feature& feature : list.feature()) steps.push_back(ToJson(feature));
    lists[key] = std::move(steps);
  }
  return {{"kind", "SequenceExample"},
          {"context", ToJson(parsed.sequences.context())},
          {"feature_lists", std::move(lists)}};
}

}  // namespace tandem::cli
