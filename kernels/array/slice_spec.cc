#include "kernels/array/slice_spec.h"

#include <algorithm>

#include "core/base/status.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

bool HasBit(int64_t mask, int i) { return i >= 0 && ((mask >> i) & 1) != 0; }

// First element, step and size of one dimension.
struct Range {
  int64_t begin = 0;
  int64_t stride = 1;
  int64_t size = kUnknown;
};

// The number of steps from begin towards end, not reaching it.
int64_t CountSteps(int64_t begin, int64_t end, int64_t stride) {
  const int64_t length = end - begin;
  if (length == 0 || (length < 0) != (stride < 0)) return 0;
  return length / stride + (length % stride != 0 ? 1 : 0);
}

absl::StatusOr<Range> ResolveRange(int dim, int64_t size, int entry, const Ints* begin,
                                   const Ints* end, const Ints* strides, const SliceMasks& masks) {
  const size_t i = static_cast<size_t>(entry);
  Range range;
  if (strides == nullptr) {
    if (HasBit(masks.shrink, entry)) range.size = 1;
    return range;
  }
  range.stride = (*strides)[i];
  if (range.stride == 0) return errors::InvalidArgument("strides[", i, "] is 0");
  if (HasBit(masks.shrink, entry)) {
    if (range.stride < 0) {
      return errors::InvalidArgument("strides[", i, "] is ", range.stride,
                                     " where a single element is taken; 1 is wanted");
    }
    range.stride = 1;
    range.size = 1;
    if (begin == nullptr || size == kUnknown) return range;
    range.begin = (*begin)[i] < 0 ? (*begin)[i] + size : (*begin)[i];
    if (range.begin < 0 || range.begin >= size) {
      return errors::InvalidArgument("index ", (*begin)[i], " is out of bounds for dimension ", dim,
                                     " of size ", size);
    }
    return range;
  }
  if (size == kUnknown) return range;
  const bool backwards = range.stride < 0;
  // Where a walk may begin and end: [0, size] forwards, [-1, size - 1] backwards.
  const int64_t lowest = backwards ? -1 : 0;
  const int64_t highest = backwards ? size - 1 : size;
  const auto resolve = [&](const Ints* values, int64_t mask, bool is_end, int64_t* result) -> bool {
    if (HasBit(mask, entry)) {
      *result = backwards == is_end ? lowest : highest;
      return true;
    }
    if (values == nullptr) return false;
    const int64_t value = (*values)[i];
    *result = std::clamp(value < 0 ? value + size : value, lowest, highest);
    return true;
  };
  int64_t last = 0;
  const bool begin_known = resolve(begin, masks.begin, false, &range.begin);
  const bool end_known = resolve(end, masks.end, true, &last);
  if (begin_known && end_known) range.size = CountSteps(range.begin, last, range.stride);
  // A stride of any size is allowed where no step is taken; nobody shall multiply by it.
  if (range.size == 0 || range.size == 1) range.stride = 1;
  return range;
}

}  // namespace

absl::StatusOr<SliceSpec> ResolveSlice(const PartialShape& input, int64_t entries,
                                       const Ints* begin, const Ints* end, const Ints* strides,
                                       const SliceMasks& masks) {
  // A mask has 64 bits, one of them a sign.
  constexpr int64_t kMaxEntries = 62;
  if (entries > kMaxEntries) {
    return errors::InvalidArgument("begin, end and strides have ", entries, " entries; at most ",
                                   kMaxEntries, " are possible");
  }
  const int count = static_cast<int>(entries);
  const int rank = input.rank();
  int ellipsis = count;  // Without one it stands behind all entries.
  int indices = 0;       // Entries that use up a dimension.
  for (int i = 0; i < count; ++i) {
    if (HasBit(masks.ellipsis, i)) {
      if (ellipsis != count) {
        return errors::InvalidArgument("entries ", ellipsis, " and ", i,
                                       " are both an ellipsis; there may be one");
      }
      ellipsis = i;
    } else if (!HasBit(masks.new_axis, i)) {
      ++indices;
    }
  }
  if (indices > rank) {
    return errors::InvalidArgument("there are ", indices, " indices for a tensor of shape ",
                                   input.DebugString(), ", which has ", rank, " dimensions");
  }

  SliceSpec spec;
  spec.size = PartialShape({});
  spec.output = PartialShape({});
  int dim = 0;
  for (int i = 0; i <= count; ++i) {
    if (i == ellipsis) {
      for (int left = rank - indices; left > 0; --left, ++dim) {
        spec.begin.push_back(0);
        spec.stride.push_back(1);
        spec.size.AddDim(input.dim(dim));
        spec.output.AddDim(input.dim(dim));
      }
      continue;
    }
    if (i == count) break;
    if (HasBit(masks.new_axis, i)) {
      spec.output.AddDim(1);
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const Range range,
                            ResolveRange(dim, input.dim(dim), i, begin, end, strides, masks));
    spec.begin.push_back(range.begin);
    spec.stride.push_back(range.stride);
    spec.size.AddDim(range.size);
    if (!HasBit(masks.shrink, i)) spec.output.AddDim(range.size);
    ++dim;
  }
  return spec;
}

}  // namespace tandem::array
