// Quotients, remainders and powers of two inputs.
//
// Integers: a division by zero and a negative exponent are InvalidArgument. The one quotient that
// does not fit (the lowest number by -1) wraps around.
#include <cmath>
#include <limits>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/packet_loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

constexpr char kByZero[] = "an integer was divided by zero";

// A loop over integers with a divisor that may not be zero.
template <typename Formula, typename T>
bool IntegerDivision(const void* x, const void* y, void* z, int64_t n) {
  const T* const a = static_cast<const T*>(x);
  const T* const b = static_cast<const T*>(y);
  T* const to = static_cast<T*>(z);
  bool ok = true;
  for (int64_t i = 0; i < n; ++i) {
    const T divisor = b[i];
    ok = ok && divisor != 0;
    to[i] = divisor == 0 ? T(0) : Formula::Apply(a[i], divisor);
  }
  return ok;
}
template <typename Formula, typename... Ts>
std::vector<TypedBinaryLoop> IntegerLoops() {
  return {TypedBinaryLoop{DataTypeOf<Ts>(), IntegerDivision<Formula, Ts>}...};
}
template <typename Formula>
std::vector<TypedBinaryLoop> AllIntegerLoops() {
  return IntegerLoops<Formula, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                      uint64_t>();
}

struct Truncated {
  template <typename T>
  static T Apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::trunc(x / y);
    } else {
      // By -1: the processor would trap on the lowest number.
      if (std::is_signed_v<T> && y == static_cast<T>(-1)) {
        return static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x));
      }
      return static_cast<T>(x / y);
    }
  }
};
// Towards zero, with the sign of x.
struct TruncatedRemainder {
  template <typename T>
  static T Apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(x, y);
    } else {
      return std::is_signed_v<T> && y == static_cast<T>(-1) ? T(0) : static_cast<T>(x % y);
    }
  }
};
struct Floored {
  template <typename T>
  static T Apply(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::floor(x / y);
    } else {
      const T quotient = Truncated::Apply(x, y);
      const bool below =
          std::is_signed_v<T> && (x < 0) != (y < 0) && TruncatedRemainder::Apply(x, y) != 0;
      return below ? static_cast<T>(quotient - 1) : quotient;
    }
  }
};
// With the sign of y.
struct FlooredRemainder {
  template <typename T>
  static T Apply(T x, T y) {
    const T remainder = TruncatedRemainder::Apply(x, y);
    return remainder != 0 && (remainder < 0) != (y < 0) ? static_cast<T>(remainder + y) : remainder;
  }
};

OpDefBuilder DivisionOp(const char* name, const char* types) {
  return OpDefBuilder(name).Inputs("x:T, y:T").Outputs("z:T").Attrs(types).Shape(BroadcastShape);
}

constexpr char kDivTypes[] =
    "T:type{bfloat16,float16,float32,float64,uint8,int8,uint16,int16,int32,uint32,uint64,int64,"
    "complex64,complex128}";

// (x/y)' = dx / y - x dy / y²
absl::Status QuotientGradient(GradientContext& g, const char* divide) {
  const Output dz = g.OutputGradient(0);
  const Output x = g.Conjugate(g.input(0));
  const Output y = g.Conjugate(g.input(1));
  const Output slope = g.Call(divide, {g.Call(divide, {g.Call("Neg", {x}), y}), y});
  g.SetInputGradient(0, g.ReduceToInput(g.Call(divide, {dz, y}), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {dz, slope}), 1, 0));
  return absl::OkStatus();
}
absl::Status DivGradient(GradientContext& g) { return QuotientGradient(g, "Div"); }
absl::Status RealDivGradient(GradientContext& g) { return QuotientGradient(g, "RealDiv"); }
absl::Status DivNoNanGradient(GradientContext& g) { return QuotientGradient(g, "DivNoNan"); }

const OpRegistration div_op(
    DivisionOp("Div", kDivTypes)
        .Gradient(DivGradient)
        .Cpu(BinaryKernel(Join<TypedBinaryLoop>(
                              {BinaryLoops<Quotient, float, double, Float16, Bfloat16, C64, C128>(),
                               AllIntegerLoops<Truncated>()}),
                          kDivision, kByZero)));
const OpRegistration real_div(
    DivisionOp("RealDiv", kDivTypes)
        .Gradient(RealDivGradient)
        .Cpu(BinaryKernel(BinaryLoops<Quotient, float, double, Float16, Bfloat16, C64, C128>(),
                          kDivision)));
const OpRegistration div_no_nan(
    DivisionOp("DivNoNan", "T:type{float16,float32,bfloat16,float64,complex64,complex128}")
        .Gradient(DivNoNanGradient)
        .Cpu(
            BinaryKernel(BinaryLoops<QuotientOrZero, float, double, Float16, Bfloat16, C64, C128>(),
                         kDivision)));
const OpRegistration truncate_div(
    DivisionOp("TruncateDiv",
               "T:type{bfloat16,float16,float32,float64,uint8,int8,uint16,int16,int32,uint32,"
               "uint64,int64,complex64,complex128}")
        .Gradient(NoGradient)
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>({BinaryLoops<Truncated, float, double, Float16, Bfloat16>(),
                                   AllIntegerLoops<Truncated>()}),
            kDivision, kByZero)));
const OpRegistration floor_div(
    DivisionOp("FloorDiv", kDivTypes)
        .Gradient(NoGradient)
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>({BinaryLoops<Floored, float, double, Float16, Bfloat16>(),
                                   AllIntegerLoops<Floored>()}),
            kDivision, kByZero)));

