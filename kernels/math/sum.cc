// Sum, Mean, Prod, L2Loss: reductions of all numbers.

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/reduce_loops.h"
#include "kernels/math/reduction_formulas.h"
#include "kernels/math/reduction_gradients.h"

namespace tandem::math {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;

constexpr char kAttrs[] =
    "keep_dims:bool=False; T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,"
    "quint8,qint32,bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; "
    "Tidx:type{int32,int64}=int32";
// A mean is a sum that is divided at the end; of integers, truncated.
template <typename T>
void FinishMean(const void* acc, void* y, int64_t n, int64_t count) {
  using A = std::conditional_t<kIsHalf<T>, float, T>;
  const A* const from = static_cast<const A*>(acc);
  T* const to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsInt<T>) {
      to[i] = count == 0 ? T(0) : static_cast<T>(from[i] / static_cast<T>(count));
    } else if constexpr (kIsComplex<T>) {
      to[i] = from[i] / static_cast<typename T::value_type>(count);
    } else {
      to[i] = static_cast<T>(from[i] / static_cast<A>(count));
    }
  }
}
template <typename Op>
std::vector<Reducer> FloatReducers() {
  return Reducers<Op, float, double, Float16, Bfloat16, C64, C128>();
}
template <typename Op>
std::vector<Reducer> NumberReducers() {
  return Join<Reducer>(
      {FloatReducers<Op>(), SignlessReducers<Op, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                             uint16_t, uint32_t, uint64_t>()});
}
template <typename... Ts>
std::vector<Reducer> MeanReducers() {
  std::vector<Reducer> reducers = NumberReducers<Sum>();
  for (Reducer& each : reducers) {
    ((each.type == DataTypeOf<Ts>() ? void(each.finish = FinishMean<Ts>) : void()), ...);
  }
  return reducers;
}

const OpRegistration sum(ReductionOp("Sum", kAttrs, SumGradient, NumberReducers<Sum>()));
const OpRegistration mean(
    ReductionOp("Mean", kAttrs, MeanGradient,
                MeanReducers<float, double, Float16, Bfloat16, C64, C128, int8_t, int16_t, int32_t,
                             int64_t, uint8_t, uint16_t, uint32_t, uint64_t>()));
const OpRegistration prod(ReductionOp("Prod", kAttrs, ProdGradient, NumberReducers<Prod>()));
// --- L2Loss: half the sum of squares
// ---------------------------------------------------------------

struct HalfOfSquares : Sum {
  template <typename T>
  static T Map(T x) {
    return x * x;
  }
  template <typename T>
  static T Finish(T acc, int64_t) {
    return acc / T(2);
  }
};

template <typename T>
class L2LossKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    const Shape flat({x.num_elements()});
    TANDEM_ASSIGN_OR_RETURN(const ReductionGeometry geometry,
                            ReductionGeometry::Make(flat, {0}, false));
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, Shape()));
    static const Reducer reducer = OneReducer<HalfOfSquares, T, T>();
    return Reduce(c, reducer, geometry, x.data(), y->mutable_data());
  }
};

absl::Status L2LossGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Mul", {g.input(0), g.OutputGradient(0)}));
  return absl::OkStatus();
}

TANDEM_OP("L2Loss")
    .Inputs("t:T")
    .Outputs("output:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(ScalarShape)
    .Gradient(L2LossGradient)
    .Cpu(ByType<L2LossKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem::math
