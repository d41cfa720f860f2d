#include "kernels/common/broadcast.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/status.h"

namespace tandem {
namespace {

// Bytes of a block of a broadcast input. Three of them leave room in a first-level cache of 32 KiB.
constexpr int64_t kBlockBytes = 4096;
// Innermost dimensions shorter than this are gathered several rows at a time.
constexpr int64_t kLongRow = 256;

template <typename T>
void FillWith(const char* value, char* to, int64_t n) {
  T element;
  std::memcpy(&element, value, sizeof(T));
  T* const out = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = element;
}

struct Wide {
  uint64_t parts[2];
};

void Fill(const char* value, size_t size, char* to, int64_t n) {
  switch (size) {
    case 1:
      std::memset(to, *value, static_cast<size_t>(n));
      break;
    case 2:
      FillWith<uint16_t>(value, to, n);
      break;
    case 4:
      FillWith<uint32_t>(value, to, n);
      break;
    case 8:
      FillWith<uint64_t>(value, to, n);
      break;
    default:
      FillWith<Wide>(value, to, n);
  }
}

}  // namespace

// A buffer, and what it holds when that serves other places too.
struct BroadcastPlan::Gathered {
  alignas(64) char bytes[kBlockBytes];
  const char* repeated = nullptr;  // This value ...
  bool periodic = false;  // Or whole rows, from the beginning of one, that are all equal ...
  int64_t count = 0;      // ... in so many elements.
};

absl::StatusOr<BroadcastPlan> BroadcastPlan::Make(std::initializer_list<const Shape*> inputs) {
  BroadcastPlan plan;
  plan.num_inputs_ = static_cast<int>(inputs.size());
  const Shape& first = **inputs.begin();
  const bool equal = std::all_of(inputs.begin(), inputs.end(),
                                 [&](const Shape* shape) { return *shape == first; });
  if (equal) {
    plan.output_shape_ = first;
    plan.sizes_.push_back(first.num_elements());
    for (int i = 0; i < plan.num_inputs_; ++i) {
      plan.full_[static_cast<size_t>(i)] = true;
      plan.strides_[static_cast<size_t>(i)].push_back(1);
    }
    return plan;
  }

  int rank = 0;
  for (const Shape* shape : inputs) rank = std::max(rank, shape->rank());
  // Aligned at the end; missing dimensions have size 1.
  const auto size_of = [rank](const Shape& shape, int d) {
    const int own = d - (rank - shape.rank());
    return own < 0 ? int64_t{1} : shape.dim(own);
  };
  Shape::Dims dims(static_cast<size_t>(rank), 1);
  for (int d = 0; d < rank; ++d) {
    int64_t& size = dims[static_cast<size_t>(d)];
    for (const Shape* shape : inputs) {
      const int64_t own = size_of(*shape, d);
      if (own == size || own == 1) continue;
      if (size != 1) {
        std::string shapes;
        for (const Shape* each : inputs) {
          absl::StrAppend(&shapes, shapes.empty() ? "" : " and ", each->DebugString());
        }
        return errors::InvalidArgument("shapes ", shapes, " do not broadcast: sizes ", size,
                                       " and ", own, " differ and neither is 1");
      }
      size = own;
    }
  }
  TANDEM_ASSIGN_OR_RETURN(plan.output_shape_, Shape::FromDims(dims));

  // From the innermost dimension outwards, with the stride each input would have.
  std::array<int64_t, kMaxInputs> next{};
  next.fill(1);
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t size = dims[static_cast<size_t>(d)];
    if (size == 1) continue;
    std::array<int64_t, kMaxInputs> stride{};
    bool joins = !plan.sizes_.empty();
    size_t i = 0;
    for (const Shape* shape : inputs) {
      const int64_t own = size_of(*shape, d);
      stride[i] = own == 1 ? 0 : next[i];
      next[i] *= own;
      // One dimension with the one inside it when stepping over the latter's end is one step here.
      joins = joins && stride[i] == plan.strides_[i].back() * plan.sizes_.back();
      ++i;
    }
    if (joins) {
      plan.sizes_.back() *= size;
      continue;
    }
    plan.sizes_.push_back(size);
    for (i = 0; i < inputs.size(); ++i) plan.strides_[i].push_back(stride[i]);
  }
  if (plan.sizes_.empty()) {
    plan.sizes_.push_back(1);
    for (size_t i = 0; i < inputs.size(); ++i) plan.strides_[i].push_back(1);
  }
  std::reverse(plan.sizes_.begin(), plan.sizes_.end());
  size_t i = 0;
  for (const Shape* shape : inputs) {
    std::reverse(plan.strides_[i].begin(), plan.strides_[i].end());
    plan.full_[i] = shape->num_elements() == plan.num_elements();
    plan.periodic_[i] = std::all_of(plan.strides_[i].begin(), plan.strides_[i].end() - 1,
                                    [](int64_t stride) { return stride == 0; });
    ++i;
  }
  return plan;
}

