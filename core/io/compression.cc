#include "core/io/compression.h"

#include <snappy.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr size_t kChunk = size_t{256} << 10;
// TensorFlow's reader has no room for a block that is larger than 256 KiB, packed or unpacked, and
// packing can make bytes that do not repeat a little longer.
constexpr size_t kSnappyBlock = size_t{128} << 10;
// A Snappy element of three bytes stands for at most 64.
constexpr size_t kMaxSnappyRatio = 64;

constexpr int kMaxWindowBits = 15;
constexpr int kGzipWindowBits = 16 + kMaxWindowBits;  // zlib's way to ask for the wrapper of gzip.

int WindowBits(Compression compression) {
  return compression == Compression::kGzip ? kGzipWindowBits : kMaxWindowBits;
}

absl::Status NoOffset(const std::string& path, int64_t offset, int64_t end) {
  return errors::InvalidArgument(path, ": has no offset ", offset, ", its contents end at ", end,
                                 "; is it the file that was read when the position was saved?");
}

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const RandomAccessFile* file) : file_(file) {}

  absl::StatusOr<size_t> Read(absl::Span<char> bytes) override {
    TANDEM_ASSIGN_OR_RETURN(const size_t got, file_->Read(offset_, bytes));
    offset_ += static_cast<int64_t>(got);
    return got;
  }
  absl::Status Seek(int64_t offset) override {
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, file_->Size());
    if (offset < 0 || offset > size) return NoOffset(file_->path(), offset, size);
    offset_ = offset;
    return absl::OkStatus();
  }
  bool ended_early() const override { return false; }
  absl::StatusOr<int64_t> Remaining() override {
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, file_->Size());
    return std::max<int64_t>(size - offset_, 0);
  }

 private:
  const RandomAccessFile* const file_;
  int64_t offset_ = 0;
};

// What the packed sources share: going to an offset, and remembering damage until all the bytes
// before it were read.
class PackedSource : public ByteSource {
 public:
  explicit PackedSource(const RandomAccessFile* file) : file_(file) {}

  absl::StatusOr<size_t> Read(absl::Span<char> bytes) final {
    size_t size = 0;
    while (size < bytes.size() && status_.ok()) {
      absl::StatusOr<size_t> got = Unpack(bytes.subspan(size));
      if (!got.ok()) {
        status_ = got.status();
      } else if (*got == 0) {
        break;
      } else {
        size += *got;
      }
    }
    offset_ += static_cast<int64_t>(size);
    if (size == 0 && !status_.ok()) return status_;
    return size;
  }

  absl::Status Seek(int64_t offset) final {
    if (offset < 0) return NoOffset(file_->path(), offset, offset_);
    if (offset < offset_ || !status_.ok()) {
      offset_ = 0;
      file_offset_ = 0;
      status_ = absl::OkStatus();
      ended_early_ = false;
      Restart();
    }
    std::string skipped;
    while (offset_ < offset) {
      skipped.resize(static_cast<size_t>(std::min<int64_t>(offset - offset_, kChunk)));
      TANDEM_ASSIGN_OR_RETURN(const size_t got, Read(absl::MakeSpan(skipped)));
      if (got == 0) {
        return NoOffset(file_->path(), offset, offset_);
      }
    }
    return absl::OkStatus();
  }

  bool ended_early() const final { return ended_early_; }
  absl::StatusOr<int64_t> Remaining() final { return -1; }

 protected:
  // Writes to the front of `bytes` (not empty) and returns how much, at least one byte; 0 at the
  // end.
  virtual absl::StatusOr<size_t> Unpack(absl::Span<char> bytes) = 0;
  // The next byte to unpack is the file's first.
  virtual void Restart() = 0;

  absl::StatusOr<size_t> ReadPacked(absl::Span<char> bytes) {
    TANDEM_ASSIGN_OR_RETURN(const size_t got, file_->Read(file_offset_, bytes));
    file_offset_ += static_cast<int64_t>(got);
    return got;
  }
  // `unread`: bytes before file_offset_ that were not looked at yet.
  absl::Status Damaged(size_t unread, absl::string_view what) const {
    return errors::DataLoss(
        file_->path(), ": at offset ", file_offset_ - static_cast<int64_t>(unread),
        " of the packed bytes: ", what, "; the file is damaged or packed in another way");
  }
  absl::Status EndedEarly() {
    ended_early_ = true;
    return errors::DataLoss(file_->path(), ": the packed bytes end at offset ", file_offset_,
                            " in mid-stream; the file is still being written or was not copied to "
                            "its end");
  }

