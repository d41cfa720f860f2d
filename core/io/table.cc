#include "core/io/table.h"

#include <snappy.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"

namespace tandem {
namespace {

constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kHandlesBytes = 40;
constexpr size_t kFooterBytes = kHandlesBytes + sizeof(kMagic);
constexpr size_t kTrailerBytes = 1 + sizeof(uint32_t);
constexpr char kPlain = 0;
constexpr char kSnappy = 1;
// A Snappy element of three bytes stands for at most 64.
constexpr size_t kMaxSnappyRatio = 64;

size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t size = 0;
  while (size < limit && a[size] == b[size]) ++size;
  return size;
}

unsigned char ByteAt(absl::string_view bytes, size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// A short key in [a, b), where a < b.
std::string Separator(absl::string_view a, absl::string_view b) {
  const size_t at = CommonPrefix(a, b);
  if (at < std::min(a.size(), b.size()) && ByteAt(a, at) < 0xff &&
      ByteAt(a, at) + 1 < ByteAt(b, at)) {
    std::string key(a.substr(0, at + 1));
    ++key.back();
    return key;
  }
  return std::string(a);
}

// A short key that is not less than `a`.
std::string Successor(absl::string_view a) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (ByteAt(a, i) == 0xff) continue;
    std::string key(a.substr(0, i + 1));
    ++key.back();
    return key;
  }
  return std::string(a);
}

struct Handle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

class Reader {
 public:
  explicit Reader(const RandomAccessFile& file) : file_(file) {}

  using EntryFunction =
      absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)>;

  absl::Status Read(EntryFunction entry) {
    TANDEM_ASSIGN_OR_RETURN(const int64_t size, file_.Size());
    if (size < static_cast<int64_t>(kFooterBytes)) {
      return Damaged(0, absl::StrCat("expected at least ", kFooterBytes, " bytes, found ", size));
    }
    end_ = static_cast<uint64_t>(size) - kFooterBytes;
    std::string footer(kFooterBytes, '\0');
    TANDEM_RETURN_IF_ERROR(
        file_.ReadExactly(static_cast<int64_t>(end_), absl::MakeSpan(&footer[0], footer.size())));
    if (DecodeFixed64(footer.data() + kHandlesBytes) != kMagic) {
      return Damaged(end_ + kHandlesBytes, "the mark that ends a table is missing");
    }
    Decoder decoder(absl::string_view(footer).substr(0, kHandlesBytes));
    Handle metaindex;
    Handle index;
    if (!ReadHandle(&decoder, &metaindex) || !ReadHandle(&decoder, &index)) {
      return Damaged(end_, "expected the places of two blocks");
    }
    // Its entries are for other readers, but damage is damage.
    TANDEM_RETURN_IF_ERROR(ReadBlock(metaindex).status());
    TANDEM_ASSIGN_OR_RETURN(const std::string index_block, ReadBlock(index));
    std::string last_key;
    bool any = false;
    return ReadEntries(
        index_block, index,
        [&](absl::string_view index_key, absl::string_view value) -> absl::Status {
          Decoder handle_decoder(value);
          Handle handle;
          if (!ReadHandle(&handle_decoder, &handle) || !handle_decoder.empty()) {
            return Damaged(index.offset, "expected the place of a block in the index");
          }
          TANDEM_ASSIGN_OR_RETURN(const std::string block, ReadBlock(handle));
          return ReadEntries(
              block, handle,
              [&](absl::string_view key, absl::string_view entry_value) -> absl::Status {
                if ((any && key <= last_key) || key > index_key) {
                  return Damaged(handle.offset, absl::StrCat("the key '", absl::CHexEscape(key),
                                                             "' is not in order"));
                }
                last_key.assign(key.data(), key.size());
                any = true;
                return entry(key, entry_value);
              });
        });
  }

 private:
  absl::Status Damaged(uint64_t offset, absl::string_view what) const {
    return errors::DataLoss(file_.path(), ": at offset ", offset, ": ", what,
                            "; the file is damaged or no table");
  }

  static bool ReadHandle(Decoder* decoder, Handle* handle) {
    return decoder->ReadVarint64(&handle->offset) && decoder->ReadVarint64(&handle->size);
  }

  absl::StatusOr<std::string> ReadBlock(const Handle& handle) const {
    if (handle.offset > end_ || handle.size > end_ - handle.offset ||
        end_ - handle.offset - handle.size < kTrailerBytes) {
      return Damaged(end_, absl::StrCat("a block of ", handle.size, " bytes at offset ",
                                        handle.offset, " does not fit into the file"));
    }
    std::string block(handle.size + kTrailerBytes, '\0');
    TANDEM_RETURN_IF_ERROR(file_.ReadExactly(static_cast<int64_t>(handle.offset),
                                             absl::MakeSpan(&block[0], block.size())));
    const absl::string_view summed = absl::string_view(block).substr(0, handle.size + 1);
    if (MaskCrc32c(Crc32c(summed)) != DecodeFixed32(block.data() + summed.size())) {
      return Damaged(handle.offset,
                     absl::StrCat("a block of ", handle.size, " bytes has a wrong checksum"));
    }
    const char type = summed.back();
    block.resize(handle.size);
    if (type == kPlain) return block;
    if (type != kSnappy) {
      return errors::Unimplemented(file_.path(), ": the block at offset ", handle.offset,
                                   " is packed in the way ", static_cast<int>(type),
                                   "; 0 (plain) and 1 (Snappy) are known");
    }
    size_t size = 0;
    std::string unpacked;
    if (!snappy::GetUncompressedLength(block.data(), block.size(), &size) ||
        size > block.size() * kMaxSnappyRatio ||
        !snappy::Uncompress(block.data(), block.size(), &unpacked)) {
      return Damaged(handle.offset, "a Snappy block cannot be unpacked");
    }
    return unpacked;
  }

  // Restarts are for searching, and are not looked at.
  absl::Status ReadEntries(absl::string_view block, const Handle& handle,
                           EntryFunction entry) const {
    const auto damaged = [&](absl::string_view what) {
      return Damaged(handle.offset, absl::StrCat("a block ", what));
    };
    if (block.size() < sizeof(uint32_t)) return damaged("is too short");
    const uint64_t restarts = DecodeFixed32(block.data() + block.size() - sizeof(uint32_t));
    const uint64_t tail = (restarts + 1) * sizeof(uint32_t);
    if (tail > block.size()) return damaged("is too short for its restarts");
    Decoder decoder(block.substr(0, block.size() - tail));
    std::string key;
    std::string last_key;
    for (bool first = true; !decoder.empty(); first = false) {
      uint32_t shared = 0;
      uint32_t unshared = 0;
      uint32_t size = 0;
      absl::string_view suffix;
      absl::string_view value;
      if (!decoder.ReadVarint32(&shared) || !decoder.ReadVarint32(&unshared) ||
          !decoder.ReadVarint32(&size) || !decoder.ReadBytes(unshared, &suffix) ||
          !decoder.ReadBytes(size, &value) || shared > key.size()) {
        return damaged("has an entry that does not fit");
      }
      key.resize(shared);
      key.append(suffix.data(), suffix.size());
      if (!first && key <= last_key) return damaged("has keys out of order");
      last_key = key;
      TANDEM_RETURN_IF_ERROR(entry(key, value));
    }
    return absl::OkStatus();
  }

  const RandomAccessFile& file_;
  uint64_t end_ = 0;  // Where the footer begins.
};

}  // namespace

