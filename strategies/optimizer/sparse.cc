#include "strategies/optimizer/sparse.h"

#include <vector>

#include "core/base/status.h"

namespace tandem::optimizer {

Gradient SumDuplicates(const Scope& scope, const Gradient& gradient) {
  if (!gradient.is_sparse()) return gradient;
  const std::vector<Output> sums =
      scope.CallMulti("_TandemSumDuplicates", {gradient.values, gradient.indices});
  if (sums.size() != 2) return {};  // The scope keeps the error.
  return Gradient(sums[0], sums[1], gradient.dense_shape);
}

Output ToDense(const Scope& scope, const Gradient& gradient, const Shape& variable) {
  if (!gradient.is_sparse()) return gradient.values;
  if (variable.rank() < 1) {
    scope.UpdateStatus(
        errors::InvalidArgument("a sparse gradient was given for a scalar, which has no rows"));
    return {};
  }
  return scope.Call("UnsortedSegmentSum",
                    {gradient.values, gradient.indices, Tensor::Scalar<int64_t>(variable.dim(0))});
}

}  // namespace tandem::optimizer
