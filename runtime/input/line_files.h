// Reading lines of several files, one after the other, from any position: what TextLines and Csv
// share.
#ifndef TANDEM_RUNTIME_INPUT_LINE_FILES_H_
#define TANDEM_RUNTIME_INPUT_LINE_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/input/file_reader.h"

namespace tandem {

class InputState;

namespace data {

class LineFiles {
 public:
  // `paths` outlives this.
  explicit LineFiles(const std::vector<std::string>& paths) : paths_(paths) {}

  // The next line of any file; false at the end of the last one. Errors name the file, and come
  // again.
  absl::StatusOr<bool> Next(std::string* line);
  // The next line of the file that the last line came from; false at its end.
  absl::StatusOr<bool> NextOfSameFile(std::string* line);

  // Of the last line that was read.
  const std::string& path() const { return paths_[file_]; }
  int64_t line_number() const { return line_number_; }

  // Three numbers: file, offset, line.
  absl::Status Save(absl::string_view kind, InputState* state) const;
  absl::Status Restore(absl::string_view kind, const InputState& state);

 private:
  const std::vector<std::string>& paths_;
  size_t file_ = 0;
  std::unique_ptr<FileReader> reader_;  // Of paths_[file_]; null before it is opened.
  int64_t line_number_ = 0;
};

}  // namespace data
}  // namespace tandem

#endif  // TANDEM_RUNTIME_INPUT_LINE_FILES_H_
