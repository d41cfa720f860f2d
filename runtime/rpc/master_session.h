// MasterSession: a client's session at its master: a graph that grows, its callables, its partial
// runs, and the steps that run. What runs them, a local session or one over several tasks, is a
// Session to it.
#ifndef TANDEM_RUNTIME_RPC_MASTER_SESSION_H_
#define TANDEM_RUNTIME_RPC_MASTER_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"
#include "proto/config.pb.h"
#include "proto/master.pb.h"
#include "runtime/rpc/server_limits.h"
#include "runtime/session/session.h"

namespace tandem {

// Threads: any. Lifetime: its steps keep it alive. What it runs on, devices and other tasks, has to
// live until it is closed, no longer.
class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  struct NamedCallable {
    std::shared_ptr<Session::Callable> callable;
    tensorflow::RunOptions run_options;
  };

  // `request`: what the client made the session with; the versions and nodes of its graph count.
  // `devices`: of all tasks.
  MasterSession(std::unique_ptr<Session> session, std::vector<tensorflow::DeviceAttributes> devices,
                const tensorflow::CreateSessionRequest& request, const ServerLimits& limits);

  const std::vector<tensorflow::DeviceAttributes>& devices() const { return devices_; }

  // A client calls.
  void NoteCall();
  // When a client called last, or a step ended; `now` while steps run.
  absl::Time LastUse(absl::Time now);

  // ResourceExhausted: the graph is too large then. Aborted: the client does not know the graph's
  // present version. FailedPrecondition: the session
  // is closed. InvalidArgument: another producer than before.
  absl::Status Extend(const tensorflow::ExtendSessionRequest& request, int64_t* new_version);

  absl::StatusOr<int64_t> MakeCallable(const tensorflow::CallableOptions& options);
  // InvalidArgument: there is none.
  absl::StatusOr<NamedCallable> FindCallable(int64_t handle);
  void ReleaseCallable(int64_t handle);

  // Sets up a run that begins with its first call; the result is its name. ResourceExhausted: the
  // session has too many that are not over.
  absl::StatusOr<std::string> SetUpPartialRun(const RunSignature& signature);
  // One call of it; as Start. `is_over`, which outlives the call, is told before `done` is called
  // when a later call will find no such run. InvalidArgument: there is no such run, or it is over;
  // otherwise as Session::PartialRun.
  void RunPartially(const std::string& name, Session::Feeds feeds, std::vector<std::string> fetches,
                    const tensorflow::RunOptions& run_options, CancellationManager* cancellation,
                    tensorflow::RunMetadata* metadata, bool* is_over, Session::Callable::Done done);
  // Ends it, if it is not over. `ended` is called once, on any thread, when nothing of it runs any
  // more.
  void EndPartialRun(const std::string& name, absl::AnyInvocable<void()> ended);

  // In milliseconds: what `run_options` say, or else the session's operation_timeout_in_ms. 0:
  // none.
  int64_t Timeout(const tensorflow::RunOptions& run_options) const;

  // For a signature that was run before, what to Start; null: Run it, which compiles.
  std::shared_ptr<Session::Callable> FindRun(const RunSignature& signature);

  // Start a step; `done` is called once, before the session counts it as ended. `cancellation` and
  // `metadata` outlive the step.
  void Run(const RunSignature& signature, std::vector<Tensor> feeds,
           const tensorflow::RunOptions& run_options, CancellationManager* cancellation,
           tensorflow::RunMetadata* metadata, Session::Callable::Done done);
  void Start(std::shared_ptr<Session::Callable> callable, std::vector<Tensor> feeds,
             const tensorflow::RunOptions& run_options, CancellationManager* cancellation,
             tensorflow::RunMetadata* metadata, Session::Callable::Done done,
             bool is_new_signature = false);

  // Cancels the steps with `reason`. The session then refuses everything. `closed` is called once,
  // on any thread, when no step runs any more and what ran them is gone.
  void Close(const absl::Status& reason, absl::AnyInvocable<void()> closed);
  // False when steps run on after the deadline.
  bool WaitUntilIdle(absl::Time deadline);

 private:
  // What a step tells of itself besides its results.
  struct Shown {
    bool trace = false;
    bool graphs = false;
    bool costs = false;
    bool placement = false;  // In the log.
  };

  // Whether the step that begins now has a cost graph.
  bool CountsCosts();
  void TakeVersionsLocked(const tensorflow::GraphDef& def) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whoever uses `session_` without the lock says so before and after. FailedPrecondition: the
  // session is closed.
  absl::Status Enter();
  void Leave();
  // InvalidArgument: the session does not allow what is asked for.
  absl::StatusOr<Shown> ReadOptions(const tensorflow::RunOptions& run_options) const;
  static RunOptions OptionsFor(const Shown& shown, CancellationManager* cancellation);
  static void FillMetadata(const RunMetadata& from, const Shown& shown,
                           tensorflow::RunMetadata* to);

  const std::vector<tensorflow::DeviceAttributes> devices_;
  const ServerLimits limits_;
  const int64_t operation_timeout_in_ms_;
  const bool allows_partition_graphs_;
  const bool logs_placement_;  // Of each signature, when it runs first.
  const int64_t costs_every_;  // So many steps have a cost graph; 0: none.
  const int64_t costs_after_;
  Mutex mu_;
  CondVar ended_;
  // Null once it is closed and nobody uses it. Written under the lock, and read by those who
  // entered.
  std::unique_ptr<Session> session_;
  // Those who entered: steps, what makes them, and partial runs that are not over.
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time last_use_ ABSL_GUARDED_BY(mu_);
  int64_t nodes_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<absl::AnyInvocable<void()>> wait_for_end_ ABSL_GUARDED_BY(mu_);
  int64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_versions_ ABSL_GUARDED_BY(mu_) = false;
  int producer_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_callable_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, NamedCallable> callables_ ABSL_GUARDED_BY(mu_);
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t next_partial_run_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<Session::PartialRun>> partial_runs_ ABSL_GUARDED_BY(mu_);
  // Those that were run, by SignatureKey.
  absl::flat_hash_map<std::string, std::shared_ptr<Session::Callable>> signatures_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_MASTER_SESSION_H_
