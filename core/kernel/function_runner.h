// FunctionRunner: how kernels of calls, conditionals and loops run functions of the library.
#ifndef TANDEM_CORE_KERNEL_FUNCTION_RUNNER_H_
#define TANDEM_CORE_KERNEL_FUNCTION_RUNNER_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"

namespace tandem {

// A function that is compiled for a device; see FunctionRunner::Instantiate.
class FunctionHandle {
 public:
  virtual ~FunctionHandle() = default;
};

// Threads: any. Belongs to a session.
class FunctionRunner {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;

  virtual ~FunctionRunner() = default;

  // Compiles the function for the device of `c`, or finds it compiled already. Cheap the second
  // time; kernels keep what it returns. With `host_results` the results lie in host memory,
  // whatever the device (a loop looks at its condition). NotFound: the library has no such
  // function.
  virtual absl::StatusOr<std::shared_ptr<FunctionHandle>> Instantiate(
      const FunctionRef& function, const KernelContext& c, bool host_results = false) = 0;

  // Runs the function as part of the step of `c`. Returns without waiting; `done` runs once with
  // the results, outside locks. Cancelling the step ends it. ResourceExhausted: calls nest too
  // deep.
  virtual void Run(const std::shared_ptr<FunctionHandle>& handle, const KernelContext& c,
                   std::vector<Tensor> args, Done done) = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_FUNCTION_RUNNER_H_