 private:
  const RandomAccessFile* const file_;
  int64_t offset_ = 0;       // Of the unpacked contents.
  int64_t file_offset_ = 0;  // Of what comes after the packed bytes read.
  absl::Status status_;
  bool ended_early_ = false;
};

class ZlibSource : public PackedSource {
 public:
  ZlibSource(const RandomAccessFile* file, Compression compression)
      : PackedSource(file), compression_(compression), packed_(kChunk, '\0') {
    ready_ = inflateInit2(&stream_, WindowBits(compression_)) == Z_OK;
  }
  ~ZlibSource() override { inflateEnd(&stream_); }

 protected:
  absl::StatusOr<size_t> Unpack(absl::Span<char> bytes) override {
    if (!ready_) return errors::ResourceExhausted("no memory to unpack with");
    if (!damage_.ok()) return damage_;
    const size_t room = std::min(bytes.size(), size_t{1} << 30);  // zlib counts with 32 bits.
    stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_out = static_cast<uInt>(room);
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        TANDEM_ASSIGN_OR_RETURN(const size_t got, ReadPacked(absl::MakeSpan(packed_)));
        if (got == 0 && between_streams_) return 0;
        if (got == 0) return EndedEarly();
        stream_.next_in = reinterpret_cast<Bytef*>(&packed_[0]);
        stream_.avail_in = static_cast<uInt>(got);
      }
      between_streams_ = false;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        inflateReset(&stream_);
        between_streams_ = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        const char* const message = stream_.msg != nullptr ? stream_.msg : zError(code);
        damage_ = Damaged(stream_.avail_in, message);
        // What came before it is read first. The next call would not find the damage again where
        // no packed bytes are left, as with a wrong checksum at the end.
        if (stream_.avail_out == room) return damage_;
        break;
      }
    }
    return room - stream_.avail_out;
  }

  void Restart() override {
    inflateReset(&stream_);
    stream_.avail_in = 0;
    between_streams_ = true;
    damage_ = absl::OkStatus();
  }

 private:
  const Compression compression_;
  std::string packed_;
  z_stream stream_ = {};
  bool ready_ = false;
  bool between_streams_ = true;  // All is unpacked up to the end of a stream.
  absl::Status damage_;          // That ends what can be unpacked.
};

class SnappySource : public PackedSource {
 public:
  using PackedSource::PackedSource;

 protected:
  absl::StatusOr<size_t> Unpack(absl::Span<char> bytes) override {
    while (position_ == block_.size()) {
      TANDEM_ASSIGN_OR_RETURN(const bool more, NextBlock());
      if (!more) return 0;
    }
    const size_t size = std::min(bytes.size(), block_.size() - position_);
    std::memcpy(bytes.data(), block_.data() + position_, size);
    position_ += size;
    return size;
  }

  void Restart() override {
    block_.clear();
    position_ = 0;
  }

 private:
  absl::StatusOr<bool> NextBlock() {
    char header[4];
    TANDEM_ASSIGN_OR_RETURN(const size_t got, ReadPacked(absl::MakeSpan(header)));
    if (got == 0) return false;
    if (got < sizeof(header)) return EndedEarly();
    size_t size = 0;
    for (const char c : header) size = size << 8 | static_cast<unsigned char>(c);
    // In pieces, so that memory grows with what the file has, not with what it says.
    packed_.clear();
    while (packed_.size() < size) {
      const size_t before = packed_.size();
      packed_.resize(std::min(size, before + kChunk));
      TANDEM_ASSIGN_OR_RETURN(const size_t piece,
                              ReadPacked(absl::MakeSpan(packed_).subspan(before)));
      if (before + piece < packed_.size()) return EndedEarly();
    }
    size_t unpacked = 0;
    if (!snappy::GetUncompressedLength(packed_.data(), size, &unpacked) ||
        unpacked > size * kMaxSnappyRatio) {
      return Damaged(size, "a Snappy block of this length was expected");
    }
    block_.resize(unpacked);
    position_ = 0;
    if (!snappy::RawUncompress(packed_.data(), size, block_.data())) {
      block_.clear();
      return Damaged(size, "a Snappy block cannot be unpacked");
    }
    return true;
  }

  std::string packed_;
  std::string block_;
  size_t position_ = 0;  // In block_.
};

class PlainSink : public ByteSink {
 public:
  explicit PlainSink(WritableFile* file) : file_(file) {}

