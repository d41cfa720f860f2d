// Sorted tables: files of keys and values, both of any bytes, the keys increasing bytewise. The
// format is that of LevelDB's tables, which checkpoints use for their index (core/io/bundle.h).
//
//   table   := data block* metaindex block, index block, footer
//   stored  := block type:u8 crc(block type):u32             each block is stored like this
//   block   := entry* restart:u32* number of restarts:u32
//   entry   := shared:varint unshared:varint size:varint key[shared:] value
//   handle  := offset:varint size:varint                     of a block, without type and crc
//   footer  := handle of metaindex, handle of index, zeros up to 40 bytes, magic:u64
//
// `shared` is how many bytes a key has in common with the key before it; 0 at restarts. The index
// has an entry for each data block: a key that is no less than those in it and less than those
// behind it, and the block's handle. The metaindex is empty. Type 0 is plain, 1 Snappy.
//
// Threads: one at a time for each object.
#ifndef TANDEM_CORE_IO_TABLE_H_
#define TANDEM_CORE_IO_TABLE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/io/file.h"

namespace tandem {

struct TableWriterOptions {
  // A block is written when it has reached this size, and before an entry of twice the size.
  // TensorFlow's.
  size_t block_bytes = size_t{256} << 10;
};

// Writes the same bytes as TensorFlow does for the same entries; blocks are plain.
class TableWriter {
 public:
  // Writes to `file`, which is empty and outlives the writer.
  explicit TableWriter(WritableFile* file, const TableWriterOptions& options = {})
      : file_(file), options_(options) {}

  // InvalidArgument: the key is not greater than the one before.
  absl::Status Add(absl::string_view key, absl::string_view value);
  // No other call may follow. The file stays open and is not synced.
  absl::Status Finish();

 private:
  // Gathers the entries of a block.
  class Block {
   public:
    explicit Block(int restart_interval) : restart_interval_(restart_interval) {}
    void Add(absl::string_view key, absl::string_view value);
    // Appends the restarts.
    std::string Finish();
    bool empty() const { return entries_ == 0; }
    size_t size() const { return bytes_.size() + restarts_.size() + sizeof(uint32_t); }

   private:
    const int restart_interval_;
    std::string bytes_;
    std::string restarts_ = std::string(sizeof(uint32_t), '\0');  // The first is at 0.
    std::string last_key_;
    int64_t entries_ = 0;
  };

  absl::Status FlushBlock();
  // Returns the block's handle.
  absl::StatusOr<std::string> WriteBlock(Block* block);

  WritableFile* const file_;
  const TableWriterOptions options_;
  Block data_{16};
  Block index_{1};
  std::string last_key_;
  bool any_ = false;
  int64_t offset_ = 0;
  // The handle of the last block, whose key in the index depends on the key after it; empty: none.
  std::string pending_handle_;
};

// Calls `entry` for each entry, in order, and returns the first error that it returns. The key and
// the value are valid within the call. Memory is taken for a block at a time, and only as much as
// the file has. All checksums are checked, and that keys increase.
//
// DataLoss: the file is damaged, no table, or ends too early; Unimplemented: a block is packed in
// an unknown way. Messages have the file and the offset.
absl::Status ReadTable(
    const RandomAccessFile& file,
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> entry);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_TABLE_H_
