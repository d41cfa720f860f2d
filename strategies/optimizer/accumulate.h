// Accumulation: several steps' gradients make one update, so that a batch may be larger than what
// fits into memory at once.
//
// With n steps, the first n-1 only add their reduced gradients to the slot
// "<variable>/accumulate/gradient"; the n-th takes the mean over all n, clips and applies it, and
// sets the slots to zero. These are two different steps, that is, two signatures of the graph:
//
//   "accumulate"  … ReduceGradients, then AccumulateGradients (apply.h)
//   "train"       … ReduceGradients, then ApplyGradients (apply.h)
//
// and step s (from 0) runs "train" when IsUpdateStep(optimizer, s). With n = 1 "accumulate" is
// never run and need not be built. Both are given the number of the step, not of the update; the
// learning rate (LearningRate(s)) and Adam's t follow the number of updates before it, s / n.
//
// Slots are as wide as float32 for float16 and bfloat16 variables, and dense for sparse gradients.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_ACCUMULATE_H_
#define TANDEM_STRATEGIES_OPTIMIZER_ACCUMULATE_H_

#include <cstdint>
#include <vector>

#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {

// InvalidArgument from Check: fewer than one step, or an optimizer that accumulates already.
OptimizerPtr Accumulate(OptimizerPtr optimizer, int steps);

// Whether the step, counted from 0, updates the variables.
bool IsUpdateStep(const Optimizer& optimizer, int64_t step);

// --- What apply.h is made of

// The slot of a variable. It is created when there is none.
absl::StatusOr<StrategyVariable*> Accumulator(StrategyBuilder& builder,
                                              const StrategyVariable& variable);

// Adds the gradients at all copies to the variable's slot.
absl::Status AddToAccumulator(StrategyBuilder& builder, const StrategyVariable& variable,
                              const std::vector<Gradient>& copies);

// Replaces the gradients at all copies by the means of `steps` gradients, of which these are the
// last, and sets the slot to zero.
absl::Status TakeAccumulated(StrategyBuilder& builder, const StrategyVariable& variable, int steps,
                             std::vector<Gradient>& copies);
// The same of a variable that has parts, with the gradient of each
// (StrategyBuilder::SplitGradient): where they are, from what all workers give, and nothing but
// that travels.
absl::Status TakeAccumulatedParts(StrategyBuilder& builder, const StrategyVariable& variable,
                                  int steps, std::vector<Gradient>& parts);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_ACCUMULATE_H_
