#include "strategies/builder.h"

#include "core/base/status.h"
#include "core/op/gradients.h"

namespace tandem {

int ReplicaContext::num_replicas() const { return builder_->num_replicas(); }

Output ReplicaContext::step() const { return builder_->CurrentStep(); }

bool ReplicaContext::has_step() const { return step().valid(); }

Output ReplicaContext::StepSeed(int64_t seed) const {
  // More replicas than this would share their random numbers with those of another step.
  constexpr int64_t kMostReplicas = 1 << 20;
  const Output first = builder_->FirstReplica();
  Input replica = static_cast<int64_t>(replica_);
  if (first.valid()) replica = scope_.Call("AddV2", {first, replica});
  const Output position =
      scope_.Call("AddV2", {scope_.Call("Mul", {step(), kMostReplicas}), replica});
  return scope_.Call("Pack", {Tensor::Scalar<int64_t>(seed), position});
}

absl::Status ReplicaContext::Assign(const StrategyVariable& variable, Output value) const {
  return builder_->AssignVariable(replica_, variable, value);
}

Output ReplicaContext::Read(const StrategyVariable& variable) const {
  return builder_->ReadVariable(replica_, variable, scope_);
}

Output ReplicaContext::Lookup(const StrategyVariable& variable, Output ids,
                              const Scope& scope) const {
  return builder_->LookUp(replica_, variable, ids, scope_, scope);
}

absl::StatusOr<std::vector<Gradient>> ReplicaContext::Gradients(
    Output loss, const std::vector<StrategyVariable*>& variables) const {
  return builder_->GradientsOf(replica_, loss, variables, scope_);
}

Output ReplicaContext::Handle(const StrategyVariable& variable) const {
  return variable.handle(variable.spec().synchronization == Synchronization::kOnRead
                             ? replica_
                             : builder_->copy_of(replica_));
}

std::vector<Output> ReplicaContext::AllReduce(Reduction reduction,
                                              const std::vector<Output>& values) const {
  return builder_->AllReduce(replica_, reduction, values, scope_);
}

Output StrategyBuilder::LookUp(int replica, const StrategyVariable& variable, const Output& ids,
                               const Scope& read_scope, const Scope& scope) {
  const Output whole = ReadVariable(replica, variable, read_scope);
  return scope.Call("GatherV2", {whole, ids, Tensor::Scalar<int32_t>(0)});
}

absl::StatusOr<std::vector<Gradient>> StrategyBuilder::GradientsOf(
    int replica, const Output& loss, const std::vector<StrategyVariable*>& variables,
    const Scope& scope) {
  std::vector<Output> values;
  for (const StrategyVariable* variable : variables) {
    values.push_back(ReadVariable(replica, *variable, scope));
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return AddGradients(graph(), {loss}, values);
}

absl::StatusOr<std::vector<Gradient>> StrategyBuilder::SplitGradient(
    const StrategyVariable&, const std::vector<Gradient>& copies) {
  return copies;
}

absl::StatusOr<Output> StrategyBuilder::ReduceToHost(Reduction reduction,
                                                     const PerReplica& values) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> results, ReduceAllToHost(reduction, {values}));
  return results[0];
}

absl::Status StrategyBuilder::Run(
    absl::FunctionRef<absl::Status(const ReplicaContext& replica)> replica_fn) {
  for (int replica = 0; replica < num_replicas(); ++replica) {
    const ReplicaContext context(this, replica, ReplicaScope(replica));
    TANDEM_RETURN_IF_ERROR(replica_fn(context));
    TANDEM_RETURN_IF_ERROR(context.scope().status());
  }
  return absl::OkStatus();
}

}  // namespace tandem
