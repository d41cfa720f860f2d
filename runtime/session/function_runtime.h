// FunctionRuntime: compiles and runs functions of the library for the kernels that call them.
//
// A function is compiled once for each device, and each set of attributes; its plan and its run
// states are kept, so that a call copies no graph: it takes a run state, fills the argument slots,
// and adds tasks to the step's scheduler.
#ifndef TANDEM_RUNTIME_SESSION_FUNCTION_RUNTIME_H_
#define TANDEM_RUNTIME_SESSION_FUNCTION_RUNTIME_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/kernel/function_runner.h"
#include "runtime/session/compile.h"

namespace tandem {

// Threads: any. Lifetime: belongs to a session; outlives its plans.
class FunctionRuntime final : public FunctionRunner {
 public:
  // `options.default_device` and `options.shared_kernels` are not used: functions run where they
  // are called, and their stateful kernels are their own.
  FunctionRuntime(std::shared_ptr<FunctionLibrary> library, CompileOptions options);

  absl::StatusOr<std::shared_ptr<FunctionHandle>> Instantiate(const FunctionRef& function,
                                                              const KernelContext& c,
                                                              bool host_results) override;
  void Run(const std::shared_ptr<FunctionHandle>& handle, const KernelContext& c,
           std::vector<Tensor> args, Done done) override;

 private:
  class Compiled;

  absl::StatusOr<std::shared_ptr<Compiled>> Compile(const FunctionRef& function,
                                                    const std::string& device,
                                                    bool host_results) const;

  const std::shared_ptr<FunctionLibrary> library_;
  const CompileOptions options_;
  Mutex mu_;
  std::map<std::string, std::shared_ptr<Compiled>> compiled_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_FUNCTION_RUNTIME_H_
