// ClipByValue: each element moved into [min, max]. CheckNumerics: an error where one is no number.
#include <atomic>
#include <cmath>
#include <limits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/common/broadcast.h"
#include "kernels/common/half.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

template <typename T>
class ClipKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& t = c.input(0);
    for (int i = 1; i <= 2; ++i) {
      const Shape& bound = c.input(i).shape();
      if (!bound.IsScalar() && bound != t.shape()) {
        return errors::InvalidArgument(i == 1 ? "clip_value_min" : "clip_value_max", " has shape ",
                                       bound.DebugString(), "; it must be a scalar or like t, ",
                                       t.shape().DebugString());
      }
    }
    TANDEM_ASSIGN_OR_RETURN(
        const BroadcastPlan plan,
        BroadcastPlan::Make({&t.shape(), &c.input(1).shape(), &c.input(2).shape()}));
    const void* const x = t.data();
    const void* const low = c.input(1).data();
    const void* const high = c.input(2).data();
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.ForwardOrAllocate({0}, 0, t.shape()));
    T* const to = y->MutableElements<T>().data();
    c.parallel().For(plan.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
      plan.ForEachBlock({x, low, high}, {sizeof(T), sizeof(T), sizeof(T)}, begin, end,
                        [&](const void* const* in, int64_t first, int64_t n) {
                          Clip(static_cast<const T*>(in[0]), static_cast<const T*>(in[1]),
                               static_cast<const T*>(in[2]), to + first, n);
                        });
    });
    return absl::OkStatus();
  }

 private:
  static void Clip(const T* x, const T* low, const T* high, T* to, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T raised = x[i] < low[i] ? low[i] : x[i];
      to[i] = high[i] < raised ? high[i] : raised;
    }
  }
};

// The gradient passes where t lies within the bounds; elsewhere it goes to the bound.
absl::Status ClipGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output zero = g.Call("ZerosLike", {dy});
  const Output below = g.Call("Less", {g.input(0), g.input(1)});
  const Output above = g.Call("Greater", {g.input(0), g.input(2)});
  const Output outside = g.Call("LogicalOr", {below, above});
  g.SetInputGradient(0, g.Call("SelectV2", {outside, zero, dy}));
  g.SetInputGradient(1, ReduceTo(g, g.Call("SelectV2", {below, dy, zero}), g.input(1), dy));
  g.SetInputGradient(2, ReduceTo(g, g.Call("SelectV2", {above, dy, zero}), g.input(2), dy));
  return absl::OkStatus();
}

TANDEM_OP("ClipByValue")
    .Inputs("t:T, clip_value_min:T, clip_value_max:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}")
    .Shape(UnchangedShape)
    .Gradient(ClipGradient)
    .Cpu(ByType<ClipKernel, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                uint8_t, uint16_t>("T"));

template <typename T>
class CheckNumericsKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    message_ = init.Attr<std::string>("message");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const T* const x = c.input(0).Elements<T>().data();
    const int64_t n = c.input(0).num_elements();
    std::atomic<bool> nan{false};
    std::atomic<bool> infinite{false};
    c.parallel().For(n, 0.3, [&](int64_t begin, int64_t end) {
      if (AllFinite(x + begin, end - begin)) return;
      for (int64_t i = begin; i < end; ++i) {
        const float value = static_cast<float>(x[i]);
        if (std::isnan(value)) {
          nan = true;
        } else if (!std::isfinite(static_cast<double>(x[i]))) {
          infinite = true;
        }
      }
    });
    if (nan || infinite) {
      return errors::InvalidArgument(message_, " : a tensor ", c.input(0).shape().DebugString(),
                                     " has ", infinite ? "infinite" : "",
                                     nan && infinite ? " and " : "", nan ? "NaN" : "", " values");
    }
    c.SetOutput(0, c.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  static bool AllFinite(const T* x, int64_t n) {
    if constexpr (kIsHalf<T>) {
      for (int64_t i = 0; i < n; ++i) {
        if (!std::isfinite(static_cast<float>(x[i]))) return false;
      }
      return true;
    } else {
      bool finite = true;
      for (int64_t i = 0; i < n; ++i) finite &= std::abs(x[i]) <= std::numeric_limits<T>::max();
      return finite;
    }
  }

  std::string message_;
};

absl::Status CheckNumericsGradient(GradientContext& g) {
  g.SetInputGradient(
      0, g.Call("CheckNumerics", {g.OutputGradient(0)},
                {{"message", absl::StrCat("the gradient of '", g.node().name(),
                                          "', which checks: ", g.Attr<std::string>("message"))}}));
  return absl::OkStatus();
}

TANDEM_OP("CheckNumerics")
    .Inputs("tensor:T")
    .Outputs("output:T")
    .Attrs("T:type{bfloat16,float16,float32,float64}; message:string")
    .Stateful()
    .Shape(UnchangedShape)
    .Gradient(CheckNumericsGradient)
    .Cpu(ByType<CheckNumericsKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem::math
