// Optimizers: how gradients change variables.
//
//   auto optimizer = optimizer::Adam({.learning_rate = 1e-3});
//
// An optimizer adds its update to the graph, once for each copy of a variable, and keeps its state
// in slot variables "<variable>/<optimizer>/<slot>", mirrored like their variable. The learning
// rate and the number of the step are inputs of the step, so that schedules need no new plan.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_
#define TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "strategies/builder.h"

namespace tandem::optimizer {

// The learning rate of a step (counted from 0).
using Schedule = std::function<double(int64_t step)>;
Schedule Constant(double learning_rate);
// learning_rate · rate^(step / decay_steps); with `staircase` the exponent is cut to a whole
// number.
Schedule ExponentialDecay(double learning_rate, int64_t decay_steps, double rate,
                          bool staircase = false);

// What an update reads, on the device of the copy.
struct UpdateInputs {
  Output learning_rate;  // float32 scalar
  Output step;           // float32 scalar, counted from 1
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;  // "adam"
  virtual double LearningRate(int64_t step) const = 0;
  // Creates the slots of a variable.
  virtual absl::Status CreateSlots(StrategyBuilder& builder,
                                   const StrategyVariable& variable) const = 0;
  // Adds the update of one copy. Returns the node after which it is done.
  virtual absl::StatusOr<Node*> Update(StrategyBuilder& builder, const Scope& scope,
                                       const StrategyVariable& variable, int copy,
                                       const Gradient& gradient,
                                       const UpdateInputs& inputs) const = 0;
};

using OptimizerPtr = std::shared_ptr<const Optimizer>;

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  Schedule schedule;  // Replaces learning_rate.
};
// v ← momentum·v + g;  x ← x − lr·v  (with nesterov: x ← x − lr·(g + momentum·v))
OptimizerPtr Sgd(SgdOptions options);

struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  Schedule schedule;
};
// Kingma and Ba, 2015, in the form of TensorFlow's ResourceApplyAdam.
OptimizerPtr Adam(AdamOptions options);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_
