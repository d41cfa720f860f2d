// The arithmetic of reductions: one pass over all inputs, a block at a time, so that partial sums
// stay in the first-level cache.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "runtime/collective/elementwise.h"
#include "runtime/collective/in_process.h"
#include "runtime/threads/inner_loop.h"

namespace tandem {
namespace {

// Elements that a leaf of the tree is cut into. A multiple of every vector width, small enough that
// a path of the tree (at most 8 levels for 256 members) stays in the cache.
constexpr int64_t kBlock = 512;

using elementwise::Apply;
using elementwise::DividedBy;
using elementwise::Max;
using elementwise::Min;
using elementwise::Product;
using elementwise::Sum;

// Reduces elements [begin, end) of the parts [first, last) into `out`.
template <typename T, typename Op>
void ReduceBlock(Op op, const std::vector<const Tensor*>& parts, size_t first, size_t last,
                 int64_t begin, int64_t end, T* out) {
  const size_t n = last - first;
  const T* a = static_cast<const T*>(parts[first]->data()) + begin;
  const int64_t length = end - begin;
  if (n == 1) {
    std::copy(a, a + length, out);
    return;
  }
  if (n == 2) {
    const T* b = static_cast<const T*>(parts[first + 1]->data()) + begin;
    for (int64_t i = 0; i < length; ++i) out[i] = Apply(op, a[i], b[i]);
    return;
  }
  size_t half = 1;
  while (half * 2 < n) half *= 2;
  T right[kBlock];
  ReduceBlock(op, parts, first, first + half, begin, end, out);
  ReduceBlock(op, parts, first + half, last, begin, end, right);
  for (int64_t i = 0; i < length; ++i) out[i] = Apply(op, out[i], right[i]);
}

template <typename T, typename Op>
void ReduceAll(Op op, bool mean, const std::vector<const Tensor*>& parts, T* out) {
  const int64_t total = parts[0]->num_elements();
  const int64_t blocks = (total + kBlock - 1) / kBlock;
  const double nanoseconds = 0.1 * kBlock * static_cast<double>(parts.size());
  InnerLoopRunner()->For(blocks, nanoseconds, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kBlock;
      const int64_t end = std::min(total, begin + kBlock);
      ReduceBlock(op, parts, 0, parts.size(), begin, end, out + begin);
      if (!mean) continue;
      for (int64_t i = begin; i < end; ++i) out[i] = DividedBy(out[i], parts.size());
    }
  });
}

template <typename T>
void ReduceTyped(Reduction reduction, const std::vector<const Tensor*>& parts, Tensor& out) {
  T* data = out.MutableElements<T>().data();
  switch (reduction) {
    case Reduction::kSum:
      return ReduceAll(Sum(), false, parts, data);
    case Reduction::kMean:
      return ReduceAll(Sum(), true, parts, data);
    case Reduction::kMin:
      return ReduceAll(Min(), false, parts, data);
    case Reduction::kMax:
      return ReduceAll(Max(), false, parts, data);
    case Reduction::kProduct:
      return ReduceAll(Product(), false, parts, data);
  }
}

}  // namespace

absl::StatusOr<Tensor> ReduceAlongTree(Reduction reduction,
                                       const std::vector<const Tensor*>& values) {
  const DataType dtype = values[0]->dtype();
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(dtype, values[0]->shape()));
  switch (dtype) {
    case kFloat32:
      ReduceTyped<float>(reduction, values, out);
      break;
    case kFloat64:
      ReduceTyped<double>(reduction, values, out);
      break;
    case kFloat16:
      ReduceTyped<Float16>(reduction, values, out);
      break;
    case kBfloat16:
      ReduceTyped<Bfloat16>(reduction, values, out);
      break;
    case kInt32:
      ReduceTyped<int32_t>(reduction, values, out);
      break;
    case kInt64:
      ReduceTyped<int64_t>(reduction, values, out);
      break;
    default:
      return errors::Unimplemented("values of type ", DataTypeName(dtype),
                                   " cannot be reduced over replicas");
  }
  return out;
}

}  // namespace tandem
