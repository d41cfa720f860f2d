// FileReader: reads a file, plain or gzipped (by its contents, whatever its name).
//
// Threads: one at a time. Messages begin with the file's path.
#ifndef TANDEM_RUNTIME_INPUT_FILE_READER_H_
#define TANDEM_RUNTIME_INPUT_FILE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct gzFile_s;

namespace tandem::data {

class FileReader {
 public:
  // NotFound, PermissionDenied; InvalidArgument for a directory.
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(const std::string& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& path() const { return path_; }

  // Bytes of contents, unpacked ones of a gzipped file, that were read.
  int64_t offset() const { return offset_; }

  // Appends up to `count` bytes; fewer only at the end of the file. DataLoss: gzipped contents are
  // damaged or cut off; what could be read was appended.
  absl::Status Read(size_t count, std::string* bytes);
  // Reads a line, without its end (\n or \r\n). False at the end of the file. DataLoss: as above,
  // and for a line longer than kMaxLine.
  static constexpr size_t kMaxLine = size_t{1} << 28;
  absl::StatusOr<bool> ReadLine(std::string* line);
  // Goes to an offset. InvalidArgument: the file is shorter.
  absl::Status Seek(int64_t offset);

 private:
  FileReader(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file) {}
  absl::Status Damaged(const char* what) const;

  const std::string path_;
  gzFile_s* const file_;
  int64_t offset_ = 0;
};

// NotFound, as FileReader::Open has it, or InvalidArgument for no file at all; messages begin with
// `kind`.
absl::Status CheckFilesExist(const std::string& kind, const std::vector<std::string>& paths);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_FILE_READER_H_
