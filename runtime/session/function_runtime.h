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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/kernel/function_runner.h"
#include "core/kernel/parameter_store.h"
#include "runtime/session/compile.h"

namespace tandem {

// Threads: any. Lifetime: belongs to a session; outlives its plans.
class FunctionRuntime final : public FunctionRunner, public HasParameterStore {
 public:
  // `options.default_device` and `options.shared_kernels` are not used: functions run where they
  // are called, and their stateful kernels are their own. `parameter_store` (may be null) is the
  // session's.
  FunctionRuntime(std::shared_ptr<FunctionLibrary> library, CompileOptions options,
                  ParameterStore* parameter_store = nullptr);

  absl::StatusOr<std::shared_ptr<FunctionHandle>> Instantiate(const FunctionRef& function,
                                                              const KernelContext& c,
                                                              bool host_results) override;
  void Run(const std::shared_ptr<FunctionHandle>& handle, const KernelContext& c,
           std::vector<Tensor> args, Done done) override;
  ParameterStore* parameter_store() const override { return parameter_store_; }

  // Where the random ops in functions stand that go on from call to call, by "<function>@<device>
  // <node>", sorted. All calls of a function on one device share its ops. Functions that were not
  // called yet have none but what SetRandomPosition gave them.
  std::vector<std::pair<std::string, Tensor>> RandomPositions() const;
  // A function that is compiled later, when it is called first, begins there; on another device
  // too, unless it was called on several. NotFound: there is no such function or op.
  // InvalidArgument: no position.
  absl::Status SetRandomPosition(const std::string& name, const Tensor& position);
  // Whether a name is one of these: names of nodes have no "@".
  static bool IsPositionInFunction(absl::string_view name) {
    return name.find('@') != absl::string_view::npos;
  }

 private:
  class Compiled;

  absl::StatusOr<std::shared_ptr<Compiled>> Compile(const FunctionRef& function,
                                                    const std::string& device,
                                                    bool host_results) const;

  const std::shared_ptr<FunctionLibrary> library_;
  const CompileOptions options_;
  ParameterStore* const parameter_store_;
  // Gives what is compiled the positions that wait for it.
  void TakePositions(const std::string& key, Compiled& compiled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<Compiled>> compiled_ ABSL_GUARDED_BY(mu_);
  // Positions in functions that are not compiled yet, by key, then by node.
  std::map<std::string, std::map<std::string, Tensor>> waiting_positions_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_FUNCTION_RUNTIME_H_
