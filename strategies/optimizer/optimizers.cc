#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "strategies/nn/layer.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {
namespace {

// What all optimizers share: the schedule and the names of slots.
class SlotOptimizer : public Optimizer {
 public:
  SlotOptimizer(std::string name, Schedule schedule, std::vector<std::string> slots)
      : name_(std::move(name)), schedule_(std::move(schedule)), slots_(std::move(slots)) {}

  std::string name() const override { return name_; }
  double LearningRate(int64_t step) const override { return schedule_(step); }

  absl::Status CreateSlots(StrategyBuilder& builder,
                           const StrategyVariable& variable) const override {
    for (const std::string& slot : slots_) {
      TANDEM_RETURN_IF_ERROR(Slot(builder, variable, slot).status());
    }
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<StrategyVariable*> Slot(StrategyBuilder& builder, const StrategyVariable& variable,
                                         const std::string& slot) const {
    VariableSpec spec;
    spec.name = absl::StrCat(variable.name(), "/", name_, "/", slot);
    spec.dtype = variable.spec().dtype;
    spec.shape = variable.spec().shape;
    spec.initializer = nn::Zeros(spec.dtype, spec.shape);
    spec.trainable = false;
    return builder.Variable(spec);
  }

  // A number of the variable's type.
  static Tensor Number(const StrategyVariable& variable, double value) {
    return variable.spec().dtype == kFloat64 ? Tensor::Scalar<double>(value)
                                             : Tensor::Scalar<float>(static_cast<float>(value));
  }
  static Output Cast(const Scope& scope, const StrategyVariable& variable, Output value) {
    if (variable.spec().dtype == value.dtype()) return value;
    return scope.Call("Cast", {value}, {{"DstT", variable.spec().dtype}});
  }
  static absl::StatusOr<Node*> Checked(const Scope& scope, Node* node) {
    TANDEM_RETURN_IF_ERROR(scope.status());
    return node;
  }

  const std::string name_;
  const Schedule schedule_;
  const std::vector<std::string> slots_;
};

class SgdOptimizer final : public SlotOptimizer {
 public:
  SgdOptimizer(SgdOptions options, Schedule schedule)
      : SlotOptimizer("sgd", std::move(schedule),
                      options.momentum != 0 ? std::vector<std::string>{"momentum"}
                                            : std::vector<std::string>{}),
        options_(std::move(options)) {}

  absl::StatusOr<Node*> Update(StrategyBuilder& builder, const Scope& scope,
                               const StrategyVariable& variable, int copy, const Gradient& gradient,
                               const UpdateInputs& inputs) const override {
    const Output lr = Cast(scope, variable, inputs.learning_rate);
    const Output handle = variable.handle(copy);
    if (options_.momentum == 0) {
      if (gradient.is_sparse()) {
        const Output step = scope.Call("Mul", {gradient.values, lr});
        return Checked(scope,
                       scope.AddNode("ResourceScatterSub", {handle, gradient.indices, step}));
      }
      return Checked(scope,
                     scope.AddNode("ResourceApplyGradientDescent", {handle, lr, gradient.values}));
    }
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * slot, Slot(builder, variable, "momentum"));
    const Tensor momentum = Number(variable, options_.momentum);
    const AttrMap attrs = {{"use_nesterov", options_.nesterov}};
    if (gradient.is_sparse()) {
      return Checked(scope, scope.AddNode("ResourceSparseApplyMomentum",
                                          {handle, slot->handle(copy), lr, gradient.values,
                                           gradient.indices, momentum},
                                          attrs));
    }
    return Checked(
        scope, scope.AddNode("ResourceApplyMomentum",
                             {handle, slot->handle(copy), lr, gradient.values, momentum}, attrs));
  }

 private:
  const SgdOptions options_;
};

class AdamOptimizer final : public SlotOptimizer {
 public:
  AdamOptimizer(AdamOptions options, Schedule schedule)
      : SlotOptimizer("adam", std::move(schedule), {"m", "v"}), options_(std::move(options)) {}

  absl::StatusOr<Node*> Update(StrategyBuilder& builder, const Scope& scope,
                               const StrategyVariable& variable, int copy, const Gradient& gradient,
                               const UpdateInputs& inputs) const override {
    if (gradient.is_sparse()) {
      return errors::Unimplemented("variable '", variable.name(),
                                   "' has a sparse gradient; Adam takes dense ones only");
    }
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * m, Slot(builder, variable, "m"));
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * v, Slot(builder, variable, "v"));
    const Tensor beta1 = Number(variable, options_.beta1);
    const Tensor beta2 = Number(variable, options_.beta2);
    const Output step = Cast(scope, variable, inputs.step);
    return Checked(
        scope, scope.AddNode("ResourceApplyAdam",
                             {variable.handle(copy), m->handle(copy), v->handle(copy),
                              scope.Call("Pow", {beta1, step}), scope.Call("Pow", {beta2, step}),
                              Cast(scope, variable, inputs.learning_rate), beta1, beta2,
                              Number(variable, options_.epsilon), gradient.values}));
  }

 private:
  const AdamOptions options_;
};

Schedule OrConstant(Schedule schedule, double learning_rate) {
  return schedule ? std::move(schedule) : Constant(learning_rate);
}

}  // namespace

Schedule Constant(double learning_rate) {
  return [learning_rate](int64_t) { return learning_rate; };
}

Schedule ExponentialDecay(double learning_rate, int64_t decay_steps, double rate, bool staircase) {
  return [=](int64_t step) {
    double exponent = static_cast<double>(step) / static_cast<double>(decay_steps);
    if (staircase) exponent = std::floor(exponent);
    return learning_rate * std::pow(rate, exponent);
  };
}

OptimizerPtr Sgd(SgdOptions options) {
  Schedule schedule = OrConstant(options.schedule, options.learning_rate);
  return std::make_shared<SgdOptimizer>(std::move(options), std::move(schedule));
}

OptimizerPtr Adam(AdamOptions options) {
  Schedule schedule = OrConstant(options.schedule, options.learning_rate);
  return std::make_shared<AdamOptimizer>(std::move(options), std::move(schedule));
}

}  // namespace tandem::optimizer
