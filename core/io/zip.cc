#include "core/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/io/coding.h"

// The format (PKWARE's APPNOTE), numbers little-endian:
//
//   archive    := member* directory end
//   member     := 50 4b 03 04 ... name extra contents
//   directory  := (50 4b 01 02 ... name extra comment)*, with sizes and the member's offset
//   end        := [50 4b 06 06 ...  50 4b 06 07 ...]  50 4b 05 06 ... comment
//
// Sizes and offsets that do not fit into 32 bits, and counts that do not fit into 16, are written
// as all ones; the real ones are in an extra field of the entry and in the first, optional part of
// the end (zip64).
namespace tandem {
namespace {

constexpr uint32_t kMemberMark = 0x04034b50;
constexpr uint32_t kEntryMark = 0x02014b50;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50;
constexpr uint32_t kEnd64LocatorMark = 0x07064b50;
constexpr int64_t kMemberBytes = 30;
constexpr int64_t kEntryBytes = 46;
constexpr int64_t kEndBytes = 22;
constexpr int64_t kEnd64Bytes = 56;
constexpr int64_t kEnd64LocatorBytes = 20;
constexpr int64_t kMaxCommentBytes = 65535;
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t kAllOnes32 = 0xffffffff;
constexpr uint16_t kAllOnes16 = 0xffff;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kVersion = 20;
constexpr uint16_t kZip64Version = 45;
constexpr uint16_t kMadeByUnix = 3 << 8;
constexpr uint32_t kUnixPermissions = 0100644u << 16;
constexpr uint16_t kFirstOfJanuary1980 = (1 << 5) | 1;
// The best that deflate can do.
constexpr int64_t kMaxDeflateRatio = 1032;
// What zlib is given at a time.
constexpr size_t kPiece = size_t{1} << 30;

uint16_t Fixed16(absl::string_view bytes, size_t at) {
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1])
                                                                     << 8);
}
uint32_t Fixed32(absl::string_view bytes, size_t at) { return DecodeFixed32(bytes.data() + at); }
uint64_t Fixed64(absl::string_view bytes, size_t at) { return DecodeFixed64(bytes.data() + at); }

void Append16(uint16_t value, std::string* out) {
  out->push_back(static_cast<char>(value & 0xff));
  out->push_back(static_cast<char>(value >> 8));
}

absl::StatusOr<std::string> ReadAt(const RandomAccessFile& file, int64_t offset, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  TANDEM_RETURN_IF_ERROR(file.ReadExactly(offset, absl::MakeSpan(bytes.data(), bytes.size())));
  return bytes;
}

template <typename... Args>
absl::Status Damaged(const RandomAccessFile& file, const Args&... args) {
  return errors::InvalidArgument(file.path(), ": ", args...);
}

struct Directory {
  int64_t offset = 0;
  int64_t size = 0;
};

// Finds the end of the archive and in it where the list of members is.
absl::StatusOr<Directory> FindDirectory(const RandomAccessFile& file, int64_t file_size) {
  const int64_t tail_size = std::min(file_size, kEndBytes + kMaxCommentBytes + kEnd64LocatorBytes);
  TANDEM_ASSIGN_OR_RETURN(const std::string tail, ReadAt(file, file_size - tail_size, tail_size));
  int64_t end = tail_size - kEndBytes;
  const auto is_end = [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    return Fixed32(tail, i) == kEndMark && at + kEndBytes + Fixed16(tail, i + 20) == tail_size;
  };
  while (end >= 0 && !is_end(end)) --end;
  if (end < 0) {
    return Damaged(file, "no zip archive, or one that is cut off: its end mark is missing");
  }
  const auto at = static_cast<size_t>(end);
  uint64_t size = Fixed32(tail, at + 12), offset = Fixed32(tail, at + 16);
  const int64_t locator = end - kEnd64LocatorBytes;
  if (locator >= 0 && Fixed32(tail, static_cast<size_t>(locator)) == kEnd64LocatorMark) {
    const uint64_t end64 = Fixed64(tail, static_cast<size_t>(locator) + 8);
    if (end64 > static_cast<uint64_t>(std::max<int64_t>(0, file_size - kEnd64Bytes))) {
      return Damaged(file, "the zip64 end should be at byte ", end64, "; the file has ", file_size);
    }
    TANDEM_ASSIGN_OR_RETURN(const std::string record,
                            ReadAt(file, static_cast<int64_t>(end64), kEnd64Bytes));
    if (Fixed32(record, 0) != kEnd64Mark) {
      return Damaged(file, "expected the zip64 end at byte ", end64);
    }
    size = Fixed64(record, 40);
    offset = Fixed64(record, 48);
  }
  const auto limit = static_cast<uint64_t>(file_size);
  if (offset > limit || size > limit - offset) {
    return Damaged(file, "the list of members should be ", size, " bytes at byte ", offset,
                   "; the file has ", file_size);
  }
  return Directory{static_cast<int64_t>(offset), static_cast<int64_t>(size)};
}

