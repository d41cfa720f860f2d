#include "core/io/example_wire.h"

namespace tandem {
namespace example_wire {
namespace {

int64_t Size(absl::string_view bytes) { return static_cast<int64_t>(bytes.size()); }

}  // namespace

bool WireReader::Skip(uint32_t tag) {
  uint64_t number;
  absl::string_view bytes;
  switch (tag & 7) {
    case 0:
      return ReadVarint(&number);
    case 1:
      return Advance(8);
    case 2:
      return ReadBytes(&bytes);
    case 5:
      return Advance(4);
    default:
      return false;
  }
}

const char* ReadFeature(absl::string_view feature, WireValues* values) {
  *values = WireValues();
  WireReader reader(feature);
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return reader.at();
    DataType dtype = DataType::kInvalid;
    if (tag == kBytes1) dtype = kString;
    if (tag == kBytes2) dtype = kFloat32;
    if (tag == kBytes3) dtype = kInt64;
    if (dtype != DataType::kInvalid) {
      values->dtype = dtype;
      return reader.ReadBytes(&values->list) ? nullptr : reader.at();
    }
    if (!reader.Skip(tag)) return reader.at();
  }
  return nullptr;
}

bool DecodeFloats(absl::string_view list, float* out, int64_t capacity, int64_t* count) {
  WireReader reader(list);
  int64_t found = 0;
  const auto take = [&](const char* from, int64_t values) {
    const int64_t wanted = std::min(values, capacity - found);
    // The format is little-endian, as is every machine that this is built for.
    if (wanted > 0) std::memcpy(out + found, from, static_cast<size_t>(wanted) * sizeof(float));
    found += values;
  };
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == kBytes1) {
      absl::string_view packed;
      if (!reader.ReadBytes(&packed) || packed.size() % sizeof(float) != 0) return false;
      take(packed.data(), Size(packed) / static_cast<int64_t>(sizeof(float)));
    } else if (tag == kFixed1) {
      const char* const from = reader.at();
      if (!reader.Skip(tag)) return false;
      take(from, 1);
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  *count = found;
  return true;
}

bool DecodeInts(absl::string_view list, int64_t* out, int64_t capacity, int64_t* count) {
  WireReader reader(list);
  int64_t found = 0;
  uint64_t value;
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == kBytes1) {
      absl::string_view packed;
      if (!reader.ReadBytes(&packed)) return false;
      WireReader values(packed);
      while (!values.done()) {
        if (!values.ReadVarint(&value)) return false;
        if (found < capacity) out[found] = static_cast<int64_t>(value);
        ++found;
      }
    } else if (tag == kVarint1) {
      if (!reader.ReadVarint(&value)) return false;
      if (found < capacity) out[found] = static_cast<int64_t>(value);
      ++found;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  *count = found;
  return true;
}

bool DecodeStrings(absl::string_view list, std::string* out, int64_t capacity, int64_t* count) {
  WireReader reader(list);
  int64_t found = 0;
  absl::string_view value;
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    if (tag != kBytes1) {
      if (!reader.Skip(tag)) return false;
      continue;
    }
    if (!reader.ReadBytes(&value)) return false;
    if (found < capacity) out[found].assign(value.data(), value.size());
    ++found;
  }
  *count = found;
  return true;
}

}  // namespace example_wire
}  // namespace tandem
