// Ops on the bits of integers.
#include <algorithm>
#include <cstdint>

#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

constexpr char kIntegers[] = "T:type{int8,int16,int32,int64,uint8,uint16,uint32,uint64}";

struct And {
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(x & y);
  }
};
struct Or {
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(x | y);
  }
};
struct Xor {
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};
struct Not {
  template <typename T>
  static T Apply(T x) {
    return static_cast<T>(~x);
  }
};

// By how much: TensorFlow moves what is negative or too much to the nearest that is neither.
template <typename T>
T Distance(T y) {
  constexpr T kMost = static_cast<T>(8 * sizeof(T) - 1);
  return y < T(0) ? T(0) : std::min(y, kMost);
}
struct Left {
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(static_cast<Wrapping<T>>(x) << Distance(y));
  }
};
// Of a negative number with its sign.
struct Right {
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(x >> Distance(y));
  }
};

template <typename Formula>
KernelDef SignlessKernel() {
  return BinaryKernel(SignlessBinaryLoops<Formula, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                          uint16_t, uint32_t, uint64_t>(),
                      kCheap);
}
template <typename Formula>
KernelDef ShiftKernel() {
  return BinaryKernel(BinaryLoops<Formula, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                  uint32_t, uint64_t>(),
                      kCheap);
}

OpDefBuilder BitwiseOp(const char* name, KernelDef kernel) {
  return OpDefBuilder(name)
      .Inputs("x:T, y:T")
      .Outputs("z:T")
      .Attrs(kIntegers)
      .Shape(BroadcastShape)
      .NotDifferentiable()
      .Cpu(std::move(kernel));
}

const OpRegistration bitwise_and(BitwiseOp("BitwiseAnd", SignlessKernel<And>()).Commutative());
const OpRegistration bitwise_or(BitwiseOp("BitwiseOr", SignlessKernel<Or>()).Commutative());
const OpRegistration bitwise_xor(BitwiseOp("BitwiseXor", SignlessKernel<Xor>()).Commutative());
const OpRegistration left_shift(BitwiseOp("LeftShift", ShiftKernel<Left>()));
const OpRegistration right_shift(BitwiseOp("RightShift", ShiftKernel<Right>()));

TANDEM_OP("Invert")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kIntegers)
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(UnaryKernel(SignlessUnaryLoops<Not, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                                        uint32_t, uint64_t>(),
                     kCheap));

}  // namespace
}  // namespace tandem::math