// x - y floor(x / y): the derivatives are 1 and -floor(x / y).
absl::Status FloorModGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  const Output floored = g.Call("FloorDiv", {g.input(0), g.input(1)});
  g.SetInputGradient(0, g.ReduceToInput(dz, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Neg", {g.Call("Mul", {dz, floored})}), 1, 0));
  return absl::OkStatus();
}
const OpRegistration floor_mod(
    DivisionOp("FloorMod",
               "T:type{int8,int16,int32,int64,uint8,uint16,uint32,uint64,bfloat16,float16,float32,"
               "float64}")
        .Gradient(FloorModGradient)
        .Cpu(BinaryKernel(Join<TypedBinaryLoop>(
                              {BinaryLoops<FlooredRemainder, float, double, Float16, Bfloat16>(),
                               AllIntegerLoops<FlooredRemainder>()}),
                          kScalarFunction, kByZero)));
const OpRegistration mod(
    DivisionOp("Mod", "T:type{int32,int64,float16,float16,bfloat16,float32,float64}")
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>({BinaryLoops<TruncatedRemainder, float, double>(),
                                   IntegerLoops<TruncatedRemainder, int32_t, int64_t>()}),
            kScalarFunction, kByZero)));

// --- Powers --------------------------------------------------------------------------------------

// By repeated squaring, wrapping around.
template <typename T>
bool IntegerPower(const void* x, const void* y, void* z, int64_t n) {
  const T* const a = static_cast<const T*>(x);
  const T* const b = static_cast<const T*>(y);
  T* const to = static_cast<T*>(z);
  bool ok = true;
  for (int64_t i = 0; i < n; ++i) {
    T exponent = b[i];
    if (exponent < 0) {
      ok = false;
      to[i] = 0;
      continue;
    }
    T base = a[i];
    T power = 1;
    for (; exponent > 0; exponent = static_cast<T>(exponent >> 1)) {
      if (exponent & 1) power = Multiply(power, base);
      base = Multiply(base, base);
    }
    to[i] = power;
  }
  return ok;
}
struct ComplexPower {
  template <typename T>
  static T Apply(T x, T y) {
    return std::pow(x, y);
  }
};
// Eigen's vector code, but for powers of zero, whose signs it loses.
template <typename T>
bool Power(const void* x, const void* y, void* z, int64_t n) {
  constexpr int64_t kBlock = 256;
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(y);
  T* to = static_cast<T*>(z);
  T bases[kBlock];  // Copies: z may be the memory of either.
  T exponents[kBlock];
  for (int64_t done = 0; done < n; done += kBlock, a += kBlock, b += kBlock, to += kBlock) {
    const int64_t size = std::min(kBlock, n - done);
    bool zero = false;
    for (int64_t i = 0; i < size; ++i) zero |= a[i] == 0;
    if (zero) {
      std::copy_n(a, size, bases);
      std::copy_n(b, size, exponents);
    }
    PacketBinary<Eigen::internal::scalar_pow_op<T, T>, T>(a, b, to, size);
    for (int64_t i = 0; zero && i < size; ++i) {
      if (bases[i] == 0) to[i] = std::pow(bases[i], exponents[i]);
    }
  }
  return true;
}

// x^y:  dx y x^(y-1),  dy x^y log x, and 0 where the logarithm is not there.
absl::Status PowGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  const Output x = g.Conjugate(g.input(0));
  const Output y = g.Conjugate(g.input(1));
  const Output z = g.Conjugate(g.output(0));
  const DataType dtype = RemoveReference(x.dtype());
  const Output less = g.Call("Pow", {x, g.Call("Sub", {y, g.Scalar(dtype, 1)})});
  const Output dx = g.Call("Mul", {g.Call("Mul", {dz, y}), less});
  const Output zero = g.Call("ZerosLike", {x});
  // Real logarithms exist for positive numbers, complex ones for all but zero.
  const Output mask = g.Call(IsComplex(dtype) ? "NotEqual" : "Greater", {x, zero});
  g.SetInputGradient(0, g.ReduceToInput(dx, 0, 1));
  if (IsInteger(dtype)) return absl::OkStatus();  // An exponent that is a whole number has none.
  const Output safe = g.Call("SelectV2", {mask, x, g.Call("OnesLike", {x})});
  const Output log = g.Call("SelectV2", {mask, g.Call("Log", {safe}), zero});
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {g.Call("Mul", {dz, z}), log}), 1, 0));
  return absl::OkStatus();
}
const OpRegistration pow_op(
    DivisionOp("Pow",
               "T:type{bfloat16,float32,float16,float64,int8,int16,int32,int64,complex64,"
               "complex128}")
        .Gradient(PowGradient)
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>({{{kFloat32, Power<float>},
                                    {kFloat64, Power<double>},
                                    {kFloat16, HalfBinary<Float16, Power<float>, float>},
                                    {kBfloat16, HalfBinary<Bfloat16, Power<float>, float>},
                                    {kInt8, IntegerPower<int8_t>},
                                    {kInt16, IntegerPower<int16_t>},
                                    {kInt32, IntegerPower<int32_t>},
                                    {kInt64, IntegerPower<int64_t>}},
                                   BinaryLoops<ComplexPower, C64, C128>()}),
            kScalarFunction, "an integer was raised to a negative power")));

}  // namespace
}  // namespace tandem::math
