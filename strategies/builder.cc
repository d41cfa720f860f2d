#include "strategies/builder.h"

#include "core/base/status.h"

namespace tandem {

int ReplicaContext::num_replicas() const { return builder_->num_replicas(); }

Output ReplicaContext::Read(const StrategyVariable& variable) const {
  return builder_->ReadVariable(replica_, variable, scope_);
}

Output ReplicaContext::Handle(const StrategyVariable& variable) const {
  return variable.handle(variable.spec().synchronization == Synchronization::kOnRead
                             ? replica_
                             : builder_->copy_of(replica_));
}

std::vector<Output> ReplicaContext::AllReduce(ReduceOp op,
                                              const std::vector<Output>& values) const {
  return builder_->AllReduce(replica_, op, values, scope_);
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
