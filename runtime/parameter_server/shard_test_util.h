// What the tests of shards share: a shard with variables and programs of many kinds, calls that are
// waited for, and kernels that wait or fail when a test says so.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_TEST_UTIL_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"
#include "runtime/parameter_server/shard.h"

namespace tandem::parameter_server {

// What a shard is given.
struct Definition {
  tensorflow::GraphDef graph;
  std::vector<Program> programs;
  std::vector<Variable> variables;
};

// Makes one, node by node; devices of the nodes are those of shard 1 of a job.
class DefinitionBuilder {
 public:
  // The handle of a variable.
  Output AddVariable(const std::string& name, DataType dtype, const PartialShape& shape);
  Output AddPlaceholder(const std::string& name, DataType dtype, const PartialShape& shape = {});
  // A program; feeds and fetches by the names of their nodes.
  Program& AddPush(const std::string& name, std::vector<std::string> feeds,
                   std::vector<std::string> targets, std::vector<Combination> combinations = {});
  Program& AddPull(const std::string& name, std::vector<std::string> feeds,
                   std::vector<std::string> fetches);
  const Scope& scope() const { return scope_; }
  Definition Finish();

 private:
  Scope scope_ = Scope::NewRoot().WithDevice("/job:ps/task:1");
  std::vector<Program> programs_;
  std::vector<Variable> variables_;
};

// Variables count (int64), sum (float32[4]) and twin (float32[4]). Programs:
//   init/push           all become 0
//   count/push          (n: int64) count += n; waits while Holds are held, fails while Failures
//                       are left
//   pair/push           (x: float32[4]) sum += x, twin += x
//   read/pull           count, sum, twin
//   scaled/pull         (factor: float32) sum * factor
Definition CounterDefinition();
// Variables w (float32[3]) with m and v of Adam; table (float32[10,2]) with accum of Adagrad.
// Programs init/push, and
//   train/push          (grad: float32[3], values: float32[?,2], rows: int64[?])
Definition OptimizerDefinition();

// While it lives, count/push waits in its run.
class Hold {
 public:
  Hold();
  ~Hold() { Release(); }
  void Release();
  // Until so many runs wait.
  void WaitForRuns(int count);

 private:
  bool held_ = true;
};
// The next runs of count/push fail.
void FailNext(int count);

// A shard with the definition, and its "init/push" applied: its version is 1.
std::unique_ptr<Shard> MakeShard(const Definition& definition, ShardOptions options = {});

PushId Id(uint64_t client, int64_t sequence, int64_t finished_below = 0);
Round RoundOf(int64_t number, int part, int parts, int enough = 0, double weight = 1,
              double all_weight = 0);

// A call that is waited for. The shard's `done` may be called after this is gone.
class PendingCall {
 public:
  Shard::Done done();
  bool is_done() const { return shared_->done.IsSet(); }
  // Its answer; DeadlineExceeded after a long time.
  absl::StatusOr<ShardAnswer> Wait() const;
  absl::Status status() const { return Wait().status(); }

 private:
  struct Shared {
    Event done;
    absl::StatusOr<ShardAnswer> answer = absl::UnknownError("not answered");
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

PendingCall StartPush(Shard& shard, const PushId& id, const std::string& program,
                      std::vector<Tensor> arguments, const Round* round = nullptr,
                      CancellationManager* cancellation = nullptr, int64_t pulled_version = -1);
PendingCall StartPull(Shard& shard, const std::string& program, std::vector<Tensor> arguments = {},
                      int64_t wait_for_version = 0, CancellationManager* cancellation = nullptr);

// Until as many calls wait at the shard.
void WaitUntilWaiting(const Shard& shard, int64_t count);

int64_t Count(Shard& shard);
std::vector<float> Floats(const Tensor& tensor);
// Type, shape and bytes are equal.
bool SameBits(const Tensor& a, const Tensor& b);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_SHARD_TEST_UTIL_H_