// Replaces those of `values` that are all ones by what the zip64 field has for them.
bool ReadZip64Extra(absl::string_view extra, std::initializer_list<uint64_t*> values) {
  Decoder fields(extra);
  absl::string_view head, content;
  while (fields.ReadBytes(4, &head)) {
    if (!fields.ReadBytes(Fixed16(head, 2), &content)) return false;
    if (Fixed16(head, 0) != kZip64Extra) continue;
    Decoder numbers(content);
    for (uint64_t* const value : values) {
      if (*value == kAllOnes32 && !numbers.ReadFixed64(value)) return false;
    }
  }
  return true;
}

// The unpacked contents, or what is wrong.
absl::StatusOr<std::string> Inflate(absl::string_view packed, size_t size) {
  std::string contents(size, '\0');
  z_stream stream = {};
  // Negative: without zlib's header and trailer.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return errors::ResourceExhausted("no memory");
  size_t in = 0, out = 0;
  int code = Z_OK;
  char end = 0;  // Where contents that are too long would go on.
  while (code == Z_OK || code == Z_BUF_ERROR) {
    const size_t in_now = std::min(packed.size() - in, kPiece);
    const size_t out_now = std::min(size - out, kPiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + in));
    stream.avail_in = static_cast<uInt>(in_now);
    stream.next_out = reinterpret_cast<Bytef*>(out_now > 0 ? contents.data() + out : &end);
    stream.avail_out = static_cast<uInt>(std::max<size_t>(out_now, 1));
    const uInt room = stream.avail_out;
    code = inflate(&stream, Z_NO_FLUSH);
    const size_t read = in_now - stream.avail_in, written = room - stream.avail_out;
    in += read;
    if (written > out_now) break;
    out += written;
    if (read == 0 && written == 0) break;
  }
  inflateEnd(&stream);
  if (code == Z_STREAM_END && out == size && in == packed.size()) return contents;
  return errors::InvalidArgument("expected ", size, " bytes, deflated; ",
                                 code == Z_DATA_ERROR   ? "found damage after "
                                 : code == Z_STREAM_END ? "found the end after "
                                                        : "found more, or no end, after ",
                                 out);
}

absl::StatusOr<std::string> Deflate(absl::string_view contents) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return errors::ResourceExhausted("no memory to deflate ", contents.size(), " bytes");
  }
  std::string packed;
  size_t in = 0;
  int code = Z_OK;
  char buffer[64 << 10];
  while (code == Z_OK) {
    const size_t in_now = std::min(contents.size() - in, kPiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data() + in));
    stream.avail_in = static_cast<uInt>(in_now);
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    code = deflate(&stream, in + in_now == contents.size() ? Z_FINISH : Z_NO_FLUSH);
    in += in_now - stream.avail_in;
    packed.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return errors::Internal("zlib cannot deflate: code ", code);
  return packed;
}

uint32_t Crc32(absl::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Whether any of these must be written in 64 bits.
bool NeedsZip64(std::initializer_list<int64_t> values) {
  return std::any_of(values.begin(), values.end(),
                     [](int64_t value) { return value >= int64_t{kAllOnes32}; });
}

uint32_t Narrow(int64_t value, bool zip64) {
  return zip64 ? kAllOnes32 : static_cast<uint32_t>(value);
}

// From the version on, what the member's own header and its entry in the list have in common.
void AppendCommonHeader(const ZipMember& member, bool zip64, size_t extra_bytes, std::string* out) {
  Append16(zip64 ? kZip64Version : kVersion, out);
  Append16(0, out);  // Flags.
  Append16(member.deflated ? kDeflated : kStored, out);
  Append16(0, out);  // Midnight.
  Append16(kFirstOfJanuary1980, out);
  AppendFixed32(member.crc32, out);
  AppendFixed32(Narrow(member.packed_size, zip64), out);
  AppendFixed32(Narrow(member.size, zip64), out);
  Append16(static_cast<uint16_t>(member.name.size()), out);
  Append16(static_cast<uint16_t>(extra_bytes), out);
}

}  // namespace