int64_t BroadcastPlan::InputIndex(int i, int64_t index) const {
  const auto& strides = strides_[static_cast<size_t>(i)];
  int64_t result = 0;
  for (size_t d = sizes_.size(); d-- > 0;) {
    result += index % sizes_[d] * strides[d];
    index /= sizes_[d];
  }
  return result;
}

// The elements of an input for [first, first + n) of the output, one after the other: where they
// lie already, or in the buffer.
const char* BroadcastPlan::Gather(int input, const char* data, size_t size, int64_t first,
                                  int64_t n, Gathered* to) const {
  if (IsFull(input)) return data + static_cast<size_t>(first) * size;
  const auto& strides = strides_[static_cast<size_t>(input)];
  const size_t last = sizes_.size() - 1;
  absl::InlinedVector<int64_t, 4> place(sizes_.size());
  int64_t offset = 0;
  for (size_t d = sizes_.size(); d-- > 0;) {
    place[d] = first % sizes_[d];
    first /= sizes_[d];
    offset += place[d] * strides[d];
  }
  const bool repeats = strides[last] == 0;
  if (n <= sizes_[last] - place[last]) {
    const char* const from = data + static_cast<size_t>(offset) * size;
    if (!repeats) return from;
    if (to->repeated != from || to->count < n) {
      Fill(from, size, to->bytes, n);
      to->repeated = from;
      to->periodic = false;
      to->count = n;
    }
    return to->bytes;
  }
  const bool whole_rows = periodic_[static_cast<size_t>(input)] && place[last] == 0;
  if (whole_rows && to->periodic && n <= to->count) return to->bytes;
  to->repeated = nullptr;
  to->periodic = whole_rows;
  to->count = n;
  for (int64_t done = 0; done < n;) {
    const int64_t run = std::min(n - done, sizes_[last] - place[last]);
    const char* const from = data + static_cast<size_t>(offset) * size;
    char* const target = to->bytes + static_cast<size_t>(done) * size;
    if (repeats) {
      Fill(from, size, target, run);
    } else {
      std::memcpy(target, from, static_cast<size_t>(run) * size);
    }
    done += run;
    // To the first element of the next row.
    offset -= place[last] * strides[last];
    place[last] = 0;
    for (size_t d = last; d-- > 0;) {
      offset += strides[d];
      if (++place[d] < sizes_[d]) break;
      offset -= sizes_[d] * strides[d];
      place[d] = 0;
    }
  }
  return to->bytes;
}

void BroadcastPlan::ForEachBlock(std::initializer_list<const void*> inputs,
                                 std::initializer_list<size_t> element_sizes, int64_t begin,
                                 int64_t end, Block block) const {
  const void* pointers[kMaxInputs] = {};
  bool all_full = true;
  for (int i = 0; i < num_inputs_; ++i) all_full = all_full && IsFull(i);
  if (all_full) {
    if (begin >= end) return;
    for (int i = 0; i < num_inputs_; ++i) {
      pointers[i] = static_cast<const char*>(inputs.begin()[i]) +
                    static_cast<size_t>(begin) * element_sizes.begin()[i];
    }
    block(pointers, begin, end - begin);
    return;
  }

  Gathered gathered[kMaxInputs];
  const int64_t row = sizes_.back();
  // Whole rows without copies, when no input stays in place along them.
  bool repeats = false;
  for (int i = 0; i < num_inputs_; ++i) {
    repeats = repeats || (!IsFull(i) && strides_[static_cast<size_t>(i)].back() == 0);
  }
  const int64_t block_size = kBlockBytes / static_cast<int64_t>(*std::max_element(
                                               element_sizes.begin(), element_sizes.end()));
  const bool long_rows = row >= kLongRow;
  for (int64_t first = begin; first < end;) {
    int64_t n = end - first;
    if (long_rows) {
      n = std::min(n, row - first % row);
      if (repeats) n = std::min(n, block_size);
    } else {
      // To the end of a row, so that the next block begins with one.
      n = std::min(n, std::max<int64_t>(block_size / row * row, row) - first % row);
      n = std::min(n, block_size);
    }
    for (int i = 0; i < num_inputs_; ++i) {
      pointers[i] = Gather(i, static_cast<const char*>(inputs.begin()[i]), element_sizes.begin()[i],
                           first, n, &gathered[i]);
    }
    block(pointers, first, n);
    first += n;
  }
}

}  // namespace tandem
