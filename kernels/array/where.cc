// Ops whose output's size depends on the input's values: Where and Unique.
#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// --- Where

absl::Status WhereShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  const int64_t rank = c.input(0).has_rank() ? c.input(0).rank() : kUnknown;
  return c.SetOutput(0, PartialShape({kUnknown, rank}));
}

// The bits that make an element of 8 bytes or less differ from zero: all, except that -0 is zero
// too.
uint64_t ValueBits(DataType dtype) {
  switch (dtype) {
    case kFloat16:
    case kBfloat16:
      return 0x7fff;
    case kFloat32:
      return 0x7fffffff;
    case kFloat64:
    case kComplex128:  // Each of its halves.
      return 0x7fffffffffffffff;
    case kComplex64:
      return 0x7fffffff7fffffff;
    default:
      return ~uint64_t{0};
  }
}

bool IsTrue(uint8_t bits, uint64_t mask) { return (bits & mask) != 0; }
bool IsTrue(uint16_t bits, uint64_t mask) { return (bits & mask) != 0; }
bool IsTrue(uint32_t bits, uint64_t mask) { return (bits & mask) != 0; }
bool IsTrue(uint64_t bits, uint64_t mask) { return (bits & mask) != 0; }
bool IsTrue(Bytes16 bits, uint64_t mask) { return ((bits.low | bits.high) & mask) != 0; }

absl::Status Where(KernelContext& c) {
  const Tensor& input = c.input(0);
  const int rank = input.shape().rank();
  if (rank == 0) {
    return errors::InvalidArgument("the input is a scalar; it must have at least one dimension");
  }
  std::vector<int64_t> positions;
  WithElementType(input.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_trivially_copyable_v<T>) {
      const T* const elements = static_cast<const T*>(input.data());
      const uint64_t mask = ValueBits(input.dtype());
      const int64_t n = input.num_elements();
      int64_t count = 0;
      for (int64_t i = 0; i < n; ++i) count += IsTrue(elements[i], mask);
      positions.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < n; ++i) {
        if (IsTrue(elements[i], mask)) positions.push_back(i);
      }
    }
  });
  const int64_t count = static_cast<int64_t>(positions.size());
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape({count, rank})));
  int64_t* to = output->MutableElements<int64_t>().data();
  const auto strides = Strides(input.shape().dims());
  for (int64_t position : positions) {
    for (const int64_t stride : strides) {
      *to++ = position / stride;
      position %= stride;
    }
  }
  return absl::OkStatus();
}

// --- Unique

absl::Status UniqueShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({kUnknown})));
  return c.SetOutput(1, c.input(0).has_rank() ? c.input(0) : PartialShape({kUnknown}));
}

// Equal numbers get equal keys: +0 and -0 are equal, a NaN is not even equal to itself.
struct NumberKeys {
  explicit NumberKeys(DataType dtype) : value_bits(ValueBits(dtype)) {
    switch (dtype) {
      case kFloat16:
        infinity = 0x7c00;
        break;
      case kBfloat16:
        infinity = 0x7f80;
        break;
      case kFloat32:
        infinity = 0x7f800000;
        break;
      case kFloat64:
        infinity = 0x7ff0000000000000;
        break;
      default:
        break;
    }
  }
  bool IsNan(uint64_t bits) const { return (bits & value_bits) > infinity; }
  uint64_t Key(uint64_t bits) const { return (bits & value_bits) == 0 ? 0 : bits; }

  uint64_t value_bits;
  uint64_t infinity = ~uint64_t{0};  // Integers have none, nor NaN.
};

// first[k]: where the k-th distinct element was first seen. of[i]: which one element i is.
struct Distinct {
  std::vector<int64_t> first;
  std::vector<int64_t> of;
};

template <typename T>
void FindDistinct(const T* x, int64_t n, const NumberKeys& keys, Distinct* distinct) {
  absl::flat_hash_map<uint64_t, int64_t> seen;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = x[i];
    const int64_t next = static_cast<int64_t>(distinct->first.size());
    int64_t which = next;
    if (!keys.IsNan(bits)) which = seen.try_emplace(keys.Key(bits), next).first->second;
    if (which == next) distinct->first.push_back(i);
    distinct->of.push_back(which);
  }
}

void FindDistinct(const std::string* x, int64_t n, const NumberKeys&, Distinct* distinct) {
  absl::flat_hash_map<absl::string_view, int64_t> seen;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t next = static_cast<int64_t>(distinct->first.size());
    const int64_t which = seen.try_emplace(x[i], next).first->second;
    if (which == next) distinct->first.push_back(i);
    distinct->of.push_back(which);
  }
}

absl::Status Unique(KernelContext& c) {
  const Tensor& x = c.input(0);
  if (!x.shape().IsVector()) {
    return errors::InvalidArgument("the input has shape ", x.shape().DebugString(),
                                   "; a vector is wanted");
  }
  if (c.output_dtype(1) == kInt32 && x.num_elements() > std::numeric_limits<int32_t>::max()) {
    return errors::InvalidArgument("the input has ", x.num_elements(),
                                   " elements, more than int32 counts; set attribute 'out_idx' to "
                                   "int64");
  }
  const DataType dtype = x.dtype();
  Distinct distinct;
  distinct.of.reserve(static_cast<size_t>(x.num_elements()));
  WithElementType(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
      FindDistinct(static_cast<const T*>(x.data()), x.num_elements(), NumberKeys(dtype), &distinct);
    }
  });
  const int64_t count = static_cast<int64_t>(distinct.first.size());
  TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, Shape({count})));
  for (int64_t k = 0; k < count; ++k) {
    CopyElements(dtype, ElementAt(dtype, y->mutable_data(), k),
                 ElementAt(dtype, x.data(), distinct.first[static_cast<size_t>(k)]), 1);
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * index, c.AllocateOutput(1, x.shape()));
  if (index->dtype() == kInt64) {
    std::copy(distinct.of.begin(), distinct.of.end(), index->MutableElements<int64_t>().begin());
  } else {
    std::transform(distinct.of.begin(), distinct.of.end(),
                   index->MutableElements<int32_t>().begin(),
                   [](int64_t k) { return static_cast<int32_t>(k); });
  }
  return absl::OkStatus();
}

TANDEM_OP("Where")
    .Inputs("input:T")
    .Outputs("index:int64")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64,bool}=bool")
    .Shape(WhereShape)
    .Cpu(ForTypes("T", AllTypesBut({kString, kResource, kVariant}), Function(Where)));

TANDEM_OP("Unique")
    .Inputs("x:T")
    .Outputs("y:T, idx:out_idx")
    .Attrs("T:type; out_idx:type{int32,int64}=int32")
    .Shape(UniqueShape)
    .Cpu(ForTypes("T", AllTypesBut({kComplex64, kComplex128, kResource, kVariant}),
                  Function(Unique)));

}  // namespace
}  // namespace tandem::array
