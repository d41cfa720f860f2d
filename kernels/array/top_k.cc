// TopKV2: the k greatest elements of each row, in falling order; of equal ones the lower index
// first.
//
// An element becomes an unsigned number that orders as it does (a float's bits, the negative ones
// turned over). Up to 32 bits it goes into one 64-bit number with its index below it, turned over:
// one comparison decides by value, then by index. A NaN counts as greater than all numbers.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// --- Order

// The unsigned number as which a signed or floating one of these bits orders.
template <typename U>
U SignedOrder(U bits) {
  return static_cast<U>(bits ^ (U{1} << (8 * sizeof(U) - 1)));
}
template <typename U>
U FloatOrder(U bits, U infinity) {
  constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
  const U value = static_cast<U>(bits & ~kSign);
  if (value > infinity) return static_cast<U>(~U{0});  // NaN
  if (value == 0) return kSign;                        // +0 and -0 are equal.
  return (bits & kSign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | kSign);
}

enum class Order { kUnsigned, kSigned, kFloat };

struct Type {
  Order order = Order::kUnsigned;
  uint64_t infinity = 0;
};

Type TypeOf(DataType dtype) {
  switch (dtype) {
    case kFloat16:
      return {Order::kFloat, 0x7c00};
    case kBfloat16:
      return {Order::kFloat, 0x7f80};
    case kFloat32:
      return {Order::kFloat, 0x7f800000};
    case kFloat64:
      return {Order::kFloat, 0x7ff0000000000000};
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
      return {Order::kSigned, 0};
    default:
      return {Order::kUnsigned, 0};
  }
}

template <typename U>
U Ordered(U bits, const Type& type) {
  switch (type.order) {
    case Order::kFloat:
      return FloatOrder<U>(bits, static_cast<U>(type.infinity));
    case Order::kSigned:
      return SignedOrder<U>(bits);
    default:
      return bits;
  }
}

// An element and its place. Greater means earlier in the output.
struct WideKey {
  uint64_t value;
  uint32_t turned_index;
  friend bool operator>(const WideKey& a, const WideKey& b) {
    return a.value != b.value ? a.value > b.value : a.turned_index > b.turned_index;
  }
};
uint32_t IndexOf(uint64_t key) { return ~static_cast<uint32_t>(key); }
uint32_t IndexOf(const WideKey& key) { return ~key.turned_index; }
void SetKey(uint64_t value, uint32_t index, uint64_t* key) { *key = value << 32 | ~index; }
void SetKey(uint64_t value, uint32_t index, WideKey* key) { *key = {value, ~index}; }

// The indices of the k greatest of n elements.
template <typename U>
class Selector {
 public:
  using Key = std::conditional_t<sizeof(U) <= 4, uint64_t, WideKey>;

  Selector(int64_t n, int64_t k, const Type& type)
      : keys_(static_cast<size_t>(n)), k_(k), type_(type) {}

  const Key* Select(const U* row) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      U bits;
      std::memcpy(&bits, row + i, sizeof(U));
      SetKey(Ordered(bits, type_), static_cast<uint32_t>(i), &keys_[i]);
    }
    const auto begin = keys_.begin();
    const auto middle = begin + k_;
    const auto greater = [](const Key& a, const Key& b) { return a > b; };
    if (k_ == 1) {
      auto best = begin;
      for (auto key = begin; key != keys_.end(); ++key) {
        if (greater(*key, *best)) best = key;
      }
      std::swap(*begin, *best);
    } else {
      // The heap of partial_sort wins where few are taken of many.
      if (k_ * 16 < static_cast<int64_t>(keys_.size())) {
        std::partial_sort(begin, middle, keys_.end(), greater);
      } else {
        if (middle != keys_.end()) std::nth_element(begin, middle, keys_.end(), greater);
        std::sort(begin, middle, greater);
      }
    }
    return keys_.data();
  }

 private:
  std::vector<Key> keys_;
  const int64_t k_;
  const Type type_;
};

void WriteIndex(Tensor& indices, int64_t at, uint32_t index) {
  const size_t i = static_cast<size_t>(at);
  switch (indices.dtype()) {
    case kInt16:
      indices.MutableElements<int16_t>()[i] = static_cast<int16_t>(index);
      return;
    case kInt32:
      indices.MutableElements<int32_t>()[i] = static_cast<int32_t>(index);
      return;
    default:
      indices.MutableElements<int64_t>()[i] = index;
  }
}

// --- The op

absl::Status CheckK(int64_t k, int64_t columns) {
  if (k < 0) return errors::InvalidArgument("'k' is ", k, "; it may not be negative");
  if (columns != kUnknown && k > columns) {
    return errors::InvalidArgument("'k' is ", k, "; the last dimension of the input has size ",
                                   columns);
  }
  return absl::OkStatus();
}

