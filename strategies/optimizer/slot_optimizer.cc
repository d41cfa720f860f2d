#include "strategies/optimizer/slot_optimizer.h"

#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "strategies/optimizer/sparse.h"

namespace tandem::optimizer {

Output UpdateTarget::DenseGradient() const {
  return ToDense(scope_, gradient_, variable_.shape(copy_));
}

Gradient UpdateTarget::DistinctRows() const { return SumDuplicates(scope_, gradient_); }

SlotOptimizer::SlotOptimizer(std::string name, double learning_rate, Schedule schedule,
                             std::vector<Slot> slots)
    : name_(std::move(name)),
      schedule_(schedule ? std::move(schedule) : Constant(learning_rate)),
      slots_(std::move(slots)) {}

absl::Status SlotOptimizer::Check() const {
  const absl::Status& schedule = schedule_.status();
  if (!schedule.ok())
    return absl::Status(schedule.code(), absl::StrCat(name_, ": ", schedule.message()));
  return CheckOptions();
}

double SlotOptimizer::LearningRate(int64_t step) const { return schedule_(step); }

absl::StatusOr<StrategyVariable*> SlotOptimizer::FindSlot(StrategyBuilder& builder,
                                                          const StrategyVariable& variable,
                                                          const Slot& slot) const {
  return builder.Variable(
      SlotSpec(variable, absl::StrCat(name_, "/", slot.name), variable.spec().dtype, slot.initial));
}

absl::Status SlotOptimizer::CreateSlots(StrategyBuilder& builder,
                                        const StrategyVariable& variable) const {
  TANDEM_RETURN_IF_ERROR(Check());
  for (const Slot& slot : slots_) {
    TANDEM_RETURN_IF_ERROR(FindSlot(builder, variable, slot).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Node*> SlotOptimizer::Update(StrategyBuilder& builder, const Scope& scope,
                                            const StrategyVariable& variable, int copy,
                                            const Gradient& gradient,
                                            const UpdateInputs& inputs) const {
  TANDEM_RETURN_IF_ERROR(Check());
  const DataType dtype = variable.spec().dtype;
  if (dtype != kFloat32 && dtype != kFloat64 && dtype != kFloat16 && dtype != kBfloat16) {
    return errors::InvalidArgument(name_, ": variable '", variable.name(), "' is of type ",
                                   DataTypeName(dtype), "; only floating-point ones are trained");
  }
  if (!gradient.exists()) {
    return errors::InvalidArgument(name_, ": variable '", variable.name(), "' has no gradient");
  }
  std::vector<Output> slots;
  for (const Slot& slot : slots_) {
    TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* found, FindSlot(builder, variable, slot));
    slots.push_back(found->handle(copy));
  }
  SharedScalars own(scope, inputs.learning_rate, inputs.step);
  const UpdateTarget target(scope, variable, copy, gradient, std::move(slots),
                            inputs.shared ? *inputs.shared : own);
  TANDEM_ASSIGN_OR_RETURN(Node* const update, AddUpdate(target));
  TANDEM_RETURN_IF_ERROR(scope.status());
  return update;
}

absl::Status SlotOptimizer::CheckRange(absl::string_view option, double value, double low,
                                       double high, bool below) const {
  // What is not a number is in no range.
  if (value >= low && (below ? value < high : value <= high)) return absl::OkStatus();
  return errors::InvalidArgument(name_, ": ", option, " is ", value, "; it must lie in [", low,
                                 ", ", high, below ? ")" : "]");
}

absl::Status SlotOptimizer::CheckNotNegative(absl::string_view option, double value) const {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return errors::InvalidArgument(name_, ": ", option, " is ", value,
                                 "; it must be a finite number and not negative");
}

absl::Status SlotOptimizer::CheckBelowOne(const UpdateTarget& target, absl::string_view option,
                                          double value) const {
  if (RoundedTo(target.dtype(), value) < 1) return absl::OkStatus();
  return errors::InvalidArgument(
      name_, ": ", option, " = ", value, " becomes 1 in ", DataTypeName(target.dtype()),
      ", the type of variable '", target.variable().name(),
      "'; keep the variable in float32 and cast it where it is used, or choose a smaller value");
}

VariableSpec SlotSpec(const StrategyVariable& variable, absl::string_view name, DataType dtype,
                      double initial) {
  VariableSpec spec;
  spec.name = absl::StrCat(variable.name(), "/", name);
  spec.dtype = dtype;
  spec.shape = variable.spec().shape;
  spec.initializer = [dtype, shape = spec.shape, initial](const Scope& scope) {
    return scope.Call("Fill",
                      {Tensor::Vector<int64_t>(shape.dims()), FloatingScalar(dtype, initial)});
  };
  spec.part_initializer = [dtype, initial](const Scope& scope, const Shape& rows, int64_t) {
    return scope.Call("Fill",
                      {Tensor::Vector<int64_t>(rows.dims()), FloatingScalar(dtype, initial)});
  };
  spec.trainable = false;
  return spec;
}

}  // namespace tandem::optimizer
