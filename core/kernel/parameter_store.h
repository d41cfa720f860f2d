// ParameterStore: how kernels reach the shards of parameter servers (runtime/parameter_server).
#ifndef TANDEM_CORE_KERNEL_PARAMETER_STORE_H_
#define TANDEM_CORE_KERNEL_PARAMETER_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"

namespace tandem {

// A call of a shard's program by a node of a step.
struct ShardCall {
  std::string route;  // A serialized parameter_server::Route, as it was fed to the step.
  int shard = 0;
  std::string program;
  bool updates = false;
  int64_t pulled_version = -1;  // Of a push: the version that its step had read, if it had.
  int results = 0;              // Of a pull: how many are expected.
  std::string node;             // For messages.
};

struct ShardAnswer {
  // Updates that the shard had applied at least: of a pull, when its reads began.
  int64_t version = 0;
  std::vector<Tensor> results;
};

// Threads: any.
class ParameterStore {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<ShardAnswer>)>;

  virtual ~ParameterStore() = default;

  // Runs the program with `arguments` (host memory); its results are in host memory, too. `done`
  // runs once, outside locks.
  //
  // InvalidArgument: the route cannot be read, or does not have the shard. Unavailable: the server
  // was lost, or the shard is not there, or is another one than the route's; names both. A push may
  // have been applied then, and may be sent again under its name. The cancellation's reason.
  // DeadlineExceeded: names the server and how long it was waited for. Errors of the program.
  virtual void Call(ShardCall call, std::vector<Tensor> arguments,
                    CancellationManager* cancellation, Done done) = 0;
};

// How the kernels of a session find its store: the session's FunctionRunner
// (StepContext::functions) is one of these, too.
class HasParameterStore {
 public:
  virtual ~HasParameterStore() = default;
  // Null: the session has none.
  virtual ParameterStore* parameter_store() const = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_PARAMETER_STORE_H_
