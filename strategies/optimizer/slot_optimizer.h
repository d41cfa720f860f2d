// SlotOptimizer: what the optimizers share. One of them says which slots it keeps, whether its
// options make sense, and which op updates a variable; see any of the files beside this.
#ifndef TANDEM_STRATEGIES_OPTIMIZER_SLOT_OPTIMIZER_H_
#define TANDEM_STRATEGIES_OPTIMIZER_SLOT_OPTIMIZER_H_

#include <string>
#include <vector>

#include "strategies/optimizer/optimizer.h"
#include "strategies/optimizer/shared_scalars.h"

namespace tandem::optimizer {

// One update to be added: a variable at one copy, and what goes into the op. The outputs are
// invalid after an error of the scope.
class UpdateTarget {
 public:
  UpdateTarget(Scope scope, const StrategyVariable& variable, int copy, Gradient gradient,
               std::vector<Output> slots, SharedScalars& scalars)
      : scope_(std::move(scope)),
        variable_(variable),
        copy_(copy),
        gradient_(gradient),
        slots_(std::move(slots)),
        scalars_(scalars) {}

  const Scope& scope() const { return scope_; }
  const StrategyVariable& variable() const { return variable_; }
  DataType dtype() const { return variable_.spec().dtype; }
  bool is_sparse() const { return gradient_.is_sparse(); }

  // Handles of the variable and of a slot, by its place in the optimizer's list.
  Output handle() const { return variable_.handle(copy_); }
  Output slot(size_t i) const { return slots_[i]; }
  // Scalars of the variable's type.
  Output learning_rate() const { return scalars_.LearningRate(dtype()); }
  Output Number(double value) const { return scalars_.Constant(dtype(), value); }
  SharedScalars& scalars() const { return scalars_; }

  // The gradient, of the shape of the copy or part.
  Output DenseGradient() const;
  // The gradient with no row named twice.
  Gradient DistinctRows() const;

 private:
  const Scope scope_;
  const StrategyVariable& variable_;
  const int copy_;
  const Gradient gradient_;
  const std::vector<Output> slots_;
  SharedScalars& scalars_;
};

class SlotOptimizer : public Optimizer {
 public:
  struct Slot {
    std::string name;
    double initial = 0;
  };

  std::string name() const override { return name_; }
  absl::Status Check() const override;
  double LearningRate(int64_t step) const override;
  absl::Status CreateSlots(StrategyBuilder& builder,
                           const StrategyVariable& variable) const override;
  absl::StatusOr<Node*> Update(StrategyBuilder& builder, const Scope& scope,
                               const StrategyVariable& variable, int copy, const Gradient& gradient,
                               const UpdateInputs& inputs) const override;

 protected:
  // The schedule is used if there is one.
  SlotOptimizer(std::string name, double learning_rate, Schedule schedule, std::vector<Slot> slots);

  const Schedule& schedule() const { return schedule_; }
  virtual absl::Status CheckOptions() const = 0;
  // Adds the update. Null after an error of the scope.
  virtual absl::StatusOr<Node*> AddUpdate(const UpdateTarget& target) const = 0;

  // InvalidArgument unless `value` lies in [low, high], or in [low, high) with `below`.
  absl::Status CheckRange(absl::string_view option, double value, double low, double high,
                          bool below = false) const;
  absl::Status CheckNotNegative(absl::string_view option, double value) const;
  // InvalidArgument: the variable's type is too coarse to tell `value`, which is below 1, from 1.
  absl::Status CheckBelowOne(const UpdateTarget& target, absl::string_view option,
                             double value) const;

 private:
  absl::StatusOr<StrategyVariable*> FindSlot(StrategyBuilder& builder,
                                             const StrategyVariable& variable,
                                             const Slot& slot) const;

  const std::string name_;
  const Schedule schedule_;
  const std::vector<Slot> slots_;
};

// The spec of a variable that goes with another one: of its shape, not trained.
VariableSpec SlotSpec(const StrategyVariable& variable, absl::string_view name, DataType dtype,
                      double initial);

}  // namespace tandem::optimizer

#endif  // TANDEM_STRATEGIES_OPTIMIZER_SLOT_OPTIMIZER_H_
