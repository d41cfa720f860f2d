// Cast: between all numbers and bool.
//
// A loop exists for each pair of the machine's own types. The others are a step away from one of
// them: float16 and bfloat16 from float, a complex number from its real part. So a cast is up to
// three steps on a block that stays in the first-level cache: to the machine's type, the cast, from
// it.
//
// Numbers that do not fit: integers lose their upper bits. From floating point what is outside of
// the int32 that serves int32 and narrower types, or of the int64 that serves the others, becomes
// the lowest number there, as on the processors that TensorFlow is mostly run on.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/common/half.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

constexpr int64_t kBlock = 512;

// --- Between the machine's types -----------------------------------------------------------------

// Towards zero; the lowest number for what does not fit, NaN among it.
template <typename I, typename F>
I Truncated(F x) {
  // The power of two is a number of F; the highest I may not be.
  constexpr F kLimit = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * F(2);
  return x >= -kLimit && x < kLimit ? static_cast<I>(x) : std::numeric_limits<I>::min();
}

template <typename D, typename S>
D Converted(S x) {
  if constexpr (std::is_same_v<D, bool>) {
    return x != S(0);
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D>) {
    if constexpr (sizeof(D) < 4) {
      return static_cast<D>(Truncated<int32_t>(x));
    } else if constexpr (sizeof(D) == 4) {
      return static_cast<D>(Truncated<int64_t>(x));
    } else {
      constexpr S kHalf = S(9223372036854775808.0);  // 2^63
      if (x < kHalf || x >= 2 * kHalf) return static_cast<D>(Truncated<int64_t>(x));
      return static_cast<D>(Truncated<int64_t>(x - kHalf)) ^ (D(1) << 63);
    }
  } else {
    return static_cast<D>(x);
  }
}

template <typename S, typename D>
void CastLoop(const void* x, void* y, int64_t n) {
  const S* const from = static_cast<const S*>(x);
  D* const to = static_cast<D*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Converted<D>(from[i]);
}
// int32 has a vector instruction of its own.
template <typename S>
void ToInt32Loop(const void* x, void* y, int64_t n) {
  const S* const from = static_cast<const S*>(x);
  int32_t* const to = static_cast<int32_t*>(y);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Truncated<int32_t>(from[i]);
}

// A sign does not matter to what is cast to but for floating point to int32.
template <typename S>
UnaryLoop LoopTo(DataType to) {
  switch (to) {
    case kBool:
      return CastLoop<S, bool>;
    case kInt8:
    case kUint8:
      return CastLoop<S, uint8_t>;
    case kInt16:
    case kUint16:
      return CastLoop<S, uint16_t>;
    case kInt32:
      if constexpr (std::is_floating_point_v<S>) return ToInt32Loop<S>;
      return CastLoop<S, uint32_t>;
    case kUint32:
      return CastLoop<S, uint32_t>;
    case kInt64:
      // TensorFlow's uint64 has the upper half of the numbers, int64 none of it.
      if constexpr (std::is_floating_point_v<S>) {
        return [](const void* x, void* y, int64_t n) {
          const S* const from = static_cast<const S*>(x);
          int64_t* const out = static_cast<int64_t*>(y);
          for (int64_t i = 0; i < n; ++i) out[i] = Truncated<int64_t>(from[i]);
        };
      }
      return CastLoop<S, uint64_t>;
    case kUint64:
      return CastLoop<S, uint64_t>;
    case kFloat32:
      return CastLoop<S, float>;
    case kFloat64:
      return CastLoop<S, double>;
    default:
      return nullptr;
  }
}

UnaryLoop LoopBetween(DataType from, DataType to) {
  switch (from) {
    case kBool:
      // A bool is a byte of 0 or 1.
    case kUint8:
      return LoopTo<uint8_t>(to);
    case kInt8:
      return LoopTo<int8_t>(to);
    case kInt16:
      return LoopTo<int16_t>(to);
    case kUint16:
      return LoopTo<uint16_t>(to);
    case kInt32:
      return LoopTo<int32_t>(to);
    case kUint32:
      return LoopTo<uint32_t>(to);
    case kInt64:
      return LoopTo<int64_t>(to);
    case kUint64:
      return LoopTo<uint64_t>(to);
    case kFloat32:
      return LoopTo<float>(to);
    case kFloat64:
      return LoopTo<double>(to);
    default:
      return nullptr;
  }
}

// --- To and from them ----------------------------------------------------------------------------

template <typename H>
void WidenHalf(const void* x, void* y, int64_t n) {
  ToFloat(static_cast<const H*>(x), static_cast<float*>(y), n);
}
template <typename H>
void NarrowHalf(const void* x, void* y, int64_t n) {
  FromFloat(static_cast<const float*>(x), static_cast<H*>(y), n);
}
template <typename T>
void RealPart(const void* x, void* y, int64_t n) {
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}
template <typename T>
void AsRealPart(const void* x, void* y, int64_t n) {
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) {
    to[2 * i] = from[i];
    to[2 * i + 1] = 0;
  }
}

