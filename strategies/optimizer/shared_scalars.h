// The scalars that all updates at one copy of the variables read: the learning rate, powers,
// constants. Each is added to the graph once and then handed out again, so that a step has one node
// for it however many variables there are, and updates that read the same numbers read the very
// same edges, by which a pass can tell that they may become one node.
//
// Scalars of float16 and bfloat16 are computed in float32 and rounded once.
//
// Threads: one.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_SHARED_SCALARS_H_
#define TANDEM_STRATEGIES_OPTIMIZER_SHARED_SCALARS_H_

#include <map>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "core/graph/scope.h"
#include "core/tensor/tensor.h"

namespace tandem::optimizer {

// A scalar of a floating type (float32 for all other types).
Tensor FloatingScalar(DataType dtype, double value);
// The value as `dtype` holds it.
double RoundedTo(DataType dtype, double value);

// `value` as `dtype`: itself if it is of that type. Invalid after an error of the scope.
Output CastTo(const Scope& scope, const Output& value, DataType dtype);

class SharedScalars {
 public:
  // Nodes are added to `scope`. `learning_rate` and `step` are numeric scalars.
  SharedScalars(const Scope& scope, Output learning_rate, Output step)
      : scope_(scope.WithoutControlDependencies()), learning_rate_(learning_rate), step_(step) {}

  // All of them scalars of `dtype`; invalid after an error of the scope.
  Output Constant(DataType dtype, double value);
  Output LearningRate(DataType dtype);
  // learning_rate · factor
  Output ScaledRate(DataType dtype, double factor);
  // base^step, for the base as `dtype` holds it.
  Output Power(DataType dtype, double base);

 private:
  enum class Kind { kConstant, kLearningRate, kScaledRate, kStep, kPower };

  // Calls `make` when there is no such scalar yet.
  Output Once(Kind kind, DataType dtype, double value, absl::FunctionRef<Output()> make);
  Output CastOnce(Kind kind, const Output& value, DataType dtype);

  const Scope scope_;
  const Output learning_rate_;
  const Output step_;
  std::map<std::tuple<Kind, DataType, double>, Output> made_;  // Looked up only.
};

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_SHARED_SCALARS_H_
