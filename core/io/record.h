// TFRecord files: records of any bytes, one after the other, each with its checksums.
//
//   record := length:u64  crc(length):u32  data  crc(data):u32
//
// The numbers are little-endian, the checksums masked CRC-32C (core/io/crc32c.h). There is no
// header and no end mark. The whole may be packed (core/io/compression.h); records are then laid
// out like this in the unpacked contents.
//
// Threads: one at a time for each object.
#ifndef TANDEM_CORE_IO_RECORD_H_
#define TANDEM_CORE_IO_RECORD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/io/compression.h"
#include "core/io/file.h"

namespace tandem {

struct RecordWriterOptions {
  Compression compression = Compression::kNone;
  int level = -1;  // zlib's, 0 to 9; -1: its default.
};

// After an error every call returns it: what is in the file past the last Flush that went well is
// unknown.
class RecordWriter {
 public:
  // Writes at the end of `file`. InvalidArgument: no such level.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(
      std::unique_ptr<WritableFile> file, const RecordWriterOptions& options = {});
  // Creates or replaces a file.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Open(
      FileSystem* files, const std::string& path, const RecordWriterOptions& options = {});
  // Closes the file, if Close was not called; errors are lost then.
  ~RecordWriter();

  const std::string& path() const { return file_->path(); }

  absl::Status Write(absl::string_view record);
  // All records so far can be read by others when it returns OK.
  absl::Status Flush();
  // They also survive a crash of the machine.
  absl::Status Sync();
  absl::Status Close();

 private:
  explicit RecordWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  absl::Status Keep(absl::Status status);

  const std::unique_ptr<WritableFile> file_;
  std::unique_ptr<ByteSink> sink_;
  absl::Status status_;
  bool closed_ = false;
};

struct RecordReaderOptions {
  Compression compression = Compression::kNone;
  // Go on behind a damaged record, and count it. The next record is searched for byte by byte; of
  // records that contain record files, one of those may be taken for it.
  bool skip_damaged = false;
  // Asked now and then while the next record is searched for, which may be through the whole file:
  // an error ends the Read with it. Empty: nobody is.
  std::function<absl::Status()> check_search;
  // A record that says it is larger is refused with ResourceExhausted. Memory is only taken for
  // bytes that the file has.
  int64_t max_record_bytes = int64_t{2} << 30;
  // What is read from the file at a time.
  size_t buffer_bytes = size_t{256} << 10;
};

class RecordReader {
 public:
  // `file` outlives the reader.
  explicit RecordReader(const RandomAccessFile* file, const RecordReaderOptions& options = {});
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(
      FileSystem* files, const std::string& path, const RecordReaderOptions& options = {});
  ~RecordReader();

  // The next record, which lies in the reader until the next call. The bytes are copied from the
  // file once, to there.
  //   OutOfRange   the file ends here.
  //   DataLoss     the record is damaged, or the file ends within it (then ended_in_record()). The
  //                position stays before it. With skip_damaged only OutOfRange, and errors of
  //                check_search, after which the search goes on with the next call.
  // Messages have the file and the record's offset. After OutOfRange and after a DataLoss at the
  // end of a file that is being appended to, a later call finds what was added meanwhile.
  absl::Status Read(absl::string_view* record);

  // After the last Read: the file ended within a record, as when it is being appended to or was not
  // copied to its end.
  bool ended_in_record() const { return ended_in_record_; }

  // Where the next record begins, in the unpacked contents.
  int64_t position() const { return position_; }
  // Goes to a position that a reader of this file had. In a packed file all up to there is unpacked
  // again. InvalidArgument: the file is shorter.
  absl::Status Seek(int64_t position);

  // Places that were skipped: damaged records and stretches without any. A record that is cut off
  // by the end of the file is not counted, since it may be completed.
  int64_t damaged() const { return damaged_; }
  const std::string& path() const { return file_->path(); }

 private:
  RecordReader(std::unique_ptr<RandomAccessFile> file, const RecordReaderOptions& options);

  // What ParseRecord found at position_.
  enum class Found { kRecord, kEnd, kCutOff, kBadLength, kBadData };

  absl::StatusOr<Found> ParseRecord(absl::string_view* record);
  // OutOfRange, DataLoss: see Read.
  absl::Status Report(Found found);
  absl::StatusOr<bool> FindNextRecord();
  // Sees to it that `size` bytes from position_ on are in the buffer, if the file has them.
  absl::Status Fill(size_t size);
  void Advance(size_t size);
  size_t available() const { return end_ - begin_; }
  const char* bytes() const { return buffer_.get() + begin_; }

  const std::unique_ptr<RandomAccessFile> owned_file_;  // Or null.
  const RandomAccessFile* const file_;
  const RecordReaderOptions options_;
  const std::unique_ptr<ByteSource> source_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;  // In the buffer: the byte at position_.
  size_t end_ = 0;
  int64_t position_ = 0;
  size_t record_bytes_ = 0;     // Of the record that was found, with its frame.
  absl::Status source_status_;  // An error behind the bytes in the buffer.
  bool gave_up_ = false;        // Behind damage to packed bytes nothing can be read.
  bool ended_in_record_ = false;
  bool is_searching_ = false;  // Behind damage that was counted; check_search ended the search.
  int64_t damaged_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_RECORD_H_