  absl::Status Append(absl::string_view bytes) override {
    if (buffer_.size() + bytes.size() < kChunk) {
      buffer_.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    }
    const absl::string_view pieces[] = {buffer_, bytes};
    TANDEM_RETURN_IF_ERROR(file_->AppendPieces(pieces));
    buffer_.clear();
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    if (buffer_.empty()) return absl::OkStatus();
    TANDEM_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }
  absl::Status Finish() override { return Flush(); }

 private:
  WritableFile* const file_;
  std::string buffer_;
};

class ZlibSink : public ByteSink {
 public:
  explicit ZlibSink(WritableFile* file) : file_(file), packed_(kChunk, '\0') {}
  ~ZlibSink() override { deflateEnd(&stream_); }

  bool Start(Compression compression, int level) {
    constexpr int kMemory = 8;  // zlib's default.
    return deflateInit2(&stream_, level, Z_DEFLATED, WindowBits(compression), kMemory,
                        Z_DEFAULT_STRATEGY) == Z_OK;
  }

  absl::Status Append(absl::string_view bytes) override {
    constexpr size_t kMost = size_t{1} << 30;  // zlib counts with 32 bits.
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMost))) {
      TANDEM_RETURN_IF_ERROR(Deflate(bytes.substr(0, kMost), Z_NO_FLUSH));
    }
    return absl::OkStatus();
  }
  absl::Status Flush() override { return Deflate("", Z_SYNC_FLUSH); }
  absl::Status Finish() override { return Deflate("", Z_FINISH); }

 private:
  absl::Status Deflate(absl::string_view bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(&packed_[0]);
      stream_.avail_out = static_cast<uInt>(packed_.size());
      const int code = deflate(&stream_, flush);
      if (code == Z_STREAM_ERROR) {
        return errors::FailedPrecondition(file_->path(), ": written to after its end");
      }
      const size_t size = packed_.size() - stream_.avail_out;
      if (size > 0) {
        TANDEM_RETURN_IF_ERROR(file_->Append(absl::string_view(packed_).substr(0, size)));
      }
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  WritableFile* const file_;
  std::string packed_;
  z_stream stream_ = {};
};

class SnappySink : public ByteSink {
 public:
  explicit SnappySink(WritableFile* file) : file_(file) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const size_t size = std::min(bytes.size(), kSnappyBlock - block_.size());
      block_.append(bytes.data(), size);
      bytes.remove_prefix(size);
      if (block_.size() == kSnappyBlock) TANDEM_RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    if (block_.empty()) return absl::OkStatus();
    std::string packed;
    snappy::Compress(block_.data(), block_.size(), &packed);
    char header[4];
    for (size_t i = 0; i < 4; ++i) header[i] = static_cast<char>(packed.size() >> (24 - 8 * i));
    const absl::string_view pieces[] = {absl::string_view(header, 4), packed};
    block_.clear();
    return file_->AppendPieces(pieces);
  }
  absl::Status Finish() override { return Flush(); }

 private:
  WritableFile* const file_;
  std::string block_;
};

}  // namespace

absl::StatusOr<Compression> ParseCompression(absl::string_view name) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kSnappy}) {
    if (name == CompressionName(compression)) return compression;
  }
  return errors::InvalidArgument("there is no compression '", name,
                                 "'; expected '' (none), 'ZLIB', 'GZIP' or 'SNAPPY'");
}

absl::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kZlib:
      return "ZLIB";
    case Compression::kGzip:
      return "GZIP";
    case Compression::kSnappy:
      return "SNAPPY";
    case Compression::kNone:
      break;
  }
  return "";
}

std::unique_ptr<ByteSource> MakeByteSource(const RandomAccessFile* file, Compression compression) {
  if (compression == Compression::kNone) return std::make_unique<PlainSource>(file);
  if (compression == Compression::kSnappy) return std::make_unique<SnappySource>(file);
  return std::make_unique<ZlibSource>(file, compression);
}

absl::StatusOr<std::unique_ptr<ByteSink>> MakeByteSink(WritableFile* file, Compression compression,
                                                       int level) {
  if (compression == Compression::kNone) return std::make_unique<PlainSink>(file);
  if (compression == Compression::kSnappy) return std::make_unique<SnappySink>(file);
  auto sink = std::make_unique<ZlibSink>(file);
  if (!sink->Start(compression, level)) {
    return errors::InvalidArgument(file->path(), ": cannot be packed at level ", level,
                                   "; expected -1 to 9");
  }
  return sink;
}

}  // namespace tandem
