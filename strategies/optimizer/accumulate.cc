#include "strategies/optimizer/accumulate.h"

#include <utility>

#include "core/base/status.h"
#include "strategies/optimizer/forwarding.h"
#include "strategies/optimizer/shared_scalars.h"
#include "strategies/optimizer/slot_optimizer.h"
#include "strategies/optimizer/sparse.h"

namespace tandem::optimizer {
namespace {

DataType AccumulatorType(DataType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

class AccumulatingOptimizer final : public ForwardingOptimizer {
 public:
  AccumulatingOptimizer(OptimizerPtr optimizer, int steps)
      : ForwardingOptimizer(std::move(optimizer)), steps_(steps) {}

  absl::Status Check() const override {
    if (steps_ < 1) {
      return errors::InvalidArgument("Accumulate: steps is ", steps_, "; it must be at least 1");
    }
    if (inner().accumulation_steps() != 1) {
      return errors::InvalidArgument("Accumulate: the optimizer accumulates ",
                                     inner().accumulation_steps(),
                                     " steps already; ask for the product of both instead");
    }
    return ForwardingOptimizer::Check();
  }
  OptionList DescribeOptions() const override {
    OptionList list = ForwardingOptimizer::DescribeOptions();
    for (auto& option : ListOptions({{"Accumulate", steps_}})) list.push_back(std::move(option));
    return list;
  }
  double LearningRate(int64_t step) const override {
    return inner().LearningRate(step / accumulation_steps());
  }
  // Never below 1: whoever divides by it need not have checked.
  int accumulation_steps() const override { return steps_ < 1 ? 1 : steps_; }
  absl::Status CreateSlots(StrategyBuilder& builder,
                           const StrategyVariable& variable) const override {
    TANDEM_RETURN_IF_ERROR(Check());
    if (steps_ > 1) TANDEM_RETURN_IF_ERROR(Accumulator(builder, variable).status());
    return ForwardingOptimizer::CreateSlots(builder, variable);
  }

 private:
  const int steps_;
};

}  // namespace

OptimizerPtr Accumulate(OptimizerPtr optimizer, int steps) {
  return std::make_shared<AccumulatingOptimizer>(std::move(optimizer), steps);
}

bool IsUpdateStep(const Optimizer& optimizer, int64_t step) {
  return (step + 1) % optimizer.accumulation_steps() == 0;
}

absl::StatusOr<StrategyVariable*> Accumulator(StrategyBuilder& builder,
                                              const StrategyVariable& variable) {
  return builder.Variable(
      SlotSpec(variable, "accumulate/gradient", AccumulatorType(variable.spec().dtype), 0));
}

absl::Status AddToAccumulator(StrategyBuilder& builder, const StrategyVariable& variable,
                              const std::vector<Gradient>& copies) {
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* slot, Accumulator(builder, variable));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> split,
                          builder.SplitGradient(variable, copies));
  return builder.Update(
      *slot, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Scope here = scope.SubScope(variable.name());
        const Gradient gradient = SumDuplicates(here, split[static_cast<size_t>(copy)]);
        const Output values = CastTo(here, gradient.values, slot->spec().dtype);
        Node* const add =
            gradient.is_sparse()
                ? here.AddNode("ResourceScatterAdd", {handle, gradient.indices, values})
                : here.AddNode("AssignAddVariableOp", {handle, values});
        TANDEM_RETURN_IF_ERROR(here.status());
        return add;
      });
}

absl::Status TakeAccumulated(StrategyBuilder& builder, const StrategyVariable& variable, int steps,
                             std::vector<Gradient>& copies) {
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* slot, Accumulator(builder, variable));
  const DataType dtype = slot->spec().dtype;
  std::vector<Output> sums;
  for (int copy = 0; copy < slot->num_copies(); ++copy) {
    Gradient& gradient = copies[static_cast<size_t>(copy)];
    const Scope here = builder.CopyScope(copy).SubScope(variable.name() + "/accumulate");
    const Output before = here.Call("ReadVariableOp", {slot->handle(copy)}, {{"dtype", dtype}});
    const Output last = CastTo(here, ToDense(here, gradient, variable.spec().shape), dtype);
    sums.push_back(here.Call("AddV2", {before, last}));
    const Output mean =
        here.Call("RealDiv", {sums.back(), FloatingScalar(dtype, static_cast<double>(steps))});
    gradient = Gradient(CastTo(here, mean, variable.spec().dtype));
    TANDEM_RETURN_IF_ERROR(here.status());
  }
  return builder.Update(
      *slot, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Scope here = scope.SubScope(variable.name());
        // Made from the sum, so that it is not written before it has been read.
        const Output zeros = here.Call("ZerosLike", {sums[static_cast<size_t>(copy)]});
        Node* const reset = here.AddNode("AssignVariableOp", {handle, zeros});
        TANDEM_RETURN_IF_ERROR(here.status());
        return reset;
      });
}

absl::Status TakeAccumulatedParts(StrategyBuilder& builder, const StrategyVariable& variable,
                                  int steps, std::vector<Gradient>& parts) {
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* slot, Accumulator(builder, variable));
  const DataType dtype = slot->spec().dtype;
  return builder.Update(
      *slot, [&](const Scope& scope, Output handle, int part) -> absl::StatusOr<Node*> {
        const Scope here = scope.SubScope(variable.name() + "/accumulate");
        Gradient& gradient = parts[static_cast<size_t>(part)];
        const Output before = here.Call("ReadVariableOp", {handle}, {{"dtype", dtype}});
        const Output last = CastTo(here, ToDense(here, gradient, variable.shape(part)), dtype);
        const Output sum = here.Call("AddV2", {before, last});
        const Output mean =
            here.Call("RealDiv", {sum, FloatingScalar(dtype, static_cast<double>(steps))});
        gradient = Gradient(CastTo(here, mean, variable.spec().dtype));
        // Not set to zero: what others have added meanwhile stays.
        Node* const reset = here.AddNode("AssignSubVariableOp", {handle, before});
        TANDEM_RETURN_IF_ERROR(here.status());
        return reset;
      });
}

}  // namespace tandem::optimizer
