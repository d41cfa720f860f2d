// InTopKV2: whether the score of a row's target class is among the row's k largest.
//
// Equal scores share a place, so a target that ties with the k-th counts. A row with a target out
// of range or whose comparison meets a number that is not finite counts as a miss.
#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

template <typename T>
bool IsInTopK(const float* scores, int64_t classes, T target, int64_t k) {
  if (target < 0 || target >= classes || !std::isfinite(scores[target])) return false;
  int64_t larger = 0;
  for (int64_t i = 0; i < classes; ++i) {
    if (!std::isfinite(scores[i])) return false;
    larger += scores[i] > scores[target] ? 1 : 0;
  }
  return larger < k;
}

template <typename T>
class InTopKKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& predictions = c.input(0);
    const Tensor& targets = c.input(1);
    if (!predictions.shape().IsMatrix() || !targets.shape().IsVector() ||
        predictions.shape().dim(0) != targets.shape().dim(0) || !c.input(2).shape().IsScalar()) {
      return errors::InvalidArgument("predictions of shape ", predictions.shape().DebugString(),
                                     ", targets of shape ", targets.shape().DebugString(),
                                     " and k of shape ", c.input(2).shape().DebugString(),
                                     " must be a matrix, a vector with an entry for each row and "
                                     "a scalar");
    }
    const int64_t rows = predictions.shape().dim(0);
    const int64_t classes = predictions.shape().dim(1);
    const int64_t k = c.input(2).ScalarValue<T>();
    TANDEM_ASSIGN_OR_RETURN(Tensor* const precision, c.AllocateOutput(0, Shape({rows})));
    bool* const to = precision->MutableElements<bool>().data();
    const float* const scores = predictions.Elements<float>().data();
    const T* const target = targets.Elements<T>().data();
    c.parallel().For(rows, static_cast<double>(classes), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        to[row] = IsInTopK(scores + row * classes, classes, target[row], k);
      }
    });
    return absl::OkStatus();
  }
};

absl::Status InTopKShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 0));
  const PartialShape rows =
      c.input(0).has_rank() ? PartialShape({c.input(0).dim(0)}) : PartialShape::UnknownOfRank(1);
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, rows.MergeWith(c.input(1)));
  return c.SetOutput(0, std::move(output));
}

TANDEM_OP("InTopKV2")
    .Inputs("predictions:float32, targets:T, k:T")
    .Outputs("precision:bool")
    .Attrs("T:type{int32,int64}=int32")
    .HostMemory({"k"})
    .Shape(InTopKShape)
    .Cpu(ByType<InTopKKernel, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem
