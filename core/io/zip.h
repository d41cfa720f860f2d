// Zip archives, as far as .npz files need them: members that are stored or deflated, of any size
// (zip64), read from and written to one file. Encrypted members, other ways of packing and archives
// in several parts are Unimplemented.
//
// Archives are not trusted: sizes are checked against the file before memory is taken, members may
// not overlap, and what is read is checked against its CRC-32.
//
// Errors: InvalidArgument for a file that is no zip archive or is damaged, with its name and what
// was expected where; those of the file system.
//
// Threads: a ZipReader may be used from any thread; a ZipWriter by one at a time.
#ifndef TANDEM_CORE_IO_ZIP_H_
#define TANDEM_CORE_IO_ZIP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/io/file.h"

namespace tandem {

struct ZipMember {
  std::string name;
  int64_t size = 0;
  int64_t packed_size = 0;
  bool deflated = false;
  uint32_t crc32 = 0;
  int64_t header_offset = 0;
};

class ZipReader {
 public:
  // Reads the list of members.
  static absl::StatusOr<ZipReader> Open(std::unique_ptr<RandomAccessFile> file);

  const std::string& path() const { return file_->path(); }
  // In the order of the archive. Names are as they are written there.
  const std::vector<ZipMember>& members() const { return members_; }

  // The contents of one of members().
  absl::StatusOr<std::string> Read(const ZipMember& member) const;

 private:
  ZipReader(std::unique_ptr<RandomAccessFile> file, int64_t file_size)
      : file_(std::move(file)), file_size_(file_size) {}
  absl::Status ReadDirectory();

  std::unique_ptr<RandomAccessFile> file_;
  int64_t file_size_;
  std::vector<ZipMember> members_;
};

struct ZipWriterOptions {
  bool deflate = false;
  // Write sizes and offsets in 64 bits also where 32 would do.
  bool always_zip64 = false;
};

// After an error every call returns it. Equal members give equal bytes: no times are written.
class ZipWriter {
 public:
  ZipWriter(std::unique_ptr<WritableFile> file, const ZipWriterOptions& options)
      : file_(std::move(file)), options_(options) {}

  // InvalidArgument: a name that is empty or longer than 65535 bytes.
  absl::Status Add(absl::string_view name, absl::string_view contents);
  // Writes the list of members; without it there is no archive.
  absl::Status Close();

 private:
  absl::Status Append(absl::string_view bytes);

  const std::unique_ptr<WritableFile> file_;
  const ZipWriterOptions options_;
  std::vector<ZipMember> members_;
  int64_t offset_ = 0;
  absl::Status status_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_ZIP_H_