absl::Status TopKShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  const PartialShape& input = c.input(0);
  const absl::optional<int64_t> k = c.InputAsInt(1);
  PartialShape output;
  if (k.has_value()) {
    TANDEM_RETURN_IF_ERROR(CheckK(*k, input.has_rank() ? input.dim(input.rank() - 1) : kUnknown));
  }
  if (input.has_rank()) {
    output = input;
    output.SetDim(input.rank() - 1, k.value_or(kUnknown));
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, output));
  return c.SetOutput(1, output);
}

int64_t GreatestIndex(DataType type) {
  if (type == kInt16) return std::numeric_limits<int16_t>::max();
  // Keys hold 32 bits of it.
  return type == kInt32 ? int64_t{std::numeric_limits<int32_t>::max()}
                        : int64_t{std::numeric_limits<uint32_t>::max()};
}

absl::Status TopK(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.shape().rank();
  TANDEM_ASSIGN_OR_RETURN(const int64_t k, ScalarArgument(c.input(1), "k"));
  if (rank == 0) {
    return errors::InvalidArgument("the input is a scalar; it must have at least one dimension");
  }
  const int64_t columns = input.shape().dim(rank - 1);
  TANDEM_RETURN_IF_ERROR(CheckK(k, columns));
  if (columns - 1 > GreatestIndex(c.output_dtype(1))) {
    return errors::InvalidArgument("the last dimension of the input has size ", columns,
                                   ", whose indices do not fit into ",
                                   DataTypeName(c.output_dtype(1)));
  }
  Shape shape = input.shape();
  shape.SetDim(rank - 1, k);
  TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(0, shape));
  TANDEM_ASSIGN_OR_RETURN(Tensor * indices, c.AllocateOutput(1, shape));
  if (values->num_elements() == 0) return absl::OkStatus();
  const int64_t rows = input.num_elements() / columns;
  const Type type = TypeOf(input.dtype());
  WithElementType(input.dtype(), [&](auto element) {
    using U = decltype(element);
    if constexpr (std::is_integral_v<U>) {
      const double cost = 5.0 * static_cast<double>(columns);
      c.parallel().For(rows, cost, [&](int64_t begin, int64_t end) {
        Selector<U> selector(columns, k, type);
        const U* const from = static_cast<const U*>(input.data());
        U* const to = static_cast<U*>(values->mutable_data());
        for (int64_t row = begin; row < end; ++row) {
          const auto* const keys = selector.Select(from + row * columns);
          for (int64_t i = 0; i < k; ++i) {
            const uint32_t index = IndexOf(keys[i]);
            to[row * k + i] = from[row * columns + index];
            WriteIndex(*indices, row * k + i, index);
          }
        }
      });
    }
  });
  return absl::OkStatus();
}

// Each value's gradient goes to where it came from: element `index` of its row, that is number
// row·columns + index of all.
absl::Status TopKGradient(GradientContext& g) {
  const Output input = g.input(0);
  const Output size = g.Call("Size", {input}, {{"out_type", kInt64}});
  const Output columns = g.Call("StridedSlice",
                                {ShapeVector(g, input, kInt64), IntVector(g, kInt32, {-1}),
                                 IntVector(g, kInt32, {0}), IntVector(g, kInt32, {1})},
                                {{"shrink_axis_mask", 1}});
  // Range takes no step of 0, which an empty row would give.
  const Output step = g.Call("Maximum", {columns, IntScalar(g, kInt64, 1)});
  const Output row_starts = g.Call("Range", {IntScalar(g, kInt64, 0), size, step});
  const Output rows = g.Call("Size", {row_starts}, {{"out_type", kInt64}});
  const Output indices = CastTo(g, g.output(1), kInt64);
  const Output k = g.Call("StridedSlice",
                          {ShapeVector(g, g.output(1), kInt64), IntVector(g, kInt32, {-1}),
                           IntVector(g, kInt32, {0}), IntVector(g, kInt32, {1})},
                          {{"shrink_axis_mask", 1}});
  const Output by_row = g.Call("Reshape", {indices, g.Call("Pack", {rows, k})});
  const Output flat =
      g.Call("Add", {by_row, g.Call("ExpandDims", {row_starts, IntScalar(g, kInt32, 1)})});
  const Output sums =
      g.Call("UnsortedSegmentSum", {Flatten(g, g.OutputGradient(0)), Flatten(g, flat), size});
  g.SetInputGradient(0, g.Call("Reshape", {sums, g.Call("Shape", {input})}));
  return absl::OkStatus();
}

TANDEM_OP("TopKV2")
    .Inputs("input:T, k:Tk")
    .Outputs("values:T, indices:index_type")
    .Attrs(
        "sorted:bool=True; T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,"
        "float16,uint32,uint64}; Tk:type{int16,int32,int64}=int32; "
        "index_type:type{int16,int32,int64}=int32")
    .Shape(TopKShape)
    .Gradient(TopKGradient)
    .HostMemory({"k"})
    .Cpu(ForTypes("T", AllTypesBut({kString, kBool, kComplex64, kComplex128, kResource, kVariant}),
                  Function(TopK)));

}  // namespace
}  // namespace tandem::array
