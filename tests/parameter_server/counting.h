// A step that counts itself, on every server: if each of them says n, n steps have updated it,
// once.
#ifndef TANDEM_TESTS_PARAMETER_SERVER_COUNTING_H_
#define TANDEM_TESTS_PARAMETER_SERVER_COUNTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/passes/prune.h"
#include "strategies/builder.h"
#include "strategies/strategy.h"

namespace tandem::testing {

// Variables counter_0 … counter_<servers - 1>, one a server (they are placed one after the other),
// It fetches the sum of the counters that it has read before.
struct CountingStep {
  RunSignature signature;
  std::vector<std::string> counters;
};

inline absl::StatusOr<CountingStep> BuildCountingStep(StrategyBuilder& builder, int servers,
                                                      const std::string& name = "count") {
  CountingStep step;
  std::vector<StrategyVariable*> counters;
  for (int i = 0; i < servers; ++i) {
    VariableSpec spec;
    spec.name = absl::StrCat("counter_", i);
    // Whole numbers, but of a type that is scaled where parts of a step are left out.
    spec.dtype = kFloat64;
    spec.initializer = [](const Scope& scope) { return scope.Constant(0.0); };
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * counter, builder.Variable(spec));
    counters.push_back(counter);
    step.counters.push_back(spec.name);
  }
  const Scope host = builder.host_scope();
  const Output amount =
      host.WithOpName(name + "_amount")
          .Call("Placeholder", {}, {{"dtype", kFloat64}, {"shape", PartialShape({-1})}});
  TANDEM_RETURN_IF_ERROR(builder.BeginStep(name));
  Output before;
  Output total;
  TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) -> absl::Status {
    InputList values;
    for (StrategyVariable* counter : counters) values.emplace_back(replica.Read(*counter));
    before = replica.scope().Call("AddN", values);
    total = replica.scope().Call("Sum", {amount, replica.scope().Constant(0)});
    return replica.scope().status();
  }));
  for (StrategyVariable* counter : counters) {
    TANDEM_RETURN_IF_ERROR(builder.Update(
        *counter, [&](const Scope& scope, Output handle, int) -> absl::StatusOr<Node*> {
          return scope.AddNode("AssignAddVariableOp", {handle, total});
        }));
  }
  TANDEM_ASSIGN_OR_RETURN(Node * done, builder.EndStep());
  TANDEM_RETURN_IF_ERROR(host.status());
  step.signature.feeds = {amount.name()};
  step.signature.fetches = {before.name()};
  step.signature.targets = {done->name()};
  return step;
}

inline int64_t CountIn(const Tensor& counter) {
  return static_cast<int64_t>(counter.ScalarValue<double>());
}

// What a step of it is given: a batch of ones.
inline StepInput CountingInput(int64_t ones = 1) {
  StepInput input;
  Tensor batch(kFloat64, Shape({ones}));
  for (double& value : batch.MutableElements<double>()) value = 1;
  input.batch = {std::move(batch)};
  return input;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_PARAMETER_SERVER_COUNTING_H_
