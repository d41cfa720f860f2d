#include "tools/cli/text_table.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tandem::cli {
namespace {

// Characters, not bytes, of UTF-8.
size_t Width(const std::string& text) {
  return static_cast<size_t>(absl::c_count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

bool IsNumber(const std::string& cell) {
  return !cell.empty() && absl::ascii_isdigit(static_cast<unsigned char>(cell[0]));
}

}  // namespace

std::string Plural(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string TextTable::ToString() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], Width(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c])) right[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    for (size_t c = 0; c < columns; ++c) {
      const std::string space(widths[c] - Width(row[c]), ' ');
      text += right[c] ? space + row[c] : row[c] + space;
      text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace tandem::cli
