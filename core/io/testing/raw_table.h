// Tables (core/io/table.h) with blocks of any contents, for tests of readers.
#ifndef TANDEM_CORE_IO_TESTING_RAW_TABLE_H_
#define TANDEM_CORE_IO_TESTING_RAW_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/io/coding.h"
#include "core/io/crc32c.h"

namespace tandem {

// The restarts of a block that has only one.
inline std::string OneRestart() { return std::string("\0\0\0\0\1\0\0\0", 8); }

// An entry of a block.
inline std::string RawEntry(uint64_t shared, absl::string_view suffix, absl::string_view value) {
  std::string entry;
  AppendVarint64(shared, &entry);
  AppendVarint64(suffix.size(), &entry);
  AppendVarint64(value.size(), &entry);
  return entry + std::string(suffix) + std::string(value);
}

// A table of one block, stored as it is under the type `type`, with checksums that fit and the key
// `index_key` in the index.
inline std::string RawTable(absl::string_view block, char type, absl::string_view index_key) {
  std::string table;
  const auto add = [&](absl::string_view contents, char contents_type) {
    std::string handle;
    AppendVarint64(table.size(), &handle);
    AppendVarint64(contents.size(), &handle);
    const std::string stored = std::string(contents) + contents_type;
    table += stored;
    AppendFixed32(MaskCrc32c(Crc32c(stored)), &table);
    return handle;
  };
  const std::string handle = add(block, type);
  std::string footer = add(OneRestart(), 0);
  footer += add(RawEntry(0, index_key, handle) + OneRestart(), 0);
  footer.resize(40);
  AppendFixed64(0xdb4775248b80fb57, &footer);
  return table + footer;
}

}  // namespace tandem

#endif  // TANDEM_CORE_IO_TESTING_RAW_TABLE_H_
