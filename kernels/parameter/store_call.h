// What the kernels that call a shard of a parameter server have in common.
#ifndef TANDEM_KERNELS_PARAMETER_STORE_CALL_H_
#define TANDEM_KERNELS_PARAMETER_STORE_CALL_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/function_runner.h"
#include "core/kernel/kernel.h"
#include "core/kernel/parameter_store.h"

namespace tandem {

class StoreCall {
 public:
  explicit StoreCall(bool updates) { call_.updates = updates; }

  void Init(KernelInit& init) {
    call_.shard = static_cast<int>(init.Attr<int64_t>("shard"));
    call_.program = init.Attr<std::string>("program");
    call_.results = call_.updates ? 0 : init.num_outputs() - 1;
    call_.node = std::string(init.node_name());
  }

  // Calls the step's store with the route in input 0 and the inputs from `first_argument` on.
  void Start(KernelContext& c, int64_t pulled_version, int first_argument,
             ParameterStore::Done done) const {
    absl::StatusOr<ShardCall> call = Prepare(c, pulled_version);
    const auto* const session = dynamic_cast<const HasParameterStore*>(c.step().functions);
    ParameterStore* const store = session == nullptr ? nullptr : session->parameter_store();
    if (call.ok() && store == nullptr) {
      call = errors::FailedPrecondition(
          "the session has no way to parameter servers (SessionOptions::parameter_store)");
    }
    if (!call.ok()) {
      done(call.status());
      return;
    }
    std::vector<Tensor> arguments;
    for (int i = first_argument; i < c.num_inputs(); ++i) arguments.push_back(c.TakeInput(i));
    store->Call(*std::move(call), std::move(arguments), c.step().cancellation, std::move(done));
  }

 private:
  absl::StatusOr<ShardCall> Prepare(const KernelContext& c, int64_t pulled_version) const {
    const Tensor& route = c.input(0);
    if (route.num_elements() != 1) {
      return errors::InvalidArgument("the route is a string scalar, not string",
                                     route.shape().DebugString());
    }
    ShardCall call = call_;
    call.route = route.ScalarValue<std::string>();
    call.pulled_version = pulled_version;
    return call;
  }

  ShardCall call_;  // But for the route and the version.
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_PARAMETER_STORE_CALL_H_
