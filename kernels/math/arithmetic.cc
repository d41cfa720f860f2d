// Sums, differences, products and extremes of two inputs.
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/common/broadcast.h"
#include "kernels/math/arithmetic.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

template <typename Formula>
std::vector<TypedBinaryLoop> AllLoops() {
  return Join<TypedBinaryLoop>({BinaryLoops<Formula, float, double, Float16, Bfloat16, C64, C128>(),
                                SignlessBinaryLoops<Formula, int8_t, int16_t, int32_t, int64_t,
                                                    uint8_t, uint16_t, uint32_t, uint64_t>()});
}

OpDefBuilder BinaryOp(const char* name, const char* types, GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs("x:T, y:T")
      .Outputs("z:T")
      .Attrs(types)
      .Shape(BroadcastShape)
      .Gradient(gradient);
}

absl::Status AddGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  g.SetInputGradient(0, g.ReduceToInput(dz, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(dz, 1, 0));
  return absl::OkStatus();
}
// The same kernel serves Add's strings.
KernelDef AddStringsKernel();

const OpRegistration add_v2(
    BinaryOp("AddV2",
             "T:type{bfloat16,float16,float32,float64,uint8,uint16,uint32,uint64,int8,int16,int32,"
             "int64,complex64,complex128}",
             AddGradient)
        .Commutative()
        .Cpu(BinaryKernel(AllLoops<Add>(), kCheap)));

// TensorFlow has no kernel of Add for the wider unsigned types, and neither does its signature.
const OpRegistration add(
    BinaryOp("Add",
             "T:type{bfloat16,float16,float32,float64,uint8,int8,int16,int32,int64,complex64,"
             "complex128,string}",
             AddGradient)
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>(
                {BinaryLoops<Add, float, double, Float16, Bfloat16, C64, C128>(),
                 SignlessBinaryLoops<Add, int8_t, int16_t, int32_t, int64_t, uint8_t>()}),
            kCheap))
        .Cpu(AddStringsKernel()));

absl::Status SubGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  g.SetInputGradient(0, g.ReduceToInput(dz, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Neg", {dz}), 1, 0));
  return absl::OkStatus();
}
const OpRegistration sub(
    BinaryOp("Sub",
             "T:type{bfloat16,float16,float32,float64,uint8,int8,uint16,int16,int32,int64,"
             "complex64,complex128,uint32,uint64}",
             SubGradient)
        .Cpu(BinaryKernel(AllLoops<Sub>(), kCheap)));

absl::Status MulGradient(GradientContext& g) {
  const Output dz = g.OutputGradient(0);
  g.SetInputGradient(0, g.ReduceToInput(g.Call("Mul", {dz, g.Conjugate(g.input(1))}), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Mul", {g.Conjugate(g.input(0)), dz}), 1, 0));
  return absl::OkStatus();
}
const OpRegistration mul(
    BinaryOp("Mul",
             "T:type{bfloat16,float16,float32,float64,uint8,int8,uint16,int16,int32,uint32,uint64,"
             "int64,complex64,complex128}",
             MulGradient)
        .Commutative()
        .Cpu(BinaryKernel(AllLoops<Mul>(), kCheap)));

// ((x - y)²)' = 2 (x - y) (dx - dy)
absl::Status SquaredDifferenceGradient(GradientContext& g) {
  const Output twice = Scaled(g, 2, g.Call("Sub", {g.input(0), g.input(1)}));
  Output dy = g.OutputGradient(0);
  const DataType dtype = dy.valid() ? RemoveReference(dy.dtype()) : DataType::kInvalid;
  if (IsComplex(dtype)) {
    // |x - y|² is real: the imaginary part of its gradient moves nothing.
    const Output real = g.Call("Real", {dy}, {{"Tout", dtype == kComplex64 ? kFloat32 : kFloat64}});
    dy = g.Call("Cast", {real}, {{"DstT", dtype}});
  }
  const Output dx = g.Call("Mul", {dy, twice});
  g.SetInputGradient(0, g.ReduceToInput(dx, 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("Neg", {dx}), 1, 0));
  return absl::OkStatus();
}
const OpRegistration squared_difference(
    BinaryOp("SquaredDifference",
             "T:type{bfloat16,float16,float32,float64,int32,int64,complex64,complex128}",
             SquaredDifferenceGradient)
        .Commutative()
        .Cpu(BinaryKernel(
            Join<TypedBinaryLoop>(
                {BinaryLoops<SquaredDifference, float, double, Float16, Bfloat16, C64, C128>(),
                 SignlessBinaryLoops<SquaredDifference, int32_t, int64_t>()}),
            kCheap)));

template <typename Formula>
std::vector<TypedBinaryLoop> RealLoops() {
  return BinaryLoops<Formula, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                     uint8_t, uint16_t, uint32_t, uint64_t>();
}
// The gradient goes to the input that was taken; to x when both are equal.
absl::Status ExtremeGradient(GradientContext& g, const char* takes_x) {
  const Output dz = g.OutputGradient(0);
  const Output zero = g.Call("ZerosLike", {dz});
  const Output mask = g.Call(takes_x, {g.input(0), g.input(1)});
  g.SetInputGradient(0, g.ReduceToInput(g.Call("SelectV2", {mask, dz, zero}), 0, 1));
  g.SetInputGradient(1, g.ReduceToInput(g.Call("SelectV2", {mask, zero, dz}), 1, 0));
  return absl::OkStatus();
}
absl::Status MaximumGradient(GradientContext& g) { return ExtremeGradient(g, "GreaterEqual"); }
absl::Status MinimumGradient(GradientContext& g) { return ExtremeGradient(g, "LessEqual"); }

constexpr char kExtremeTypes[] =
    "T:type{bfloat16,float16,float32,float64,int8,uint8,int16,uint16,int32,uint32,int64,uint64}";
const OpRegistration maximum(BinaryOp("Maximum", kExtremeTypes, MaximumGradient)
                                 .Commutative()
                                 .Cpu(BinaryKernel(RealLoops<Maximum>(), kCheap)));
const OpRegistration minimum(BinaryOp("Minimum", kExtremeTypes, MinimumGradient)
                                 .Commutative()
                                 .Cpu(BinaryKernel(RealLoops<Minimum>(), kCheap)));

// Strings are joined.
absl::Status AddStrings(KernelContext& c) {
  const Tensor& x = c.input(0);
  const Tensor& y = c.input(1);
  TANDEM_ASSIGN_OR_RETURN(const BroadcastPlan plan, BroadcastPlan::Make({&x.shape(), &y.shape()}));
  TANDEM_ASSIGN_OR_RETURN(Tensor * z, c.AllocateOutput(0, plan.output_shape()));
  const auto a = x.Elements<std::string>();
  const auto b = y.Elements<std::string>();
  const auto to = z->MutableElements<std::string>();
  for (int64_t i = 0; i < plan.num_elements(); ++i) {
    to[static_cast<size_t>(i)] = absl::StrCat(a[static_cast<size_t>(plan.InputIndex(0, i))],
                                              b[static_cast<size_t>(plan.InputIndex(1, i))]);
  }
  return absl::OkStatus();
}
KernelDef AddStringsKernel() {
  KernelDef def = Function(AddStrings);
  def.types = {{"T", {kString}}};
  return def;
}

}  // namespace

BinaryLoop AdditionLoop(DataType type) {
  static const std::vector<TypedBinaryLoop>& loops =
      *new std::vector<TypedBinaryLoop>(AllLoops<Add>());
  for (const TypedBinaryLoop& each : loops) {
    if (each.type == type) return each.loop;
  }
  return nullptr;
}

}  // namespace tandem::math