absl::StatusOr<ZipReader> ZipReader::Open(std::unique_ptr<RandomAccessFile> file) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  ZipReader reader(std::move(file), size);
  TANDEM_RETURN_IF_ERROR(reader.ReadDirectory());
  return reader;
}

absl::Status ZipReader::ReadDirectory() {
  TANDEM_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(*file_, file_size_));
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadAt(*file_, directory.offset, directory.size));
  Decoder decoder(bytes);
  int64_t packed_bytes = 0;
  while (!decoder.empty()) {
    const int64_t at =
        directory.offset + directory.size - static_cast<int64_t>(decoder.rest().size());
    const auto damaged = [&](const auto&... what) {
      return Damaged(*file_, "the list of members is damaged at byte ", at, ": ", what...);
    };
    absl::string_view entry, name, extra, comment;
    if (!decoder.ReadBytes(kEntryBytes, &entry) || Fixed32(entry, 0) != kEntryMark ||
        !decoder.ReadBytes(Fixed16(entry, 28), &name) ||
        !decoder.ReadBytes(Fixed16(entry, 30), &extra) ||
        !decoder.ReadBytes(Fixed16(entry, 32), &comment)) {
      return damaged("expected an entry");
    }
    const uint16_t flags = Fixed16(entry, 8), method = Fixed16(entry, 10);
    uint64_t packed_size = Fixed32(entry, 20), size = Fixed32(entry, 24),
             offset = Fixed32(entry, 42);
    if (!ReadZip64Extra(extra, {&size, &packed_size, &offset})) {
      return damaged("expected a zip64 field with the sizes");
    }
    const auto member = [&] { return absl::StrCat("member '", absl::CHexEscape(name), "' "); };
    if ((flags & kEncryptedFlag) != 0) {
      return errors::Unimplemented(path(), ": ", member(), "is encrypted");
    }
    if (method != kStored && method != kDeflated) {
      return errors::Unimplemented(path(), ": ", member(), "is packed by method ", method,
                                   "; expected 0 (stored) or 8 (deflated)");
    }
    const auto limit = static_cast<uint64_t>(directory.offset);
    if (offset > limit || packed_size > limit - offset) {
      return damaged(member(), "of ", packed_size, " bytes at byte ", offset,
                     " does not fit in front of the list of members");
    }
    packed_bytes += static_cast<int64_t>(packed_size);
    if (packed_bytes > directory.offset) return damaged(member(), "overlaps others");
    const bool deflated = method == kDeflated;
    if (deflated ? size / kMaxDeflateRatio > packed_size : size != packed_size) {
      return damaged(member(), "of ", size, " bytes cannot be made of ", packed_size);
    }
    members_.push_back({std::string(name), static_cast<int64_t>(size),
                        static_cast<int64_t>(packed_size), deflated, Fixed32(entry, 16),
                        static_cast<int64_t>(offset)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ZipReader::Read(const ZipMember& member) const {
  const std::string name = absl::StrCat("member '", absl::CHexEscape(member.name), "'");
  if (member.header_offset > file_size_ - kMemberBytes) {
    return Damaged(*file_, name, " should be at byte ", member.header_offset, "; the file has ",
                   file_size_);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string header,
                          ReadAt(*file_, member.header_offset, kMemberBytes));
  if (Fixed32(header, 0) != kMemberMark) {
    return Damaged(*file_, "expected ", name, " at byte ", member.header_offset);
  }
  const int64_t begin =
      member.header_offset + kMemberBytes + Fixed16(header, 26) + Fixed16(header, 28);
  if (begin > file_size_ || member.packed_size > file_size_ - begin) {
    return Damaged(*file_, name, " should have ", member.packed_size, " bytes at byte ", begin,
                   "; the file has ", file_size_);
  }
  TANDEM_ASSIGN_OR_RETURN(std::string contents, ReadAt(*file_, begin, member.packed_size));
  if (member.deflated) {
    absl::StatusOr<std::string> unpacked = Inflate(contents, static_cast<size_t>(member.size));
    if (!unpacked.ok()) {
      return WithContext(unpacked.status(), absl::StrCat(path(), ": ", name, " at byte ", begin));
    }
    contents = *std::move(unpacked);
  }
  if (Crc32(contents) != member.crc32) {
    return Damaged(*file_, name, " at byte ", begin, " is damaged: its CRC-32 is wrong");
  }
  return contents;
}

absl::Status ZipWriter::Append(absl::string_view bytes) {
  TANDEM_RETURN_IF_ERROR(status_);
  status_ = file_->Append(bytes);
  offset_ += static_cast<int64_t>(bytes.size());
  return status_;
}

absl::Status ZipWriter::Add(absl::string_view name, absl::string_view contents) {
  TANDEM_RETURN_IF_ERROR(status_);
  if (name.empty() || name.size() > std::numeric_limits<uint16_t>::max()) {
    return errors::InvalidArgument(file_->path(), ": a member's name has 1 to 65535 bytes; found ",
                                   name.size());
  }
  std::string packed;
  if (options_.deflate) {
    TANDEM_ASSIGN_OR_RETURN(packed, Deflate(contents));
  }
  const absl::string_view written = options_.deflate ? absl::string_view(packed) : contents;
  ZipMember member;
  member.name = std::string(name);
  member.size = static_cast<int64_t>(contents.size());
  member.packed_size = static_cast<int64_t>(written.size());
  member.deflated = options_.deflate;
  member.crc32 = Crc32(contents);
  member.header_offset = offset_;

  const bool zip64 = options_.always_zip64 || NeedsZip64({member.size, member.packed_size});
  std::string extra;
  if (zip64) {
    Append16(kZip64Extra, &extra);
    Append16(16, &extra);
    AppendFixed64(static_cast<uint64_t>(member.size), &extra);
    AppendFixed64(static_cast<uint64_t>(member.packed_size), &extra);
  }
  std::string header;
  AppendFixed32(kMemberMark, &header);
  AppendCommonHeader(member, zip64, extra.size(), &header);
  TANDEM_RETURN_IF_ERROR(Append(absl::StrCat(header, member.name, extra)));
  TANDEM_RETURN_IF_ERROR(Append(written));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ZipWriter::Close() {
  const int64_t begin = offset_;
  std::string directory;
  for (const ZipMember& member : members_) {
    const bool zip64 = options_.always_zip64 ||
                       NeedsZip64({member.size, member.packed_size, member.header_offset});
    std::string extra;
    if (zip64) {
      Append16(kZip64Extra, &extra);
      Append16(24, &extra);
      AppendFixed64(static_cast<uint64_t>(member.size), &extra);
      AppendFixed64(static_cast<uint64_t>(member.packed_size), &extra);
      AppendFixed64(static_cast<uint64_t>(member.header_offset), &extra);
    }
    AppendFixed32(kEntryMark, &directory);
    Append16(kMadeByUnix | (zip64 ? kZip64Version : kVersion), &directory);
    AppendCommonHeader(member, zip64, extra.size(), &directory);
    Append16(0, &directory);  // Bytes of the comment.
    Append16(0, &directory);  // Part of the archive.
    Append16(0, &directory);  // Kind of file.
    AppendFixed32(kUnixPermissions, &directory);
    AppendFixed32(Narrow(member.header_offset, zip64), &directory);
    absl::StrAppend(&directory, member.name, extra);
  }
  const auto size = static_cast<int64_t>(directory.size());
  const uint64_t count = members_.size();
  const bool zip64 = options_.always_zip64 || count >= kAllOnes16 || NeedsZip64({size, begin});
  if (zip64) {
    const uint64_t end64 = static_cast<uint64_t>(begin + size);
    AppendFixed32(kEnd64Mark, &directory);
    AppendFixed64(kEnd64Bytes - 12, &directory);  // Of what follows.
    Append16(kMadeByUnix | kZip64Version, &directory);
    Append16(kZip64Version, &directory);
    AppendFixed32(0, &directory);  // This part of the archive, and that of the list.
    AppendFixed32(0, &directory);
    AppendFixed64(count, &directory);
    AppendFixed64(count, &directory);
    AppendFixed64(static_cast<uint64_t>(size), &directory);
    AppendFixed64(static_cast<uint64_t>(begin), &directory);
    AppendFixed32(kEnd64LocatorMark, &directory);
    AppendFixed32(0, &directory);
    AppendFixed64(end64, &directory);
    AppendFixed32(1, &directory);  // Parts.
  }
  const auto short_count = zip64 ? kAllOnes16 : static_cast<uint16_t>(count);
  AppendFixed32(kEndMark, &directory);
  Append16(0, &directory);
  Append16(0, &directory);
  Append16(short_count, &directory);
  Append16(short_count, &directory);
  AppendFixed32(Narrow(size, zip64), &directory);
  AppendFixed32(Narrow(begin, zip64), &directory);
  Append16(0, &directory);  // Bytes of the comment.
  TANDEM_RETURN_IF_ERROR(Append(directory));
  status_ = file_->Close();
  if (status_.ok()) {
    status_ = errors::FailedPrecondition(file_->path(), ": is closed");
    return absl::OkStatus();
  }
  return status_;
}

}  // namespace tandem