void TableWriter::Block::Add(absl::string_view key, absl::string_view value) {
  const bool restart = entries_ % restart_interval_ == 0;
  if (restart && entries_ > 0) AppendFixed32(static_cast<uint32_t>(bytes_.size()), &restarts_);
  const size_t shared = restart ? 0 : CommonPrefix(last_key_, key);
  AppendVarint64(shared, &bytes_);
  AppendVarint64(key.size() - shared, &bytes_);
  AppendVarint64(value.size(), &bytes_);
  absl::StrAppend(&bytes_, key.substr(shared), value);
  last_key_.assign(key.data(), key.size());
  ++entries_;
}

std::string TableWriter::Block::Finish() {
  std::string block = std::move(bytes_);
  block += restarts_;
  AppendFixed32(static_cast<uint32_t>(restarts_.size() / sizeof(uint32_t)), &block);
  bytes_.clear();
  restarts_.assign(sizeof(uint32_t), '\0');
  last_key_.clear();
  entries_ = 0;
  return block;
}

absl::Status TableWriter::Add(absl::string_view key, absl::string_view value) {
  if (any_ && key <= last_key_) {
    return errors::InvalidArgument(file_->path(), ": the key '", absl::CHexEscape(key),
                                   "' does not come after '", absl::CHexEscape(last_key_), "'");
  }
  if (any_ && key.size() + value.size() >= 2 * options_.block_bytes) {
    TANDEM_RETURN_IF_ERROR(FlushBlock());
  }
  if (!pending_handle_.empty()) {
    index_.Add(Separator(last_key_, key), pending_handle_);
    pending_handle_.clear();
  }
  any_ = true;
  last_key_.assign(key.data(), key.size());
  data_.Add(key, value);
  if (data_.size() >= options_.block_bytes) return FlushBlock();
  return absl::OkStatus();
}

absl::Status TableWriter::Finish() {
  TANDEM_RETURN_IF_ERROR(FlushBlock());
  Block metaindex(1);
  TANDEM_ASSIGN_OR_RETURN(std::string footer, WriteBlock(&metaindex));
  if (!pending_handle_.empty()) index_.Add(Successor(last_key_), pending_handle_);
  TANDEM_ASSIGN_OR_RETURN(const std::string index_handle, WriteBlock(&index_));
  footer += index_handle;
  footer.resize(kHandlesBytes);
  AppendFixed64(kMagic, &footer);
  return file_->Append(footer);
}

absl::Status TableWriter::FlushBlock() {
  if (data_.empty()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(pending_handle_, WriteBlock(&data_));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TableWriter::WriteBlock(Block* block) {
  std::string bytes = block->Finish();
  std::string handle;
  AppendVarint64(static_cast<uint64_t>(offset_), &handle);
  AppendVarint64(bytes.size(), &handle);
  bytes.push_back(kPlain);
  AppendFixed32(MaskCrc32c(Crc32c(bytes)), &bytes);
  TANDEM_RETURN_IF_ERROR(file_->Append(bytes));
  offset_ += static_cast<int64_t>(bytes.size());
  return handle;
}

absl::Status ReadTable(
    const RandomAccessFile& file,
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> entry) {
  return Reader(file).Read(entry);
}

}  // namespace tandem
