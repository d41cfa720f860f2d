#include "kernels/array/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/array/elements.h"

namespace tandem::array {
namespace {

// A unit of parallel work is about as large as this.
constexpr int64_t kUnitBytes = 1 << 15;

// Strides are in bytes from here on, so that several elements can be moved as a larger one.
void ToBytes(LoopDims& dims, int64_t element_size) {
  for (LoopDim& dim : dims) {
    dim.to_stride *= element_size;
    dim.from_stride *= element_size;
  }
}

// Drops dimensions of size 1, orders by the target's strides and joins what lies one in the other.
void Normalize(LoopDims& dims) {
  dims.erase(std::remove_if(dims.begin(), dims.end(), [](const LoopDim& d) { return d.size == 1; }),
             dims.end());
  // An insertion sort: there are few, mostly in order, and std::stable_sort would allocate.
  for (size_t i = 1; i < dims.size(); ++i) {
    for (size_t j = i; j > 0 && std::abs(dims[j - 1].to_stride) < std::abs(dims[j].to_stride);
         --j) {
      std::swap(dims[j - 1], dims[j]);
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const LoopDim inner = dims[i];
    if (kept > 0 && dims[kept - 1].to_stride == inner.size * inner.to_stride &&
        dims[kept - 1].from_stride == inner.size * inner.from_stride) {
      dims[kept - 1] = {dims[kept - 1].size * inner.size, inner.to_stride, inner.from_stride};
    } else {
      dims[kept++] = inner;
    }
  }
  dims.resize(kept);
}

// Calls body(to offset, from offset, begin, end) for pieces of the innermost dimension, of `size`
// units, below each position of the outer dimensions.
template <typename Body>
void ForPieces(ParallelRunner& parallel, absl::Span<const LoopDim> outer, int64_t size,
               int64_t bytes_per_unit, int64_t piece, Body body) {
  int64_t positions = 1;
  for (const LoopDim& dim : outer) positions *= dim.size;
  const int64_t pieces = (size + piece - 1) / piece;
  const double cost = kNanosecondsPerByte * static_cast<double>(std::min(piece, size)) *
                          static_cast<double>(bytes_per_unit) +
                      2;
  parallel.For(positions * pieces, cost, [&](int64_t begin, int64_t end) {
    Odometer odometer(outer, begin / pieces);
    int64_t part = begin % pieces;
    for (int64_t unit = begin; unit < end; ++unit) {
      body(odometer.to(), odometer.from(), part * piece, std::min((part + 1) * piece, size));
      if (++part == pieces) {
        part = 0;
        odometer.Next();
      }
    }
  });
}

// Loads and stores of bytes at any address; the compiler makes single instructions of them.
template <typename T>
T Load(const char* from) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  } else {
    return *reinterpret_cast<const T*>(from);
  }
}
template <typename T>
void Move(char* to, const char* from) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    std::memcpy(to, from, sizeof(T));
  } else {
    *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
  }
}
template <typename T>
void Store(char* to, const T& value) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    std::memcpy(to, &value, sizeof(T));
  } else {
    *reinterpret_cast<T*>(to) = value;
  }
}

template <typename T>
void CopyRow(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  constexpr int64_t kSize = sizeof(T);
  if (from_stride == 0) {
    const T value = Load<T>(from);
    if (to_stride == kSize) {
      for (int64_t i = 0; i < count; ++i) Store<T>(to + i * kSize, value);
    } else {
      for (int64_t i = 0; i < count; ++i) Store<T>(to + i * to_stride, value);
    }
  } else if (to_stride == kSize && from_stride == -kSize) {
    for (int64_t i = 0; i < count; ++i) Move<T>(to + i * kSize, from - i * kSize);
  } else if (to_stride == kSize && from_stride == 2 * kSize) {
    for (int64_t i = 0; i < count; ++i) Move<T>(to + i * kSize, from + 2 * i * kSize);
  } else {
    for (int64_t i = 0; i < count; ++i) Move<T>(to + i * to_stride, from + i * from_stride);
  }
}

