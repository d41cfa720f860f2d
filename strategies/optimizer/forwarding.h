// ForwardingOptimizer: does what another optimizer does; for wrappers, which change a part.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_FORWARDING_H_
#define TANDEM_STRATEGIES_OPTIMIZER_FORWARDING_H_

#include <string>
#include <utility>
#include <vector>

#include "strategies/optimizer/optimizer.h"

namespace tandem::optimizer {

class ForwardingOptimizer : public Optimizer {
 public:
  std::string name() const override { return inner_->name(); }
  absl::Status Check() const override { return inner_->Check(); }
  OptionList DescribeOptions() const override { return inner_->DescribeOptions(); }
  double LearningRate(int64_t step) const override { return inner_->LearningRate(step); }
  int accumulation_steps() const override { return inner_->accumulation_steps(); }
  absl::StatusOr<std::vector<Gradient>> Transform(const Scope& scope,
                                                  std::vector<Gradient> gradients) const override {
    return inner_->Transform(scope, std::move(gradients));
  }
  absl::Status CreateSlots(StrategyBuilder& builder,
                           const StrategyVariable& variable) const override {
    return inner_->CreateSlots(builder, variable);
  }
  absl::StatusOr<Node*> Update(StrategyBuilder& builder, const Scope& scope,
                               const StrategyVariable& variable, int copy, const Gradient& gradient,
                               const UpdateInputs& inputs) const override {
    return inner_->Update(builder, scope, variable, copy, gradient, inputs);
  }

 protected:
  // A null optimizer becomes one that answers InvalidArgument to everything.
  explicit ForwardingOptimizer(OptimizerPtr inner);
  const Optimizer& inner() const { return *inner_; }

 private:
  const OptimizerPtr inner_;
};

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_FORWARDING_H_
