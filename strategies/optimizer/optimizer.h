// Optimizers: how gradients change variables.
//
//   auto optimizer = optimizer::ClipByGlobalNorm(optimizer::Adam({.learning_rate = 1e-3}), 1.0);
//
// An optimizer adds its update to the graph, once for each copy of a variable, and keeps its state
// in slot variables "<variable>/<optimizer>/<slot>", mirrored like their variable. The learning
// rate and the number of the step are inputs of the step, so that schedules need no new plan.
// Whoever builds a step calls ApplyGradients (apply.h), which does all of that; clipping
// (clipping.h) and accumulation (accumulate.h) wrap another optimizer.
//
// Formulas and default values are those of keras.optimizers (Keras 3), written below with x for the
// variable, g for its gradient, lr for the learning rate, t for the number of the update, from 1.
// Differences are named where they are. The slots have Keras's names.
//
// A sparse gradient changes a variable exactly as the dense gradient would that it stands for: rows
// with equal indices are added up first, and what a rule does to elements without a gradient (the
// moments of Adam decay, momentum moves them on) is done to the rows that are not named. Sgd
// without momentum and Adagrad do nothing to those, and touch the named rows only.
//
// Types: float32 and float64; float16 and bfloat16 where the hyperparameters can be told from 1 in
// them (0.999 in bfloat16 cannot: InvalidArgument).
//
// Errors: arguments that make no optimizer (a negative rate, a wrong schedule) are InvalidArgument
// from Check, and from whatever uses the optimizer.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_
#define TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "strategies/builder.h"
#include "strategies/optimizer/schedules.h"

namespace tandem::optimizer {

class SharedScalars;

// What an update reads.
struct UpdateInputs {
  Output learning_rate;  // float32 scalar
  Output step;           // float32 scalar: the number of the update, counted from 1
  // What the updates of all variables at one copy compute but once (shared_scalars.h). Null: this
  // update shares nothing.
  std::shared_ptr<SharedScalars> shared = nullptr;
};

// What an optimizer was made with, as names and values for people, in a fixed order.
using OptionList = std::vector<std::pair<std::string, std::string>>;
// Numbers in as few digits as tell them from all others.
OptionList ListOptions(std::initializer_list<std::pair<const char*, double>> options);

// Threads: any; an optimizer does not change. One may serve several builders.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;  // "adam"
  // InvalidArgument: the optimizer was given arguments that it cannot work with.
  virtual absl::Status Check() const { return absl::OkStatus(); }
  // What decides how it changes variables, beside the learning rate: a training that is resumed
  // compares it. Wrappers add theirs. Empty: there is nothing, or it does not say.
  virtual OptionList DescribeOptions() const { return {}; }
  // Of a step, counted from 0.
  virtual double LearningRate(int64_t step) const = 0;
  // How many steps' gradients make one update: 1, or more when gradients are accumulated.
  virtual int accumulation_steps() const { return 1; }
  // Changes the reduced gradients at one copy, one a trainable variable, before the updates:
  // clipping. Gradients that do not exist stay so. Every copy computes the same.
  virtual absl::StatusOr<std::vector<Gradient>> Transform(const Scope& /*scope*/,
                                                          std::vector<Gradient> gradients) const {
    return gradients;
  }
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

// In all options a schedule takes the learning rate's place, if there is one.

// v ← momentum·v − lr·g;  x ← x + v  (with nesterov: x ← x + momentum·v − lr·g).
// Without momentum x ← x − lr·g, and no slot. Slot: momentum.
struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  Schedule schedule = {};
};
OptimizerPtr Sgd(SgdOptions options);

// Kingma and Ba, 2015; with amsgrad, Reddi et al., 2018.
// m ← m + (1 − beta1)(g − m);  v ← v + (1 − beta2)(g² − v);
// x ← x − lr·√(1 − beta2ᵗ)/(1 − beta1ᵗ) · m / (√v + epsilon);
// with amsgrad the largest v so far in v's place. Slots: momentum, velocity, velocity_hat.
struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  Schedule schedule = {};
};
OptimizerPtr Adam(AdamOptions options);

// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): x ← x − lr·weight_decay·x before
// Adam's step. Slots: as Adam, under "adamw".
struct AdamWOptions {
  double learning_rate = 0.001;
  double weight_decay = 0.004;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  // Variables whose names end so do not decay: {"bias", "gamma", "beta"}.
  std::vector<std::string> exclude = {};
  Schedule schedule = {};
};
OptimizerPtr AdamW(AdamWOptions options);

// Duchi et al., 2011. a ← a + g²;  x ← x − lr·g / (√a + epsilon), as TensorFlow's
// ResourceApplyAdagradV2 has it (Keras: √(a + epsilon); no difference that float32 could show when
// a begins at 0.1). Slot: accumulator.
struct AdagradOptions {
  double learning_rate = 0.001;
  double initial_accumulator = 0.1;
  double epsilon = 1e-7;
  Schedule schedule = {};
};
OptimizerPtr Adagrad(AdagradOptions options);

// Tieleman and Hinton, 2012. v ← rho·v + (1 − rho)·g²;  s ← momentum·s + lr·g/√(v + epsilon);
// x ← x − s. Centered: a ← rho·a + (1 − rho)·g, and v − a² in v's place.
// Slots: velocity, momentum (kept without momentum too), average_gradient.
struct RmsPropOptions {
  double learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  Schedule schedule = {};
};
OptimizerPtr RmsProp(RmsPropOptions options);

// Zeiler, 2012. a ← rho·a + (1 − rho)·g²;  u = √(d + epsilon)/√(a + epsilon)·g;
// d ← rho·d + (1 − rho)·u²;  x ← x − lr·u.
// Slots: accumulated_grad (a), accumulated_delta_var (d).
struct AdadeltaOptions {
  double learning_rate = 0.001;
  double rho = 0.95;
  double epsilon = 1e-7;
  Schedule schedule = {};
};
OptimizerPtr Adadelta(AdadeltaOptions options);

// FTRL-Proximal, McMahan et al., 2013. With n = a + g² and p = −learning_rate_power:
// z ← z + g − (nᵖ − aᵖ)/lr·x;  x ← (clip(z, −l1, l1) − z)/(nᵖ/lr + 2·l2);  a ← n.
// Elements whose z is 0 become 0, so a variable's initial value is lost at the first update.
// Keras's beta and l2_shrinkage are not offered. The learning rate must not be 0.
// Slots: accumulator, linear.
struct FtrlOptions {
  double learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;
  double l1 = 0;
  double l2 = 0;
  Schedule schedule = {};
};
OptimizerPtr Ftrl(FtrlOptions options);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_OPTIMIZER_H_
