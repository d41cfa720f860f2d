// Sparse gradients, made into what the dense ones are that they stand for.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_SPARSE_H_
#define TANDEM_STRATEGIES_OPTIMIZER_SPARSE_H_

#include "core/graph/scope.h"
#include "core/op/gradient_context.h"
#include "core/tensor/shape.h"

namespace tandem::optimizer {

// The same gradient with each row named once: rows with equal indices are added up, in the order in
// which they occur. Dense gradients stay as they are. Costs a look at the indices when no row is
// named twice.
Gradient SumDuplicates(const Scope& scope, const Gradient& gradient);

// The gradient as a tensor of the variable's shape; zero in rows that are not named. REQUIRES: a
// variable with a sparse gradient is no scalar.
Output ToDense(const Scope& scope, const Gradient& gradient, const Shape& variable);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_SPARSE_H_
