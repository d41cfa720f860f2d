// Ops on each element that are a few instructions: signs, squares, roots, rounding, tests.
#include <cmath>
#include <limits>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

constexpr char kRealTypes[] = "T:type{bfloat16,float16,float32,float64}";
constexpr char kFloatTypes[] = "T:type{bfloat16,float16,float32,float64,complex64,complex128}";
constexpr char kSignedTypes[] =
    "T:type{bfloat16,float16,float32,float64,int8,int16,int32,int64,complex64,complex128}";

// --- Signs ---------------------------------------------------------------------------------------

absl::Status NegGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Neg", {g.OutputGradient(0)}));
  return absl::OkStatus();
}

TANDEM_OP("Neg")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kSignedTypes)
    .Shape(UnchangedShape)
    .Gradient(NegGradient)
    .Cpu(UnaryKernel(
        Join<TypedUnaryLoop>({UnaryLoops<Neg, float, double, Float16, Bfloat16, C64, C128>(),
                              SignlessUnaryLoops<Neg, int8_t, int16_t, int32_t, int64_t>()}),
        kCheap));

// |x|' = sign(x)
absl::Status AbsGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), g.Call("Sign", {g.input(0)})}));
  return absl::OkStatus();
}

TANDEM_OP("Abs")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type{bfloat16,float16,float32,float64,int8,int16,int32,int64}")
    .Shape(UnchangedShape)
    .Gradient(AbsGradient)
    .Cpu(UnaryKernel(
        UnaryLoops<Abs, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t>(),
        kCheap));

absl::Status SignGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ZerosLike", {g.input(0)}));
  return absl::OkStatus();
}

TANDEM_OP("Sign")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kSignedTypes)
    .Shape(UnchangedShape)
    .Gradient(SignGradient)
    .Cpu(UnaryKernel(UnaryLoops<Sign, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t,
                                int64_t, C64, C128>(),
                     kCheap));

struct LogicalNot {
  static bool Apply(bool x) { return !x; }
};

TANDEM_OP("LogicalNot")
    .Inputs("x:bool")
    .Outputs("y:bool")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(UnaryFunctionKernel(kBool, PlainUnary<LogicalNot, bool>, kCheap));

// --- Powers --------------------------------------------------------------------------------------

// (x²)' = 2 x
absl::Status SquareGradient(GradientContext& g) {
  const Output twice = Scaled(g, 2, g.Conjugate(g.input(0)));
  g.SetInputGradient(0, g.Call("Mul", {g.OutputGradient(0), twice}));
  return absl::OkStatus();
}

TANDEM_OP("Square")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(
        "T:type{bfloat16,float16,float32,float64,int8,int16,int32,int64,uint8,uint16,uint32,"
        "uint64,complex64,complex128}")
    .Shape(UnchangedShape)
    .Gradient(SquareGradient)
    .Cpu(UnaryKernel(
        Join<TypedUnaryLoop>({UnaryLoops<Square, float, double, Float16, Bfloat16, C64, C128>(),
                              SignlessUnaryLoops<Square, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                                 uint16_t, uint32_t, uint64_t>()}),
        kCheap));

// (√x)' = 1 / (2 √x)
absl::Status SqrtGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("SqrtGrad", {g.output(0), g.OutputGradient(0)}));
  return absl::OkStatus();
}

TANDEM_OP("Sqrt")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kFloatTypes)
    .Shape(UnchangedShape)
    .Gradient(SqrtGradient)
    .Cpu(UnaryKernel(UnaryLoops<Sqrt, float, double, Float16, Bfloat16, C64, C128>(), kDivision));

// (x^-½)' = -½ x^-3/2
absl::Status RsqrtGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("RsqrtGrad", {g.output(0), g.OutputGradient(0)}));
  return absl::OkStatus();
}

TANDEM_OP("Rsqrt")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kFloatTypes)
    .Shape(UnchangedShape)
    .Gradient(RsqrtGradient)
    .Cpu(UnaryKernel(UnaryLoops<Rsqrt, float, double, Float16, Bfloat16, C64, C128>(), kDivision));

// (1/x)' = -1/x²
absl::Status ReciprocalGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ReciprocalGrad", {g.output(0), g.OutputGradient(0)}));
  return absl::OkStatus();
}

OpDefBuilder ReciprocalOp(const char* name) {
  return OpDefBuilder(name)
      .Inputs("x:T")
      .Outputs("y:T")
      .Attrs(kSignedTypes)
      .Shape(UnchangedShape)
      .Gradient(ReciprocalGradient)
      .Cpu(UnaryKernel(UnaryLoops<Reciprocal, float, double, Float16, Bfloat16, C64, C128>(),
                       kDivision));
}

const OpRegistration reciprocal(ReciprocalOp("Reciprocal"));
const OpRegistration inv(ReciprocalOp("Inv"));

// --- Rounding ------------------------------------------------------------------------------------

TANDEM_OP("Floor")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Gradient(NoGradient)
    .Cpu(UnaryKernel(UnaryLoops<Floor, float, double, Float16, Bfloat16>(), kCheap));
TANDEM_OP("Ceil")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Gradient(NoGradient)
    .Cpu(UnaryKernel(UnaryLoops<Ceil, float, double, Float16, Bfloat16>(), kCheap));
TANDEM_OP("Rint")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Gradient(NoGradient)
    .Cpu(UnaryKernel(UnaryLoops<Rint, float, double, Float16, Bfloat16>(), kCheap));
TANDEM_OP("Round")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs(kSignedTypes)
    .Shape(UnchangedShape)
    .Gradient(NoGradient)
    .Cpu(UnaryKernel(
        UnaryLoops<Rint, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t>(),
        kCheap));

// --- Tests ---------------------------------------------------------------------------------------

TANDEM_OP("IsNan")
    .Inputs("x:T")
    .Outputs("y:bool")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Cpu(UnaryKernel(UnaryLoops<IsNan, float, double, Float16, Bfloat16>(), kCheap));
TANDEM_OP("IsInf")
    .Inputs("x:T")
    .Outputs("y:bool")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Cpu(UnaryKernel(UnaryLoops<IsInf, float, double, Float16, Bfloat16>(), kCheap));
TANDEM_OP("IsFinite")
    .Inputs("x:T")
    .Outputs("y:bool")
    .Attrs(kRealTypes)
    .Shape(UnchangedShape)
    .Cpu(UnaryKernel(UnaryLoops<IsFinite, float, double, Float16, Bfloat16>(), kCheap));

}  // namespace
}  // namespace tandem::math