// Eight by eight elements, the unit of a transposition. Elements of one and two bytes: three
// rounds, in each of which rows i and i + 4 are interleaved. Of four bytes: three rounds that
// exchange ever larger parts of neighbouring rows, which suits registers made of two halves.
template <typename T>
void Transpose8x8(char* to, int64_t to_stride, const char* from, int64_t from_stride) {
  typedef T Eight __attribute__((vector_size(8 * sizeof(T))));
  Eight r[8];
  Eight s[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_stride, sizeof(Eight));
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < 8; i += 2) {
      s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 1] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      r[i + 2] = __builtin_shufflevector(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 3] = __builtin_shufflevector(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; ++i) {
      s[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      s[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  } else {
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 4; ++i) {
        s[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      }
      std::memcpy(r, s, sizeof(r));
    }
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &s[i], sizeof(Eight));
}

// to[r][c] = from[c][r], where a source row begins every `from_stride` bytes and a target row every
// `to_stride`.
template <typename T>
void TransposeBlock(char* to, int64_t to_stride, const char* from, int64_t from_stride,
                    int64_t rows, int64_t columns) {
  constexpr int64_t kSize = sizeof(T);
  int64_t whole_rows = 0;
  if constexpr (kSize <= 4) {
    whole_rows = rows / 8 * 8;
    for (int64_t row = 0; row < whole_rows; row += 8) {
      int64_t column = 0;
      for (; column + 8 <= columns; column += 8) {
        Transpose8x8<T>(to + row * to_stride + column * kSize, to_stride,
                        from + column * from_stride + row * kSize, from_stride);
      }
      for (; column < columns; ++column) {
        for (int64_t i = row; i < row + 8; ++i) {
          Move<T>(to + i * to_stride + column * kSize, from + column * from_stride + i * kSize);
        }
      }
    }
  }
  for (int64_t row = whole_rows; row < rows; ++row) {
    char* const target = to + row * to_stride;
    const char* const source = from + row * kSize;
    for (int64_t i = 0; i < columns; ++i) Move<T>(target + i * kSize, source + i * from_stride);
  }
}

// Rows of a tile: what is read of each source row is whole cache lines.
template <typename T>
constexpr int64_t kTileRows = std::max<int64_t>(32, 128 / static_cast<int64_t>(sizeof(T)));

// The same for any number of columns, a tile at a time. (A buffer between source and target, so
// that each line is used in one go, was tried for rows that lie a power of two apart: it was
// slower.)
template <typename T>
void TransposeRows(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t rows,
                   int64_t columns) {
  constexpr int64_t kSize = sizeof(T);
  constexpr int64_t kColumns = std::max<int64_t>(8, 32 / kSize);
  int64_t column = 0;
  for (; column + kColumns <= columns; column += kColumns) {
    TransposeBlock<T>(to + column * kSize, to_stride, from + column * from_stride, from_stride,
                      rows, kColumns);
  }
  if (column < columns) {
    TransposeBlock<T>(to + column * kSize, to_stride, from + column * from_stride, from_stride,
                      rows, columns - column);
  }
}

// Where two dimensions change places: `dims` without both is the outer loop.
template <typename T>
void CopyTransposed(ParallelRunner& parallel, char* to, const char* from, LoopDims dims,
                    size_t row) {
  const LoopDim rows = dims[row];
  const LoopDim columns = dims.back();
  dims.pop_back();
  dims.erase(dims.begin() + static_cast<int64_t>(row));
  // Rows of a target that is narrow are taken many at a time, so that a unit is worth its overhead.
  constexpr int64_t kRows = kTileRows<T>;
  const int64_t tile_bytes = kRows * columns.size * static_cast<int64_t>(sizeof(T));
  const int64_t piece = kRows * std::max<int64_t>(1, kUnitBytes / tile_bytes);
  ForPieces(parallel, dims, rows.size, columns.size * static_cast<int64_t>(sizeof(T)) * 2, piece,
            [&](int64_t to_offset, int64_t from_offset, int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; r += kRows) {
                TransposeRows<T>(to + to_offset + r * rows.to_stride, rows.to_stride,
                                 from + from_offset + r * rows.from_stride, columns.from_stride,
                                 std::min(kRows, end - r), columns.size);
              }
            });
}

