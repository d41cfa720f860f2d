// _TandemFirstReplica: how many replicas of a strategy are in the processes before this one. It is
// asked when a step runs, since members come and go and a graph holds no ranks; stateful, so that
// no pass takes what it once said for a constant. Made by strategies only; never part of an
// exported graph.
#include <string>

#include "core/base/status.h"
#include "core/kernel/collective.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

class FirstReplicaKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    group_ = init.Attr<std::string>("group");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const CollectiveRuntime* const collectives = c.step().collectives;
    if (collectives == nullptr) {
      return errors::FailedPrecondition("this step runs outside a strategy: there are no replicas");
    }
    TANDEM_ASSIGN_OR_RETURN(const CollectiveGroup group, collectives->Group(group_));
    TANDEM_ASSIGN_OR_RETURN(Tensor * first, c.AllocateOutput(0, Shape()));
    first->MutableElements<int64_t>()[0] = group.first;
    return absl::OkStatus();
  }

 private:
  std::string group_;
};

TANDEM_OP("_TandemFirstReplica")
    .Outputs("first:int64")
    .Attrs("group:string")
    .Stateful()
    .Shape(ScalarShape)
    .HostMemory({"first"})
    .Cpu(Make<FirstReplicaKernel>());

}  // namespace
}  // namespace tandem
