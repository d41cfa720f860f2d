// Tables for people: rows of cells in columns, with a line of names above them.
//
//   FILE        RECORDS  COMPRESSION
//   a.tfrecord     1000  none
//   b.tfrecord       12  gzip
#ifndef TANDEM_TOOLS_CLI_TEXT_TABLE_H_
#define TANDEM_TOOLS_CLI_TEXT_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::cli {

// "1 tensor", "2 tensors".
std::string Plural(int64_t count, absl::string_view noun);

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> names) : rows_{std::move(names)} {}

  // REQUIRES: as many cells as there are names.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Columns of numbers stand to the right. Each line ends with a line end and not with spaces.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_TEXT_TABLE_H_
