// Tables for people: rows of cells in columns, with a line of names above them.
//
//   FILE        RECORDS  COMPRESSION
//   a.tfrecord     1000  none
//   b.tfrecord       12  gzip
#ifndef TANDEM_TOOLS_CLI_TEXT_TABLE_H_
#define TANDEM_TOOLS_CLI_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace tandem::cli {

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