// The machine's type next to `type`, and the loops that lead there and back (null for itself).
struct Neighbour {
  DataType type;
  UnaryLoop there;
  UnaryLoop back;
};
Neighbour NeighbourOf(DataType type) {
  switch (type) {
    case kFloat16:
      return {kFloat32, WidenHalf<Float16>, NarrowHalf<Float16>};
    case kBfloat16:
      return {kFloat32, WidenHalf<Bfloat16>, NarrowHalf<Bfloat16>};
    case kComplex64:
      return {kFloat32, RealPart<float>, AsRealPart<float>};
    case kComplex128:
      return {kFloat64, RealPart<double>, AsRealPart<double>};
    default:
      return {type, nullptr, nullptr};
  }
}

// Bits of a mantissa, without the leading one.
int MantissaBits(DataType type) {
  switch (type) {
    case kBfloat16:
      return 7;
    case kFloat16:
      return 10;
    case kFloat32:
    case kComplex64:
      return 23;
    case kFloat64:
    case kComplex128:
      return 52;
    default:
      return 0;
  }
}

// Clears the last `bits` bits of each mantissa, so that the cast that follows does not round up.
template <typename F, typename U>
void ClearLastBits(F* x, int bits, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) continue;
    U word;
    std::memcpy(&word, &x[i], sizeof(word));
    word &= ~((U(1) << bits) - 1);
    std::memcpy(&x[i], &word, sizeof(word));
  }
}

class CastKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    from_ = init.Attr<DataType>("SrcT");
    to_ = init.Attr<DataType>("DstT");
    if (from_ == to_) return absl::OkStatus();
    Neighbour source = NeighbourOf(from_);
    Neighbour target = NeighbourOf(to_);
    if (IsComplex(from_) && IsComplex(to_)) {
      // Both parts are cast, as twice as many numbers.
      source.there = target.back = nullptr;
      elements_ = 2;
    }
    there_ = source.there;
    back_ = target.back;
    machine_from_ = source.type;
    loop_ = LoopBetween(source.type, target.type);
    if (loop_ == nullptr) {
      return errors::Unimplemented("a cast from ", DataTypeName(from_), " to ", DataTypeName(to_));
    }
    if (init.Attr<bool>("Truncate") && MantissaBits(to_) > 0 &&
        MantissaBits(to_) < MantissaBits(from_)) {
      cleared_bits_ = MantissaBits(machine_from_) - MantissaBits(to_);
    }
    if (source.type == target.type) machine_copy_ = true;
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (from_ == to_) {
      c.SetOutput(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t n = c.input(0).num_elements() * elements_;
    const char* const x = static_cast<const char*>(c.input(0).data());
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
    char* const y = static_cast<char*>(output->mutable_data());
    const size_t from_size = DataTypeSize(from_) / static_cast<size_t>(elements_);
    const size_t to_size = DataTypeSize(to_) / static_cast<size_t>(elements_);
    c.parallel().For(n, 0.6, [&](int64_t begin, int64_t end) {
      const char* from = x + static_cast<size_t>(begin) * from_size;
      char* to = y + static_cast<size_t>(begin) * to_size;
      if (there_ == nullptr && back_ == nullptr && cleared_bits_ == 0) {
        loop_(from, to, end - begin);
        return;
      }
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t size = std::min(kBlock, end - i);
        CastBlock(from, to, size);
        from += static_cast<size_t>(size) * from_size;
        to += static_cast<size_t>(size) * to_size;
      }
    });
    return absl::OkStatus();
  }

 private:
  void CastBlock(const void* from, void* to, int64_t n) const {
    alignas(64) char first[kBlock * 8];
    alignas(64) char second[kBlock * 8];
    const void* value = from;
    if (there_ != nullptr) {
      there_(from, first, n);
      value = first;
    }
    if (cleared_bits_ > 0) {
      if (value != first) {
        std::memcpy(first, from, static_cast<size_t>(n) * DataTypeSize(machine_from_));
      }
      if (machine_from_ == kFloat32) {
        ClearLastBits<float, uint32_t>(reinterpret_cast<float*>(first), cleared_bits_, n);
      } else {
        ClearLastBits<double, uint64_t>(reinterpret_cast<double*>(first), cleared_bits_, n);
      }
      value = first;
    }
    if (back_ == nullptr) {
      loop_(value, to, n);
      return;
    }
    if (!machine_copy_) {
      loop_(value, second, n);
      value = second;
    }
    back_(value, to, n);
  }

  DataType from_ = DataType::kInvalid;
  DataType to_ = DataType::kInvalid;
  DataType machine_from_ = DataType::kInvalid;
  bool machine_copy_ = false;
  int elements_ = 1;  // Numbers in an element.
  int cleared_bits_ = 0;
  UnaryLoop there_ = nullptr;
  UnaryLoop loop_ = nullptr;
  UnaryLoop back_ = nullptr;
};

// Numbers without a fraction have no gradient.
absl::Status CastGradient(GradientContext& g) {
  const DataType from = g.Attr<DataType>("SrcT");
  const DataType to = g.Attr<DataType>("DstT");
  if (MantissaBits(from) == 0 || MantissaBits(to) == 0) return absl::OkStatus();
  g.SetInputGradient(0, g.Call("Cast", {g.OutputGradient(0)}, {{"DstT", from}}));
  return absl::OkStatus();
}

TANDEM_OP("Cast")
    .Inputs("x:SrcT")
    .Outputs("y:DstT")
    .Attrs("SrcT:type; DstT:type; Truncate:bool=False")
    .Shape(UnchangedShape)
    .Gradient(CastGradient)
    .Cpu(Make<CastKernel>());

}  // namespace
}  // namespace tandem::math
