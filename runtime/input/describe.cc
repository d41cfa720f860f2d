#include "runtime/input/describe.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/io/crc32c.h"

namespace tandem::data {
namespace {

// Longer lists are shown as their size and their checksum.
constexpr size_t kShownValues = 8;
constexpr size_t kShownText = 200;
constexpr size_t kShownLines = 4;

std::string Checksum(uint32_t crc) {
  return absl::StrCat("crc32c ", absl::Hex(crc, absl::kZeroPad8));
}

// Such that no two lists of strings have the same bytes.
uint32_t ExtendByString(uint32_t crc, absl::string_view text) {
  return ExtendCrc32c(ExtendCrc32c(crc, absl::StrCat(text.size(), ":")), text);
}

std::string DescribeTensor(const Tensor& tensor) {
  if (!tensor.is_valid()) return "no tensor";
  uint32_t crc = 0;
  if (tensor.dtype() == kString) {
    for (const std::string& text : tensor.Elements<std::string>()) crc = ExtendByString(crc, text);
  } else if (IsTriviallyCopyable(tensor.dtype())) {
    crc = ExtendCrc32c(0, tensor.data(), tensor.num_bytes());
  }
  return absl::StrCat(DataTypeName(tensor.dtype()), tensor.shape().DebugString(), " of ",
                      Checksum(crc));
}

std::string DescribeAttr(const Attr& attr) {
  std::vector<std::string> values;
  for (const int64_t value : attr.ints) values.push_back(absl::StrCat(value));
  for (const std::string& value : attr.strings) {
    values.push_back(absl::StrCat("'", absl::CEscape(value), "'"));
  }
  for (const Tensor& value : attr.tensors) values.push_back(DescribeTensor(value));
  const std::string all = absl::StrJoin(values, ", ");
  if (values.size() == 1 && all.size() <= kShownText) return all;
  if (values.size() <= kShownValues && all.size() <= kShownText) return absl::StrCat("[", all, "]");
  return absl::StrCat("[", values.size(), " values of ", Checksum(Crc32c(all)), "]");
}

void AddLines(const Stage& stage, const std::string& indent, std::vector<std::string>& lines) {
  for (size_t i = 0; i < stage.inputs().size(); ++i) {
    AddLines(*stage.inputs()[i], i == 0 ? indent : indent + "  ", lines);
  }
  if (stage.kind() == "Prefetch") return;
  std::vector<std::string> attrs;
  for (const auto& [name, attr] : stage.attrs()) {
    if (name != "threads") attrs.push_back(absl::StrCat(name, "=", DescribeAttr(attr)));
  }
  lines.push_back(absl::StrCat(indent, stage.kind(), "(", absl::StrJoin(attrs, ", "), ")"));
}

}  // namespace

std::string Describe(const Stage& stage) {
  std::vector<std::string> lines;
  AddLines(stage, "", lines);
  return absl::StrJoin(lines, "\n");
}

std::string DifferenceOf(absl::string_view there, absl::string_view here) {
  if (there == here) return "";
  const std::vector<absl::string_view> before = absl::StrSplit(there, '\n');
  const std::vector<absl::string_view> now = absl::StrSplit(here, '\n');
  std::vector<std::string> differences;
  const size_t count = std::max(before.size(), now.size());
  for (size_t i = 0; i < count; ++i) {
    const auto line = [i](const std::vector<absl::string_view>& lines) {
      return i < lines.size() ? lines[i] : absl::string_view("nothing");
    };
    if (line(before) == line(now)) continue;
    if (differences.size() == kShownLines) {
      differences.push_back("…");
      break;
    }
    differences.push_back(
        absl::StrCat("stage ", i + 1, " is ", line(now), " and was ", line(before)));
  }
  return absl::StrJoin(differences, "; ");
}

}  // namespace tandem::data
