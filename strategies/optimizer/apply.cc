#include "strategies/optimizer/apply.h"

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/shared_scalars.h"

namespace tandem::optimizer {
namespace {

absl::Status CheckGradients(const StrategyBuilder& builder,
                            const std::vector<StrategyVariable*>& variables,
                            const std::vector<std::vector<Gradient>>& gradients) {
  if (variables.size() != gradients.size()) {
    return errors::InvalidArgument("there are ", variables.size(), " variables and gradients for ",
                                   gradients.size(), "; there must be one list for each");
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i]->spec().synchronization != Synchronization::kMirrored) {
      return errors::InvalidArgument("variable '", variables[i]->name(),
                                     "' is synchronized on read; only mirrored ones are trained");
    }
    const size_t copies = static_cast<size_t>(builder.num_copies());
    if (gradients[i].size() != copies) {
      return errors::InvalidArgument("variable '", variables[i]->name(), "' has ", copies,
                                     " copies and ", gradients[i].size(), " gradients");
    }
    for (const Gradient& gradient : gradients[i]) {
      if (gradient.exists() == gradients[i][0].exists()) continue;
      return errors::InvalidArgument("variable '", variables[i]->name(),
                                     "' has a gradient at some copies only");
    }
  }
  return absl::OkStatus();
}

bool Exists(const std::vector<Gradient>& copies) { return copies[0].exists(); }

// The number of the update in a step: float32, from 1.
absl::StatusOr<Output> UpdateNumber(const Scope& scope, const Optimizer& optimizer, Output step) {
  if (!step.valid() || step.dtype() != kInt64) {
    return errors::InvalidArgument("the number of the step must be an int64 scalar");
  }
  Output updates = step;
  if (optimizer.accumulation_steps() > 1) {
    updates = scope.Call("FloorDiv", {step, int64_t{optimizer.accumulation_steps()}});
  }
  const Output number =
      scope.Call("Cast", {scope.Call("AddV2", {updates, int64_t{1}})}, {{"DstT", kFloat32}});
  TANDEM_RETURN_IF_ERROR(scope.status());
  return number;
}

}  // namespace

absl::Status ApplyGradients(StrategyBuilder& builder, const Optimizer& optimizer,
                            const std::vector<StrategyVariable*>& variables,
                            std::vector<std::vector<Gradient>> gradients, Output learning_rate,
                            Output step) {
  TANDEM_RETURN_IF_ERROR(optimizer.Check());
  TANDEM_RETURN_IF_ERROR(CheckGradients(builder, variables, gradients));
  TANDEM_ASSIGN_OR_RETURN(
      const Output number,
      UpdateNumber(builder.host_scope().SubScope("optimizer"), optimizer, step));
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!Exists(gradients[i])) continue;
    TANDEM_RETURN_IF_ERROR(optimizer.CreateSlots(builder, *variables[i]));
    // Of parts, what was accumulated stays where they are.
    if (optimizer.accumulation_steps() > 1 && variables[i]->parts().empty()) {
      TANDEM_RETURN_IF_ERROR(
          TakeAccumulated(builder, *variables[i], optimizer.accumulation_steps(), gradients[i]));
    }
  }

  std::vector<UpdateInputs> inputs;
  for (int copy = 0; copy < builder.num_copies(); ++copy) {
    const size_t c = static_cast<size_t>(copy);
    const Scope scope = builder.CopyScope(copy).SubScope("optimizer");
    std::vector<Gradient> here;
    for (const std::vector<Gradient>& copies : gradients) here.push_back(copies[c]);
    TANDEM_ASSIGN_OR_RETURN(here, optimizer.Transform(scope, std::move(here)));
    TANDEM_RETURN_IF_ERROR(scope.status());
    if (here.size() != gradients.size()) {
      return errors::Internal("optimizer '", optimizer.name(), "' transforms ", gradients.size(),
                              " gradients into ", here.size());
    }
    for (size_t i = 0; i < here.size(); ++i) {
      if (here[i].exists()) TANDEM_RETURN_IF_ERROR(builder.HoldUpdates(here[i].values.node));
      if (optimizer.accumulation_steps() > 1 && !variables[i]->parts().empty() &&
          here[i].values != gradients[i][c].values) {
        return errors::Unimplemented("optimizer '", optimizer.name(),
                                     "' clips gradients that are accumulated on the "
                                     "servers of variable '",
                                     variables[i]->name(),
                                     "'; with parameter servers it can do one or the other");
      }
      gradients[i][c] = here[i];
    }
    inputs.push_back(
        {learning_rate, number, std::make_shared<SharedScalars>(scope, learning_rate, number)});
  }

  for (size_t i = 0; i < variables.size(); ++i) {
    if (!Exists(gradients[i])) continue;
    const StrategyVariable& variable = *variables[i];
    TANDEM_ASSIGN_OR_RETURN(std::vector<Gradient> split,
                            builder.SplitGradient(variable, gradients[i]));
    if (optimizer.accumulation_steps() > 1 && !variable.parts().empty()) {
      TANDEM_RETURN_IF_ERROR(
          TakeAccumulatedParts(builder, variable, optimizer.accumulation_steps(), split));
    }
    TANDEM_RETURN_IF_ERROR(builder.Update(
        variable, [&](const Scope& scope, Output, int copy) -> absl::StatusOr<Node*> {
          const size_t c = static_cast<size_t>(copy);
          return optimizer.Update(builder, scope.SubScope(variable.name()), variable, copy,
                                  split[c], inputs[variable.parts().empty() ? c : 0]);
        }));
  }
  return absl::OkStatus();
}

absl::Status AccumulateGradients(StrategyBuilder& builder, const Optimizer& optimizer,
                                 const std::vector<StrategyVariable*>& variables,
                                 const std::vector<std::vector<Gradient>>& gradients) {
  TANDEM_RETURN_IF_ERROR(optimizer.Check());
  TANDEM_RETURN_IF_ERROR(CheckGradients(builder, variables, gradients));
  if (optimizer.accumulation_steps() == 1) {
    return errors::FailedPrecondition("optimizer '", optimizer.name(),
                                      "' does not accumulate gradients; every step is an update");
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!Exists(gradients[i])) continue;
    TANDEM_RETURN_IF_ERROR(AddToAccumulator(builder, *variables[i], gradients[i]));
  }
  return absl::OkStatus();
}

}  // namespace tandem::optimizer