template <typename T>
void CopyByElement(ParallelRunner& parallel, char* to, const char* from, LoopDims dims) {
  constexpr int64_t kSize = sizeof(T);
  if (dims.empty()) {
    Move<T>(to, from);
    return;
  }
  if constexpr (std::is_trivially_copyable_v<T>) {
    // The target's innermost dimension strides through the source, and another one does not.
    const LoopDim& last = dims.back();
    if (last.to_stride == kSize && last.from_stride > kSize) {
      for (size_t i = 0; i + 1 < dims.size(); ++i) {
        if (dims[i].from_stride == kSize && dims[i].size > 1) {
          CopyTransposed<T>(parallel, to, from, std::move(dims), i);
          return;
        }
      }
    }
  }
  const LoopDim inner = dims.back();
  dims.pop_back();
  ForPieces(parallel, dims, inner.size, kSize, std::max<int64_t>(1, kUnitBytes / kSize),
            [&](int64_t to_offset, int64_t from_offset, int64_t begin, int64_t end) {
              CopyRow<T>(to + to_offset + begin * inner.to_stride, inner.to_stride,
                         from + from_offset + begin * inner.from_stride, inner.from_stride,
                         end - begin);
            });
}

void CopyByRuns(ParallelRunner& parallel, char* to, const char* from, const LoopDims& dims,
                int64_t run_bytes) {
  // Whole where one thread does it anyway: memcpy has its own way with what exceeds the caches.
  const int64_t piece = parallel.parallelism() == 1 ? run_bytes : 8 * kUnitBytes;
  ForPieces(parallel, dims, run_bytes, 1, piece,
            [&](int64_t to_offset, int64_t from_offset, int64_t begin, int64_t end) {
              std::memcpy(to + to_offset + begin, from + from_offset + begin,
                          static_cast<size_t>(end - begin));
            });
}

}  // namespace

void CopyStrided(ParallelRunner& parallel, DataType dtype, void* to, const void* from,
                 LoopDims dims) {
  for (const LoopDim& dim : dims) {
    if (dim.size <= 0) return;
  }
  int64_t element_size = static_cast<int64_t>(DataTypeSize(dtype));
  ToBytes(dims, element_size);
  Normalize(dims);
  char* const target = static_cast<char*>(to);
  const char* const source = static_cast<const char*>(from);
  if (!IsTriviallyCopyable(dtype)) {
    WithElementType(dtype, [&](auto type) {
      CopyByElement<decltype(type)>(parallel, target, source, std::move(dims));
    });
    return;
  }
  // What lies together in both is one larger element.
  if (!dims.empty() && dims.back().to_stride == element_size &&
      dims.back().from_stride == element_size) {
    element_size *= dims.back().size;
    dims.pop_back();
  }
  switch (element_size) {
    case 1:
      return CopyByElement<uint8_t>(parallel, target, source, std::move(dims));
    case 2:
      return CopyByElement<uint16_t>(parallel, target, source, std::move(dims));
    case 4:
      return CopyByElement<uint32_t>(parallel, target, source, std::move(dims));
    case 8:
      return CopyByElement<uint64_t>(parallel, target, source, std::move(dims));
    case 16:
      return CopyByElement<Bytes16>(parallel, target, source, std::move(dims));
    default:
      return CopyByRuns(parallel, target, source, dims, element_size);
  }
}

absl::InlinedVector<int64_t, 6> Strides(absl::Span<const int64_t> dims) {
  absl::InlinedVector<int64_t, 6> strides(dims.size());
  // Unsigned, because beside a size of 0 the others may have a product that does not fit.
  uint64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(dims[i]);
  }
  return strides;
}

}  // namespace tandem::array
