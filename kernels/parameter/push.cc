// _TandemPush: runs a program of a parameter server's shard that updates
// (runtime/parameter_server). The route names the push, so that it counts once however often its
// step is run. Made by strategies only.
#include <cstdint>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/parameter/store_call.h"

namespace tandem {
namespace {

class PushKernel final : public AsyncKernel {
 public:
  absl::Status Init(KernelInit& init) {
    call_.Init(init);
    return absl::OkStatus();
  }

  void Start(KernelContext& c, Done done) override {
    const Tensor& version = c.input(1);
    if (version.num_elements() != 1) {
      done(errors::InvalidArgument("the pulled version is a scalar, not int64",
                                   version.shape().DebugString()));
      return;
    }
    call_.Start(c, version.ScalarValue<int64_t>(), /*first_argument=*/2,
                [done = std::move(done)](const absl::StatusOr<ShardAnswer>& answer) mutable {
                  done(answer.status());
                });
  }

 private:
  StoreCall call_{/*updates=*/true};
};

// A pulled version of -1: its step has read nothing.
TANDEM_OP("_TandemPush")
    .Inputs("route:string, pulled_version:int64, inputs:Tin")
    .Attrs("shard:int>=0; program:string; Tin:list(type)>=0")
    .Stateful()
    .Shape(NoOutputs)
    .HostMemory({"route", "pulled_version", "inputs"})
    .Cpu(Make<PushKernel>());

}  // namespace
}  // namespace tandem
