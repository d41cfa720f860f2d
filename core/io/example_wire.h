// Walks over serialized tf.Examples without making messages of them: what example_parser.cc is
// built on, and no interface for others.
//
//   Example          := features:1
//   SequenceExample  := context:1 | feature_lists:2       (context is a Features)
//   Features         := entry:1*                          (FeatureLists alike)
//   entry            := key:1 | value:2                   (a Feature, or a FeatureList)
//   FeatureList      := feature:1*
//   Feature          := bytes_list:1 | float_list:2 | int64_list:3
//   ..._list         := value:1*                          (numbers one by one or packed)
//
// Fields come in any order, unknown ones are skipped, groups are refused. What lies in a result
// points into the bytes that were given.
#ifndef TANDEM_CORE_IO_EXAMPLE_WIRE_H_
#define TANDEM_CORE_IO_EXAMPLE_WIRE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"

namespace tandem {
namespace example_wire {

// Tags: the field's number times 8, and how it is written (0 varint, 2 bytes, 5 four bytes).
inline constexpr uint32_t kVarint1 = 1 << 3;
inline constexpr uint32_t kBytes1 = (1 << 3) | 2;
inline constexpr uint32_t kBytes2 = (2 << 3) | 2;
inline constexpr uint32_t kBytes3 = (3 << 3) | 2;
inline constexpr uint32_t kFixed1 = (1 << 3) | 5;

// Every method that reads returns false when the bytes are damaged.
class WireReader {
 public:
  explicit WireReader(absl::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  // Where the damage is, after a method returned false.
  const char* at() const { return at_; }

  bool ReadVarint(uint64_t* value) {
    if (at_ < end_ && static_cast<uint8_t>(*at_) < 0x80) {
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    const char* at = at_;
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && at < end_; shift += 7) {
      const uint64_t byte = static_cast<uint8_t>(*at++);
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        at_ = at;
        *value = result;
        return true;
      }
    }
    return false;
  }

  bool ReadTag(uint32_t* tag) {
    uint64_t value;
    const char* const begin = at_;
    if (ReadVarint(&value) && value >= 8 && value <= UINT32_MAX) {
      *tag = static_cast<uint32_t>(value);
      return true;
    }
    at_ = begin;
    return false;
  }

  // A length and as many bytes.
  bool ReadBytes(absl::string_view* bytes) {
    uint64_t size;
    const char* const begin = at_;
    if (ReadVarint(&size) && size <= static_cast<uint64_t>(end_ - at_)) {
      *bytes = absl::string_view(at_, static_cast<size_t>(size));
      at_ += size;
      return true;
    }
    at_ = begin;
    return false;
  }

  // The value of a field that nobody asked for.
  bool Skip(uint32_t tag);

 private:
  bool Advance(int64_t size) {
    if (end_ - at_ < size) return false;
    at_ += size;
    return true;
  }

  const char* at_;
  const char* const end_;
};

// The values of one Feature: the serialized list, and of what type. kInvalid: no kind is set, the
// values are missing. Where several kinds are set, the first counts, as with TensorFlow.
struct WireValues {
  DataType dtype = DataType::kInvalid;
  absl::string_view list;
};

// The next two return where the bytes are damaged, or null.
const char* ReadFeature(absl::string_view feature, WireValues* values);

// Calls `visit(key, value)` for each entry of a Features or FeatureLists message, in the order of
// the file. `visit` returns as above.
template <typename Visit>
const char* ForEachEntry(absl::string_view map, const Visit& visit) {
  WireReader reader(map);
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return reader.at();
    if (tag != kBytes1) {
      if (!reader.Skip(tag)) return reader.at();
      continue;
    }
    absl::string_view entry, key, value;
    if (!reader.ReadBytes(&entry)) return reader.at();
    WireReader fields(entry);
    while (!fields.done()) {
      if (!fields.ReadTag(&tag)) return fields.at();
      const bool read = tag == kBytes1   ? fields.ReadBytes(&key)
                        : tag == kBytes2 ? fields.ReadBytes(&value)
                                         : fields.Skip(tag);
      if (!read) return fields.at();
    }
    if (const char* const damage = visit(key, value)) return damage;
  }
  return nullptr;
}

// Calls `visit(field number, bytes)` for the fields of a message that are messages or strings.
template <typename Visit>
const char* ForEachMessage(absl::string_view message, const Visit& visit) {
  WireReader reader(message);
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return reader.at();
    if ((tag & 7) != 2) {
      if (!reader.Skip(tag)) return reader.at();
      continue;
    }
    absl::string_view bytes;
    if (!reader.ReadBytes(&bytes)) return reader.at();
    if (const char* const damage = visit(tag >> 3, bytes)) return damage;
  }
  return nullptr;
}

// Writes the first `capacity` values of a list to `out` and sets `count` to how many it has. False
// when the list is damaged.
bool DecodeFloats(absl::string_view list, float* out, int64_t capacity, int64_t* count);
bool DecodeInts(absl::string_view list, int64_t* out, int64_t capacity, int64_t* count);
bool DecodeStrings(absl::string_view list, std::string* out, int64_t capacity, int64_t* count);

inline bool Decode(absl::string_view list, float* out, int64_t capacity, int64_t* count) {
  return DecodeFloats(list, out, capacity, count);
}
inline bool Decode(absl::string_view list, int64_t* out, int64_t capacity, int64_t* count) {
  return DecodeInts(list, out, capacity, count);
}
inline bool Decode(absl::string_view list, std::string* out, int64_t capacity, int64_t* count) {
  return DecodeStrings(list, out, capacity, count);
}

}  // namespace example_wire
}  // namespace tandem

#endif  // TANDEM_CORE_IO_EXAMPLE_WIRE_H_
