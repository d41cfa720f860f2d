// Relu, Relu6, LeakyRelu, Elu, Selu, Softplus, Softsign and the ops of their gradients.
//
// Each is a formula over a block of numbers. Blocks are first copied (and converted, for halves) to
// the stack: outputs may share memory with inputs, and so the loops below need not care.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/elementwise_kernel.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

constexpr int kBlock = 512;

// Selu's constants make zero mean and unit variance a fixed point (Klambauer et al. 2017).
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// y = f(x), or y = gradient * f'(x or f(x)): each says which.

struct Relu {
  static constexpr double kCost = 0.3;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) y[i] = x[i] <= C(0) ? C(0) : x[i];
  }
};
struct Relu6 {
  static constexpr double kCost = 0.3;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) {
      const C low = x[i] <= C(0) ? C(0) : x[i];
      y[i] = low > C(6) ? C(6) : low;
    }
  }
};
struct LeakyRelu {
  static constexpr double kCost = 0.3;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C alpha) {
    for (int i = 0; i < n; ++i) y[i] = x[i] > C(0) ? x[i] : x[i] * alpha;
  }
};
struct Elu {
  static constexpr double kCost = 2;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    Expm1(x, y, n);
    for (int i = 0; i < n; ++i) y[i] = x[i] < C(0) ? y[i] : x[i];
  }
};
struct Selu {
  static constexpr double kCost = 2;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    Expm1(x, y, n);
    for (int i = 0; i < n; ++i) {
      y[i] = x[i] < C(0) ? C(kSeluScaleAlpha) * y[i] : C(kSeluScale) * x[i];
    }
  }
};
// log(1 + exp(x)); beyond the threshold, where the 1 or the exp is lost, without detour.
struct Softplus {
  static constexpr double kCost = 3;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    const C threshold = std::log(std::numeric_limits<C>::epsilon()) + C(2);
    C e[kBlock];
    Exp(x, e, n);
    Log1p(e, y, n);
    for (int i = 0; i < n; ++i) {
      y[i] = x[i] > -threshold ? x[i] : x[i] < threshold ? e[i] : y[i];
    }
  }
};
struct Softsign {
  static constexpr double kCost = 0.5;
  template <typename C>
  static void Run(const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) y[i] = x[i] / (C(1) + std::abs(x[i]));
  }
};

// Of x or of y: both have the same sign. A gradient times 0 stays not a number where it was one.
struct ReluGrad {
  static constexpr double kCost = 0.4;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) y[i] = g[i] * (x[i] > C(0) ? C(1) : C(0));
  }
};
struct Relu6Grad {
  static constexpr double kCost = 0.4;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) {
      const C inside = x[i] < C(6) ? C(1) : C(0);
      y[i] = g[i] * (x[i] > C(0) ? inside : C(0));
    }
  }
};
struct LeakyReluGrad {
  static constexpr double kCost = 0.4;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C alpha) {
    for (int i = 0; i < n; ++i) y[i] = x[i] > C(0) ? g[i] : g[i] * alpha;
  }
};
// Of y.
struct EluGrad {
  static constexpr double kCost = 0.5;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) y[i] = x[i] < C(0) ? (x[i] + C(1)) * g[i] : g[i];
  }
};
// Of y.
struct SeluGrad {
  static constexpr double kCost = 0.5;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) {
      y[i] = g[i] * (x[i] < C(0) ? x[i] + C(kSeluScaleAlpha) : C(kSeluScale));
    }
  }
};
// Of x.
struct SoftplusGrad {
  static constexpr double kCost = 2;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) y[i] = -x[i];
    Exp(y, y, n);
    for (int i = 0; i < n; ++i) y[i] = g[i] / (y[i] + C(1));
  }
};
// Of x.
struct SoftsignGrad {
  static constexpr double kCost = 0.5;
  template <typename C>
  static void Run(const C* __restrict g, const C* __restrict x, C* __restrict y, int n, C) {
    for (int i = 0; i < n; ++i) {
      const C d = C(1) + std::abs(x[i]);
      y[i] = g[i] / (d * d);
    }
  }
};

// The formulas as function pointers, so that the loops around them are compiled once for each type.
template <typename C>
using UnaryFormula = void (*)(const C* x, C* y, int n, C alpha);
template <typename C>
using GradientFormula = void (*)(const C* g, const C* x, C* y, int n, C alpha);

