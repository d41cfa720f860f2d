#include "kernels/array/elements.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/algorithm/container.h"

namespace tandem::array {
namespace {

// Large enough for a thread to be worth it, small enough to stay in a core's cache.
constexpr int64_t kBlock = 16384;

template <typename Body>
void ForBlocks(ParallelRunner& parallel, DataType dtype, int64_t count, Body body) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  const double cost = kNanosecondsPerByte * static_cast<double>(kBlock * DataTypeSize(dtype));
  parallel.For(blocks, cost, [&](int64_t begin, int64_t end) {
    body(begin * kBlock, std::min(end * kBlock, count));
  });
}

}  // namespace

void CopyElements(DataType dtype, void* to, const void* from, int64_t count) {
  if (count <= 0) return;
  if (IsTriviallyCopyable(dtype)) {
    std::memcpy(to, from, static_cast<size_t>(count) * DataTypeSize(dtype));
    return;
  }
  WithElementType(dtype, [&](auto type) {
    using T = decltype(type);
    std::copy_n(static_cast<const T*>(from), count, static_cast<T*>(to));
  });
}

void FillElements(DataType dtype, void* to, const void* value, int64_t count) {
  WithElementType(dtype, [&](auto type) {
    using T = decltype(type);
    const T& element = *static_cast<const T*>(value);
    std::fill_n(static_cast<T*>(to), std::max<int64_t>(count, 0), element);
  });
}

void ZeroElements(DataType dtype, void* to, int64_t count) {
  if (count <= 0) return;
  if (IsTriviallyCopyable(dtype)) {
    std::memset(to, 0, static_cast<size_t>(count) * DataTypeSize(dtype));
    return;
  }
  WithElementType(dtype, [&](auto type) {
    using T = decltype(type);
    std::fill_n(static_cast<T*>(to), count, T());
  });
}

void FillElements(ParallelRunner& parallel, DataType dtype, void* to, const void* value,
                  int64_t count) {
  ForBlocks(parallel, dtype, count, [&](int64_t begin, int64_t end) {
    FillElements(dtype, ElementAt(dtype, to, begin), value, end - begin);
  });
}

void ZeroElements(ParallelRunner& parallel, DataType dtype, void* to, int64_t count) {
  ForBlocks(parallel, dtype, count, [&](int64_t begin, int64_t end) {
    ZeroElements(dtype, ElementAt(dtype, to, begin), end - begin);
  });
}

absl::optional<Tensor> AlignedView(const Tensor& tensor, int64_t begin, const Shape& shape) {
  const auto address = reinterpret_cast<uintptr_t>(ElementAt(tensor.dtype(), tensor.data(), begin));
  if (IsTriviallyCopyable(tensor.dtype()) && address % kBufferAlignment != 0) {
    return absl::nullopt;
  }
  absl::StatusOr<Tensor> flat = tensor.Reshaped(Shape({tensor.num_elements()}));
  if (!flat.ok()) return absl::nullopt;
  absl::StatusOr<Tensor> view = flat->Slice(begin, begin + shape.num_elements()).Reshaped(shape);
  if (!view.ok()) return absl::nullopt;
  return *std::move(view);
}

std::vector<DataType> AllTypes() {
  return {kFloat32,    kFloat64,   kInt32,    kUint8,   kInt16,    kInt8,
          kString,     kComplex64, kInt64,    kBool,    kBfloat16, kUint16,
          kComplex128, kFloat16,   kResource, kVariant, kUint32,   kUint64};
}

std::vector<DataType> AllTypesBut(std::initializer_list<DataType> excluded) {
  std::vector<DataType> types;
  for (const DataType type : AllTypes()) {
    if (!absl::c_linear_search(excluded, type)) types.push_back(type);
  }
  return types;
}

std::vector<DataType> NumberTypes() { return AllTypesBut({kString, kBool, kResource, kVariant}); }

KernelDef ForTypes(std::string type_attr, std::vector<DataType> types, KernelDef kernel) {
  kernel.types.emplace_back(std::move(type_attr), std::move(types));
  return kernel;
}

}  // namespace tandem::array
