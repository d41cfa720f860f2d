// Max, Min, All, Any: reductions that pick one of the elements.
#include <limits>

#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/math/reduce_loops.h"
#include "kernels/math/reduction_formulas.h"
#include "kernels/math/reduction_gradients.h"

namespace tandem::math {
namespace {

constexpr char kAttrs[] =
    "keep_dims:bool=False; T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,"
    "float16,uint32,uint64,qint8,quint8,qint32,qint16,quint16}; Tidx:type{int32,int64}=int32";

struct All {
  template <typename T>
  static T Neutral() {
    return true;
  }
  static bool Combine(bool acc, bool x) { return acc & x; }
  static bool Finish(bool acc, int64_t) { return acc; }
};
struct Any {
  template <typename T>
  static T Neutral() {
    return false;
  }
  static bool Combine(bool acc, bool x) { return acc | x; }
  static bool Finish(bool acc, int64_t) { return acc; }
};

template <typename Op>
std::vector<Reducer> RealReducers() {
  return Reducers<Op, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                  uint16_t, uint32_t, uint64_t>();
}

const OpRegistration max(ReductionOp("Max", kAttrs, ExtremeGradient, RealReducers<Max>()));
const OpRegistration min(ReductionOp("Min", kAttrs, ExtremeGradient, RealReducers<Min>()));

template <typename Op>
OpDefBuilder BooleanReduction(const char* name) {
  return OpDefBuilder(name)
      .Inputs("input:bool, reduction_indices:Tidx")
      .Outputs("output:bool")
      .Attrs("keep_dims:bool=False; Tidx:type{int32,int64}=int32")
      .Shape(ReductionShape)
      .HostMemory({"reduction_indices"})
      .Cpu(ReductionKernel(Reducers<Op, bool>(), ""));
}
const OpRegistration all(BooleanReduction<All>("All"));
const OpRegistration any(BooleanReduction<Any>("Any"));

}  // namespace
}  // namespace tandem::math
