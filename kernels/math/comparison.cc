// Comparisons and logic of two inputs; all answer in bool and have no gradient.
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "kernels/common/broadcast.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

// --- Equality
// --------------------------------------------------------------------------------------

template <typename Formula>
std::vector<TypedBinaryLoop> EqualityLoops() {
  return Join<TypedBinaryLoop>(
      {BinaryLoops<Formula, float, double, Float16, Bfloat16, C64, C128, bool>(),
       SignlessBinaryLoops<Formula, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                           uint64_t>()});
}

// Strings, one by one.
template <typename Formula, bool kWhenIncompatible>
class StringEquality final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    refuses_ = init.Attr<bool>("incompatible_shape_error");
    return absl::OkStatus();
  }
  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    const Tensor& y = c.input(1);
    absl::StatusOr<BroadcastPlan> plan = BroadcastPlan::Make({&x.shape(), &y.shape()});
    if (!plan.ok() && refuses_) return std::move(plan).status();
    TANDEM_ASSIGN_OR_RETURN(Tensor * z,
                            c.AllocateOutput(0, plan.ok() ? plan->output_shape() : Shape()));
    bool* const to = z->MutableElements<bool>().data();
    if (!plan.ok()) {
      to[0] = kWhenIncompatible;
      return absl::OkStatus();
    }
    const auto a = x.Elements<std::string>();
    const auto b = y.Elements<std::string>();
    for (int64_t i = 0; i < plan->num_elements(); ++i) {
      to[i] = Formula::Apply(absl::string_view(a[static_cast<size_t>(plan->InputIndex(0, i))]),
                             absl::string_view(b[static_cast<size_t>(plan->InputIndex(1, i))]));
    }
    return absl::OkStatus();
  }

 private:
  bool refuses_ = true;
};

// Shapes that do not fit are an answer of its own when the node allows them.
absl::Status EqualityShape(ShapeContext& c) {
  if (c.Attr<bool>("incompatible_shape_error")) return BroadcastShape(c);
  const absl::StatusOr<PartialShape> shape = BroadcastShapes(c.input(0), c.input(1));
  // Known sizes that fit may come with unknown ones that do not.
  const bool certain = shape.ok() && c.input(0).IsFullyDefined() && c.input(1).IsFullyDefined();
  if (!shape.ok()) return c.SetOutput(0, PartialShape(Shape()));
  return c.SetOutput(0, certain ? *shape : PartialShape::Unknown());
}

template <typename Formula, bool kWhenIncompatible>
OpDefBuilder EqualityOp(const char* name) {
  return OpDefBuilder(name)
      .Inputs("x:T, y:T")
      .Outputs("z:bool")
      .Attrs("T:type; incompatible_shape_error:bool=True")
      .Commutative()
      .Shape(EqualityShape)
      .NotDifferentiable()
      .Cpu(EqualityKernel(EqualityLoops<Formula>(), kWhenIncompatible))
      .Cpu(Make<StringEquality<Formula, kWhenIncompatible>>("T", {kString}));
}
const OpRegistration equal(EqualityOp<Equal, false>("Equal"));
const OpRegistration not_equal(EqualityOp<NotEqual, true>("NotEqual"));

// --- Order
// -----------------------------------------------------------------------------------------

template <typename Formula>
OpDefBuilder OrderOp(const char* name) {
  return OpDefBuilder(name)
      .Inputs("x:T, y:T")
      .Outputs("z:bool")
      .Attrs(
          "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
          "uint64}")
      .Shape(BroadcastShape)
      .NotDifferentiable()
      .Cpu(BinaryKernel(BinaryLoops<Formula, float, double, Float16, Bfloat16, int8_t, int16_t,
                                    int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(),
                        kCheap));
}
const OpRegistration less(OrderOp<Less>("Less"));
const OpRegistration less_equal(OrderOp<LessEqual>("LessEqual"));
const OpRegistration greater(OrderOp<Greater>("Greater"));
const OpRegistration greater_equal(OrderOp<GreaterEqual>("GreaterEqual"));

// --- Logic
// -----------------------------------------------------------------------------------------

struct And {
  static bool Apply(bool x, bool y) { return x & y; }
};
struct Or {
  static bool Apply(bool x, bool y) { return x | y; }
};

template <typename Formula>
OpDefBuilder LogicalOp(const char* name) {
  return OpDefBuilder(name)
      .Inputs("x:bool, y:bool")
      .Outputs("z:bool")
      .Commutative()
      .Shape(BroadcastShape)
      .NotDifferentiable()
      .Cpu(BinaryFunctionKernel(kBool, PlainBinary<Formula, bool>, kCheap));
}
const OpRegistration logical_and(LogicalOp<And>("LogicalAnd"));
const OpRegistration logical_or(LogicalOp<Or>("LogicalOr"));

}  // namespace
}  // namespace tandem::math
