#include "tests/layers/include_layers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tandem {
namespace {

struct Layer {
  absl::string_view name;
  int height;
};

// tools/build_defs/tandem.bzl has the same table.
constexpr std::array<Layer, 9> kLayers = {{
    {"proto/", 0},
    {"core/", 1},
    {"kernels/", 2},
    {"runtime/", 3},
    {"strategies/", 4},
    {"tandem.h", 5},
    {"tools/", 6},
    {"docs/", 6},
    {"tests/", 7},
}};

constexpr int kRuntimeHeight = 3;

// Null when no layer has `path`. A folder matches as a prefix, tandem.h as a whole.
const Layer* FindLayer(absl::string_view path) {
  for (const Layer& layer : kLayers) {
    const bool folder = absl::EndsWith(layer.name, "/");
    if (folder ? absl::StartsWith(path, layer.name) : path == layer.name) return &layer;
  }
  return nullptr;
}

// What stands between the quotes of `#include "X"` or `import "X"`; "" for every other line.
absl::string_view IncludedPath(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (absl::ConsumePrefix(&line, "#")) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "include")) return "";
  } else if (absl::ConsumePrefix(&line, "import")) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, "public")) absl::ConsumePrefix(&line, "weak");
  } else {
    return "";
  }
  line = absl::StripLeadingAsciiWhitespace(line);
  const char closing = absl::StartsWith(line, "<") ? '>' : '"';
  if (!absl::ConsumePrefix(&line, "<") && !absl::ConsumePrefix(&line, "\"")) return "";
  const size_t end = line.find(closing);
  return end == absl::string_view::npos ? "" : line.substr(0, end);
}

bool IsSource(absl::string_view name) {
  for (absl::string_view ending : {".h", ".cc", ".inc", ".cu", ".cuh", ".proto"}) {
    if (absl::EndsWith(name, ending)) return true;
  }
  return false;
}

}  // namespace

std::string UpwardArrow::Message() const {
  return absl::StrCat(file, ":", line, ": the layer ", from, " may not use ", to,
                      " above it: #include \"", included, "\"");
}

std::string LayerOf(absl::string_view path) {
  const Layer* layer = FindLayer(path);
  return layer == nullptr ? "" : std::string(layer->name);
}

bool IsTestFile(absl::string_view path) {
  for (absl::string_view ending : {"_test.cc", "_benchmark.cc", "_test_util.h", "_test_util.cc"}) {
    if (absl::EndsWith(path, ending)) return true;
  }
  return absl::StrContains(path, "/testing/");
}

std::vector<UpwardArrow> FindUpwardArrows(absl::string_view path, absl::string_view text) {
  std::vector<UpwardArrow> arrows;
  const Layer* own = FindLayer(path);
  if (own == nullptr) return arrows;
  const int limit = IsTestFile(path) ? std::max(own->height, kRuntimeHeight) : own->height;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view included = IncludedPath(line);
    const Layer* other = FindLayer(included);
    if (other == nullptr || other->height <= limit) continue;
    arrows.push_back({std::string(path), number, std::string(included), std::string(own->name),
                      std::string(other->name)});
  }
  return arrows;
}

std::vector<std::string> ListSources(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  std::vector<std::string> sources;
  for (const Layer& layer : kLayers) {
    const fs::path top = root / std::string(layer.name);
    std::error_code error;
    if (fs::is_regular_file(top, error)) sources.emplace_back(layer.name);
    if (!fs::is_directory(top, error)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      if (!entry.is_regular_file() || !IsSource(entry.path().filename().string())) continue;
      sources.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

}  // namespace tandem