template <typename T>
class UnaryKernel : public ElementwiseKernel {
 public:
  using C = ComputeType<T>;
  using Formula = UnaryFormula<C>;
  UnaryKernel(Formula formula, double cost, float alpha)
      : formula_(formula), cost_(cost), alpha_(static_cast<C>(alpha)) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor* const y, c.ForwardOrAllocate({0}, 0, x.shape()));
    const T* const from = x.Elements<T>().data();
    T* const to = y->MutableElements<T>().data();
    c.parallel().For(x.num_elements(), cost_, [&](int64_t begin, int64_t end) {
      Run(from + begin, to + begin, end - begin);
    });
    return absl::OkStatus();
  }

  bool ComputeBlock(const void* const* inputs, void* out, int64_t n) const override {
    Run(static_cast<const T*>(inputs[0]), static_cast<T*>(out), n);
    return true;
  }
  double cost() const override { return cost_; }
  bool broadcasts() const override { return false; }

 private:
  void Run(const T* from, T* to, int64_t count) const {
    C in[kBlock];
    C out[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int n = static_cast<int>(std::min<int64_t>(kBlock, count - i));
      ToCompute(from + i, in, n);
      if constexpr (std::is_same_v<C, T>) {
        formula_(in, to + i, n, alpha_);
      } else {
        formula_(in, out, n, alpha_);
        FromCompute(out, to + i, n);
      }
    }
  }

  const Formula formula_;
  const double cost_;
  const C alpha_;
};

template <typename T>
class GradientKernel : public ElementwiseKernel {
 public:
  using C = ComputeType<T>;
  using Formula = GradientFormula<C>;
  GradientKernel(Formula formula, double cost, float alpha)
      : formula_(formula), cost_(cost), alpha_(static_cast<C>(alpha)) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradients = c.input(0);
    const Tensor& x = c.input(1);
    if (gradients.shape() != x.shape()) {
      return errors::InvalidArgument("gradients of shape ", gradients.shape().DebugString(),
                                     " do not fit values of shape ", x.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const y, c.ForwardOrAllocate({0, 1}, 0, x.shape()));
    const T* const from_g = gradients.Elements<T>().data();
    const T* const from_x = x.Elements<T>().data();
    T* const to = y->MutableElements<T>().data();
    c.parallel().For(x.num_elements(), cost_, [&](int64_t begin, int64_t end) {
      Run(from_g + begin, from_x + begin, to + begin, end - begin);
    });
    return absl::OkStatus();
  }

  bool ComputeBlock(const void* const* inputs, void* out, int64_t n) const override {
    Run(static_cast<const T*>(inputs[0]), static_cast<const T*>(inputs[1]), static_cast<T*>(out),
        n);
    return true;
  }
  double cost() const override { return cost_; }
  bool broadcasts() const override { return false; }

 private:
  void Run(const T* from_g, const T* from_x, T* to, int64_t count) const {
    C in_g[kBlock];
    C in_x[kBlock];
    C out[kBlock];
    for (int64_t i = 0; i < count; i += kBlock) {
      const int n = static_cast<int>(std::min<int64_t>(kBlock, count - i));
      ToCompute(from_g + i, in_g, n);
      ToCompute(from_x + i, in_x, n);
      if constexpr (std::is_same_v<C, T>) {
        formula_(in_g, in_x, to + i, n, alpha_);
      } else {
        formula_(in_g, in_x, out, n, alpha_);
        FromCompute(out, to + i, n);
      }
    }
  }

  const Formula formula_;
  const double cost_;
  const C alpha_;
};

// K<T> with the formula F for the node's type.
template <template <typename> class K, typename F, typename... Ts>
KernelDef WithFormula() {
  KernelDef def;
  def.types = {{"T", {DataTypeOf<Ts>()...}}};
  def.factory = [](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const DataType type = init.Attr<DataType>("T");
    const auto found = init.attrs().find("alpha");
    const float alpha = found == init.attrs().end() ? 0.0f : *found->second.Get<float>();
    std::unique_ptr<Kernel> kernel;
    (void)((type == DataTypeOf<Ts>() &&
            (kernel = std::make_unique<K<Ts>>(&F::template Run<ComputeType<Ts>>, F::kCost, alpha),
             true)) ||
           ...);
    return kernel;
  };
  return def;
}
template <template <typename> class K, typename F>
KernelDef ForFloats() {
  return WithFormula<K, F, float, double, Float16, Bfloat16>();
}
template <template <typename> class K, typename F>
KernelDef ForNumbers() {
  return WithFormula<K, F, float, double, Float16, Bfloat16, int32_t, int8_t, uint8_t, int16_t,
                     uint16_t, uint32_t, int64_t, uint64_t>();
}

// d activations -> d features, through the op `grad`, which wants the forward op's output or input.
absl::Status OfOutput(GradientContext& g, absl::string_view grad) {
  g.SetInputGradient(0, g.Call(grad, {g.OutputGradient(0), g.output(0)}));
  return absl::OkStatus();
}
absl::Status OfInput(GradientContext& g, absl::string_view grad) {
  g.SetInputGradient(0, g.Call(grad, {g.OutputGradient(0), g.input(0)}));
  return absl::OkStatus();
}

