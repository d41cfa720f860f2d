// Elements of any type, moved by their size: what copies does not care what the bits mean.
#ifndef TANDEM_KERNELS_ARRAY_ELEMENTS_H_
#define TANDEM_KERNELS_ARRAY_ELEMENTS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel/factories.h"
#include "core/kernel/parallel.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace tandem::array {

// About how long a core takes to move a byte from memory to memory.
inline constexpr double kNanosecondsPerByte = 0.1;

// Sixteen bytes, the largest element.
struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

// Calls `function` with a value of the type as which elements of `dtype` are moved: an unsigned
// integer or Bytes16 of the same size, or the type itself where elements own memory. The branches
// that are not taken are compiled too: keep them short.
template <typename F>
auto WithElementType(DataType dtype, F&& function) {
  switch (dtype) {
    case kString:
      return function(std::string());
    case kResource:
      return function(ResourceHandle());
    case kVariant:
      return function(Variant());
    default:
      break;
  }
  switch (DataTypeSize(dtype)) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    case 8:
      return function(uint64_t{});
    default:
      return function(Bytes16{});
  }
}

// Copies `count` elements that lie one after the other. The ranges may not overlap. Runs inline.
void CopyElements(DataType dtype, void* to, const void* from, int64_t count);
// Sets `count` elements to `*value`.
void FillElements(DataType dtype, void* to, const void* value, int64_t count);
// Sets `count` elements to zero, false, "" or nothing.
void ZeroElements(DataType dtype, void* to, int64_t count);
// The same two, on several threads when that is worth it.
void FillElements(ParallelRunner& parallel, DataType dtype, void* to, const void* value,
                  int64_t count);
void ZeroElements(ParallelRunner& parallel, DataType dtype, void* to, int64_t count);

// The element `index` after `base`.
inline char* ElementAt(DataType dtype, void* base, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(DataTypeSize(dtype));
}
inline const char* ElementAt(DataType dtype, const void* base, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(DataTypeSize(dtype));
}

// Elements [begin, begin + shape.num_elements()) of `tensor`, under `shape`, in the same memory; or
// nothing when they would begin off the alignment that kernels are quickest with.
// REQUIRES: the elements exist.
absl::optional<Tensor> AlignedView(const Tensor& tensor, int64_t begin, const Shape& shape);

// All types that tensors can have, and those without some.
std::vector<DataType> AllTypes();
std::vector<DataType> AllTypesBut(std::initializer_list<DataType> excluded);
// Those one can add: integers, floats and complex ones.
std::vector<DataType> NumberTypes();

// `kernel`, for the given types of a type attribute only.
KernelDef ForTypes(std::string type_attr, std::vector<DataType> types, KernelDef kernel);

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_ELEMENTS_H_
