#include "kernels/array/rows.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

template <typename T>
void Read(const Tensor& indices, int64_t begin, int64_t end, int64_t* values) {
  const T* const from = indices.Elements<T>().data();
  for (int64_t i = begin; i < end; ++i) values[i - begin] = from[i];
}

// Rows of one element that the processor can move at once. Their memory may lie at any address.
template <typename T>
void GatherElements(char* to, const char* from, const int64_t* rows, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value{};
    if (rows[i] >= 0) std::memcpy(&value, from + rows[i] * int64_t{sizeof(T)}, sizeof(T));
    std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof(T));
  }
}

void GatherBytes(char* to, const char* from, int64_t bytes, const int64_t* rows, int64_t count) {
  // Rows of a large table come from anywhere in memory: the first lines of one that is needed soon
  // are asked for early.
  constexpr int64_t kAhead = 8;
  constexpr int64_t kLine = 64;
  constexpr int64_t kMaxLines = 8;
  const int64_t lines = std::min((bytes + kLine - 1) / kLine, kMaxLines);
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count && rows[i + kAhead] >= 0) {
      const char* const next = from + rows[i + kAhead] * bytes;
      for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(next + line * kLine);
    }
    if (rows[i] >= 0) {
      std::memcpy(to + i * bytes, from + rows[i] * bytes, static_cast<size_t>(bytes));
    } else {
      std::memset(to + i * bytes, 0, static_cast<size_t>(bytes));
    }
  }
}

}  // namespace

void ReadIndices(const Tensor& indices, int64_t begin, int64_t end, int64_t* values) {
  switch (indices.dtype()) {
    case kInt16:
      return Read<int16_t>(indices, begin, end, values);
    case kInt32:
      return Read<int32_t>(indices, begin, end, values);
    default:
      return Read<int64_t>(indices, begin, end, values);
  }
}

int64_t FindOutOfRange(const Tensor& indices, int64_t limit) {
  int64_t block[kIndexBlock];
  const int64_t count = indices.num_elements();
  for (int64_t begin = 0; begin < count; begin += kIndexBlock) {
    const int64_t end = std::min(begin + kIndexBlock, count);
    ReadIndices(indices, begin, end, block);
    bool bad = false;
    for (int64_t i = 0; i < end - begin; ++i) bad |= (block[i] < 0) | (block[i] >= limit);
    if (!bad) continue;
    for (int64_t i = 0; i < end - begin; ++i) {
      if (block[i] < 0 || block[i] >= limit) return begin + i;
    }
  }
  return -1;
}

void GatherRows(DataType dtype, void* to, const void* from, int64_t row, const int64_t* rows,
                int64_t count) {
  char* const target = static_cast<char*>(to);
  const char* const source = static_cast<const char*>(from);
  if (!IsTriviallyCopyable(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i] >= 0) {
        CopyElements(dtype, ElementAt(dtype, to, i * row), ElementAt(dtype, from, rows[i] * row),
                     row);
      } else {
        ZeroElements(dtype, ElementAt(dtype, to, i * row), row);
      }
    }
    return;
  }
  const int64_t bytes = row * static_cast<int64_t>(DataTypeSize(dtype));
  switch (bytes) {
    case 0:
      return;
    case 1:
      return GatherElements<uint8_t>(target, source, rows, count);
    case 2:
      return GatherElements<uint16_t>(target, source, rows, count);
    case 4:
      return GatherElements<uint32_t>(target, source, rows, count);
    case 8:
      return GatherElements<uint64_t>(target, source, rows, count);
    case 16:
      return GatherElements<Bytes16>(target, source, rows, count);
    default:
      return GatherBytes(target, source, bytes, rows, count);
  }
}

}  // namespace tandem::array
