#include "core/io/record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"

namespace tandem {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderBytes = kLengthBytes + 4;
constexpr size_t kFooterBytes = 4;

bool LengthIsSound(const char* header) {
  return MaskCrc32c(ExtendCrc32c(0, header, kLengthBytes)) == DecodeFixed32(header + kLengthBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(
    std::unique_ptr<WritableFile> file, const RecordWriterOptions& options) {
  std::unique_ptr<RecordWriter> writer(new RecordWriter(std::move(file)));
  TANDEM_ASSIGN_OR_RETURN(writer->sink_,
                          MakeByteSink(writer->file_.get(), options.compression, options.level));
  return writer;
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Open(
    FileSystem* files, const std::string& path, const RecordWriterOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          files->OpenToWrite(path, WriteMode::kReplace));
  return Create(std::move(file), options);
}

RecordWriter::~RecordWriter() {
  if (sink_ != nullptr && !closed_) Close().IgnoreError();
}

absl::Status RecordWriter::Keep(absl::Status status) {
  status_.Update(status);
  return status_;
}

absl::Status RecordWriter::Write(absl::string_view record) {
  if (!status_.ok()) return status_;
  if (closed_) return errors::FailedPrecondition(path(), ": a record after the file was closed");
  char header[kHeaderBytes];
  const uint64_t size = record.size();
  std::memcpy(header, &size, kLengthBytes);
  const uint32_t length_crc = MaskCrc32c(ExtendCrc32c(0, header, kLengthBytes));
  std::memcpy(header + kLengthBytes, &length_crc, sizeof(length_crc));
  char footer[kFooterBytes];
  const uint32_t data_crc = MaskCrc32c(Crc32c(record));
  std::memcpy(footer, &data_crc, sizeof(data_crc));
  for (const absl::string_view piece :
       {absl::string_view(header, kHeaderBytes), record, absl::string_view(footer, kFooterBytes)}) {
    TANDEM_RETURN_IF_ERROR(Keep(sink_->Append(piece)));
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::Flush() {
  if (!status_.ok() || closed_) return status_;
  return Keep(sink_->Flush());
}

absl::Status RecordWriter::Sync() {
  if (!status_.ok() || closed_) return status_;
  TANDEM_RETURN_IF_ERROR(Flush());
  return Keep(file_->Sync());
}

absl::Status RecordWriter::Close() {
  if (closed_) return status_;
  closed_ = true;
  if (status_.ok()) status_ = sink_->Finish();
  // The file is closed in any case; the first error counts.
  return Keep(file_->Close());
}

RecordReader::RecordReader(const RandomAccessFile* file, const RecordReaderOptions& options)
    : file_(file), options_(options), source_(MakeByteSource(file, options.compression)) {}

RecordReader::RecordReader(std::unique_ptr<RandomAccessFile> file,
                           const RecordReaderOptions& options)
    : owned_file_(std::move(file)),
      file_(owned_file_.get()),
      options_(options),
      source_(MakeByteSource(file_, options.compression)) {}

RecordReader::~RecordReader() = default;

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(
    FileSystem* files, const std::string& path, const RecordReaderOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files->OpenToRead(path));
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(file), options));
}

absl::Status RecordReader::Read(absl::string_view* record) {
  // Packed bytes that ended too early may have got longer: they are unpacked again from the start.
  if (ended_in_record_ && !source_status_.ok()) TANDEM_RETURN_IF_ERROR(Seek(position_));
  ended_in_record_ = false;
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(Found found, ParseRecord(record));
    if (found == Found::kRecord) {
      is_searching_ = false;
      Advance(record_bytes_);
      return absl::OkStatus();
    }
    if (found == Found::kEnd || !options_.skip_damaged) return Report(found);
    if (found == Found::kCutOff && (source_status_.ok() || source_->ended_early())) {
      ended_in_record_ = true;
      return Report(Found::kEnd);
    }
    if (options_.check_search) TANDEM_RETURN_IF_ERROR(options_.check_search());
    if (!std::exchange(is_searching_, true)) ++damaged_;
    if (found == Found::kBadData) {
      is_searching_ = false;
      Advance(record_bytes_);
    } else if (found == Found::kCutOff) {
      gave_up_ = true;
      return Report(Found::kEnd);
    } else {
      TANDEM_ASSIGN_OR_RETURN(const bool more, FindNextRecord());
      is_searching_ = false;
      if (!more) return Report(Found::kEnd);
    }
  }
}

absl::StatusOr<RecordReader::Found> RecordReader::ParseRecord(absl::string_view* record) {
  if (gave_up_) return Found::kEnd;
  if (available() < kHeaderBytes) {
    TANDEM_RETURN_IF_ERROR(Fill(kHeaderBytes));
    if (available() == 0 && source_status_.ok()) return Found::kEnd;
    if (available() < kHeaderBytes) return Found::kCutOff;
  }
  if (!LengthIsSound(bytes())) return Found::kBadLength;
  const uint64_t length = DecodeFixed64(bytes());
  if (length > static_cast<uint64_t>(options_.max_record_bytes)) {
    return errors::ResourceExhausted(path(), ": the record at offset ", position_, " has ", length,
                                     " bytes; at most ", options_.max_record_bytes, " are allowed");
  }
  record_bytes_ = kHeaderBytes + static_cast<size_t>(length) + kFooterBytes;
  if (available() < record_bytes_) {
    TANDEM_RETURN_IF_ERROR(Fill(record_bytes_));
    if (available() < record_bytes_) return Found::kCutOff;
  }
  const char* const data = bytes() + kHeaderBytes;
  if (MaskCrc32c(ExtendCrc32c(0, data, length)) != DecodeFixed32(data + length)) {
    return Found::kBadData;
  }
  *record = absl::string_view(data, length);
  return Found::kRecord;
}

absl::Status RecordReader::Report(Found found) {
  const auto damage = [&](absl::string_view what) {
    return errors::DataLoss(path(), ": the record at offset ", position_,
                            options_.compression == Compression::kNone ? "" : " (unpacked)", what);
  };
  switch (found) {
    case Found::kEnd:
      return errors::OutOfRange(path(), ": ends at offset ", position_);
    case Found::kCutOff:
      if (!source_status_.ok()) {
        ended_in_record_ = source_->ended_early();
        return source_status_;
      }
      ended_in_record_ = true;
      return damage(
          " is cut off by the end of the file; it is still being written or was not copied to its "
          "end");
    case Found::kBadLength:
      return damage(
          " has a length whose checksum is wrong; the file is damaged or no TFRecord file"
          ", or it is packed in another way");
    default:
      return damage(absl::StrCat(" of ", record_bytes_ - kHeaderBytes - kFooterBytes,
                                 " bytes has a wrong checksum; the file is damaged"));
  }
}

absl::StatusOr<bool> RecordReader::FindNextRecord() {
  constexpr int64_t kAsked = int64_t{1} << 20;  // A millisecond or so.
  do {
    if (options_.check_search && position_ % kAsked == 0) {
      TANDEM_RETURN_IF_ERROR(options_.check_search());
    }
    if (available() <= kHeaderBytes) TANDEM_RETURN_IF_ERROR(Fill(kHeaderBytes + 1));
    if (available() <= kHeaderBytes) {
      Advance(available());
      return false;
    }
    Advance(1);
  } while (!LengthIsSound(bytes()));
  return true;
}

absl::Status RecordReader::Seek(int64_t position) {
  TANDEM_RETURN_IF_ERROR(source_->Seek(position));
  begin_ = end_ = 0;
  position_ = position;
  source_status_ = absl::OkStatus();
  gave_up_ = false;
  is_searching_ = false;
  return absl::OkStatus();
}

absl::Status RecordReader::Fill(size_t size) {
  if (begin_ > 0) std::memmove(buffer_.get(), bytes(), available());
  end_ = available();
  begin_ = 0;
  while (end_ < size && source_status_.ok()) {
    // The size may be a lie: memory grows with what is there.
    size_t capacity = std::max(size, options_.buffer_bytes);
    if (size > options_.buffer_bytes) {
      TANDEM_ASSIGN_OR_RETURN(const int64_t remaining, source_->Remaining());
      if (remaining < 0) {
        capacity = std::min(size, std::max(options_.buffer_bytes, 2 * end_));
      } else if (static_cast<uint64_t>(remaining) < size - end_) {
        return absl::OkStatus();
      }
    }
    if (capacity > capacity_) {
      std::unique_ptr<char[]> larger(new (std::nothrow) char[capacity]);
      if (larger == nullptr) {
        return errors::ResourceExhausted(path(), ": no memory for the record of ", size,
                                         " bytes at offset ", position_);
      }
      if (end_ > 0) std::memcpy(larger.get(), buffer_.get(), end_);
      buffer_ = std::move(larger);
      capacity_ = capacity;
    }
    const absl::StatusOr<size_t> got =
        source_->Read(absl::MakeSpan(buffer_.get() + end_, capacity_ - end_));
    if (!got.ok() && got.status().code() != absl::StatusCode::kDataLoss) return got.status();
    if (!got.ok()) source_status_ = got.status();
    if (!got.ok() || *got == 0) break;
    end_ += *got;
  }
  return absl::OkStatus();
}

void RecordReader::Advance(size_t size) {
  begin_ += size;
  position_ += static_cast<int64_t>(size);
}

}  // namespace tandem
