// What a step does with its reduced gradients. Whoever builds a training step calls this, between
// the builder's ReduceGradients and EndStep:
//
//   TANDEM_ASSIGN_OR_RETURN(auto reduced, builder.ReduceGradients(gradients));
//   TANDEM_RETURN_IF_ERROR(
//       optimizer::ApplyGradients(builder, *optimizer, variables, reduced, learning_rate, step));
//
// An optimizer that accumulates (Optimizer::accumulation_steps() > 1) needs a second step, which
// calls AccumulateGradients instead; accumulate.h says when which of them runs.
//
// Variables without a gradient are left alone. Slots are created on the way; the builder's
// initializer sets them, too.
//
// Errors: InvalidArgument, the optimizer's Check, gradients that do not fit the variables, or a
// variable that is not mirrored.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_APPLY_H_
#define TANDEM_STRATEGIES_OPTIMIZER_APPLY_H_

#include <vector>

#include "absl/status/status.h"
#include "strategies/builder.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {

// Transforms the gradients (clipping) and updates the variables. `gradients` as ReduceGradients
// gives them, [variable][copy]. `learning_rate`: float32 scalar, LearningRate(step). `step`: int64
// scalar, counted from 0, on the host.
absl::Status ApplyGradients(StrategyBuilder& builder, const Optimizer& optimizer,
                            const std::vector<StrategyVariable*>& variables,
                            std::vector<std::vector<Gradient>> gradients, Output learning_rate,
                            Output step);

// Only adds the gradients to what has been accumulated. FailedPrecondition: the optimizer does not
// accumulate.
absl::Status AccumulateGradients(StrategyBuilder& builder, const Optimizer& optimizer,
                                 const std::vector<StrategyVariable*>& variables,
                                 const std::vector<std::vector<Gradient>>& gradients);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_APPLY_H_