// The gradient ops are linear in their first input. Those of piecewise linear functions do not
// change with the second.
absl::Status PiecewiseSecond(GradientContext& g, AttrMap attrs = {}) {
  g.SetInputGradient(0,
                     g.Call(g.node().type(), {g.OutputGradient(0), g.input(1)}, std::move(attrs)));
  g.SetInputGradient(1, g.Call("ZerosLike", {g.input(1)}));
  return absl::OkStatus();
}
// gradients * (y + constant) where y < 0.
absl::Status ExponentialSecond(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output gradients = g.input(0);
  const Output y = g.input(1);
  g.SetInputGradient(0, g.Call(g.node().type(), {dy, y}));
  const Output zeros = g.Call("ZerosLike", {y});
  g.SetInputGradient(
      1, g.Call("SelectV2", {g.Call("Less", {y, zeros}), g.Call("Mul", {dy, gradients}), zeros}));
  return absl::OkStatus();
}

TANDEM_OP("Relu")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64,qint8}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfOutput(g, "ReluGrad"); })
    .Cpu(ForNumbers<UnaryKernel, Relu>());

TANDEM_OP("ReluGrad")
    .Inputs("gradients:T, features:T")
    .Outputs("backprops:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape(MergedShape)
    .Gradient([](GradientContext& g) { return PiecewiseSecond(g); })
    .Cpu(ForNumbers<GradientKernel, ReluGrad>());

TANDEM_OP("Relu6")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfOutput(g, "Relu6Grad"); })
    .Cpu(ForNumbers<UnaryKernel, Relu6>());

TANDEM_OP("Relu6Grad")
    .Inputs("gradients:T, features:T")
    .Outputs("backprops:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape(MergedShape)
    .Gradient([](GradientContext& g) { return PiecewiseSecond(g); })
    .Cpu(ForNumbers<GradientKernel, Relu6Grad>());

TANDEM_OP("LeakyRelu")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs("alpha:float=0.2; T:type{float16,bfloat16,float32,float64}=float32")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) {
      g.SetInputGradient(0, g.Call("LeakyReluGrad", {g.OutputGradient(0), g.input(0)},
                                   {{"alpha", g.Attr<float>("alpha")}}));
      return absl::OkStatus();
    })
    .Cpu(ForFloats<UnaryKernel, LeakyRelu>());

TANDEM_OP("LeakyReluGrad")
    .Inputs("gradients:T, features:T")
    .Outputs("backprops:T")
    .Attrs("alpha:float=0.2; T:type{float16,bfloat16,float32,float64}=float32")
    .Shape(MergedShape)
    .Gradient([](GradientContext& g) {
      return PiecewiseSecond(g, {{"alpha", g.Attr<float>("alpha")}});
    })
    .Cpu(ForFloats<GradientKernel, LeakyReluGrad>());

TANDEM_OP("Elu")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfOutput(g, "EluGrad"); })
    .Cpu(ForFloats<UnaryKernel, Elu>());

TANDEM_OP("EluGrad")
    .Inputs("gradients:T, outputs:T")
    .Outputs("backprops:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(MergedShape)
    .Gradient(ExponentialSecond)
    .Cpu(ForFloats<GradientKernel, EluGrad>());

TANDEM_OP("Selu")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfOutput(g, "SeluGrad"); })
    .Cpu(ForFloats<UnaryKernel, Selu>());

TANDEM_OP("SeluGrad")
    .Inputs("gradients:T, outputs:T")
    .Outputs("backprops:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(MergedShape)
    .Gradient(ExponentialSecond)
    .Cpu(ForFloats<GradientKernel, SeluGrad>());

TANDEM_OP("Softplus")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfInput(g, "SoftplusGrad"); })
    .Cpu(ForFloats<UnaryKernel, Softplus>());

// gradients / (1 + exp(-x)); its derivative with respect to x is
// gradients / (exp(-x) + 2 + exp(x)).
absl::Status SoftplusSecond(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output x = g.input(1);
  g.SetInputGradient(0, g.Call("SoftplusGrad", {dy, x}));
  const Output sum = g.Call("AddV2", {g.Call("Exp", {g.Call("Neg", {x})}), g.Call("Exp", {x})});
  const Output denominator = g.Call("AddV2", {sum, g.Scalar(x.dtype(), 2)});
  g.SetInputGradient(1, g.Call("RealDiv", {g.Call("Mul", {dy, g.input(0)}), denominator}));
  return absl::OkStatus();
}

TANDEM_OP("SoftplusGrad")
    .Inputs("gradients:T, features:T")
    .Outputs("backprops:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(MergedShape)
    .Gradient(SoftplusSecond)
    .Cpu(ForFloats<GradientKernel, SoftplusGrad>());

TANDEM_OP("Softsign")
    .Inputs("features:T")
    .Outputs("activations:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfInput(g, "SoftsignGrad"); })
    .Cpu(ForFloats<UnaryKernel, Softsign>());

TANDEM_OP("SoftsignGrad")
    .Inputs("gradients:T, features:T")
    .Outputs("backprops:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(MergedShape)
    .Cpu(ForFloats<GradientKernel, SoftsignGrad>());

}  // namespace
}  // namespace tandem
