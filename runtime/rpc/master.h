// Master: what a server does for clients' sessions, as TensorFlow's MasterService has it, apart
// from the wire (master_service.h).
//
// A session runs on all tasks of the cluster that its device filters let through; it is a local one
// when that is the master's own task alone. Sessions share the variables of the devices, unless
// they are isolated: a client that connects again finds what it left. Errors are those that
// TensorFlow's clients expect: Aborted for a session that is not known (any more), or a graph that
// changed behind the client's back.
//
// A session may bring a cluster of one task along (cluster_def), by whose name the server then goes
// in it. Clusters of several tasks are Unimplemented there: they are the servers' own.
//
// Threads: any. Calls that wait for a step or for other tasks return at once and hold no thread;
// their `done` is called once, on any thread, with request and response still there.
#ifndef TANDEM_RUNTIME_RPC_MASTER_H_
#define TANDEM_RUNTIME_RPC_MASTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "proto/master.pb.h"
#include "runtime/rpc/control_threads.h"
#include "runtime/rpc/master_session.h"
#include "runtime/rpc/recent_requests.h"
#include "runtime/rpc/server_limits.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/step_transfers.h"
#include "runtime/rpc/worker.h"

namespace tandem {

class Master {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // `worker`, the share of the master's own task, and `control`, where it compiles, outlive it.
  // `start_timeout`: how long a new session waits for tasks that cannot be reached.
  Master(Worker* worker, ControlThreads* control, absl::Duration start_timeout,
         const ServerLimits& limits = {});
  // REQUIRES: no call is going on.
  ~Master();

  // Cancelling `cancellation`, which outlives the call, ends it.
  void CreateSession(const tensorflow::CreateSessionRequest& request,
                     tensorflow::CreateSessionResponse* response, CancellationManager* cancellation,
                     Done done);
  absl::Status ExtendSession(const tensorflow::ExtendSessionRequest& request,
                             tensorflow::ExtendSessionResponse* response);
  // Cancels the session's steps and waits for them.
  void CloseSession(const tensorflow::CloseSessionRequest& request, Done done);
  // Without a session: of all tasks that answer.
  void ListDevices(const tensorflow::ListDevicesRequest& request,
                   tensorflow::ListDevicesResponse* response, Done done);
  // Closes all sessions and clears the containers, also those of the other tasks that the filters
  // let through.
  void Reset(const tensorflow::ResetRequest& request, Done done);
  absl::Status MakeCallable(const tensorflow::MakeCallableRequest& request,
                            tensorflow::MakeCallableResponse* response);
  absl::Status ReleaseCallable(const tensorflow::ReleaseCallableRequest& request);

  // Compiles what the run needs.
  absl::Status PartialRunSetup(const tensorflow::PartialRunSetupRequest& request,
                               tensorflow::PartialRunSetupResponse* response);

  // Also a call of a partial run. Cancelling `cancellation`, which outlives the step, ends it. An
  // error of a step that wants it so is in the response, and the status OK.
  // `feeds`: the request's, apart from it, as far as they are in its message; `transfers` has the
  // others, and lends results. `response` gets the answer, with the results.
  void RunStep(const tensorflow::RunStepRequest& request, std::vector<ReadTensor> feeds,
               StepTransfers transfers, grpc::ByteBuffer* response,
               CancellationManager* cancellation, Done done);
  void RunCallable(const tensorflow::RunCallableRequest& request, std::vector<ReadTensor> feeds,
                   StepTransfers transfers, grpc::ByteBuffer* response,
                   CancellationManager* cancellation, Done done);
  const ServerLimits& limits() const { return limits_; }
  // How long the step may take, in milliseconds, as its options or its session's say. 0: for ever.
  int64_t StepTimeout(const tensorflow::RunStepRequest& request) const;
  // The timeout with which the callable that is to be run was made, in milliseconds. 0: none, or
  // there is no such callable.
  int64_t CallableTimeout(const tensorflow::RunCallableRequest& request) const;

  // Refuses new sessions and steps with `reason`. Steps that run go on.
  void Drain(const absl::Status& reason);
  // Returns when no step runs, or at the deadline.
  void WaitUntilIdle(absl::Time deadline);
  // Cancels all steps with `reason`, and sessions that are being made; waits for all of them.
  void CloseAll(const absl::Status& reason);
  int num_sessions() const;
  // Closes the sessions that have had no call for `limit` and run no step.
  void CloseIdleSessions(absl::Duration limit);

 private:
  // What CreateSession hands on to its end.
  struct Creation;

  absl::StatusOr<std::shared_ptr<MasterSession>> Find(const std::string& handle,
                                                      absl::string_view hint = "") const;
  absl::Status CheckNotDrained() const;
  // ResourceExhausted: there is no room for another session.
  absl::Status CheckRoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `task`: that of the cluster that the session brings along.
  absl::StatusOr<std::unique_ptr<Session>> MakeLocalSession(const tensorflow::ConfigProto& config,
                                                            const absl::optional<TaskId>& task,
                                                            const Graph& graph);
  absl::Status Add(const std::string& handle, std::shared_ptr<MasterSession> session,
                   tensorflow::CreateSessionResponse* response);
  void CreationEnded();
  // Closes all sessions; `closed` is called when their steps have ended.
  void StartClosingAll(const absl::Status& reason, absl::AnyInvocable<void()> closed);
  void ClearContainers(const tensorflow::ResetRequest& request, Done done);

  Worker& worker_;
  ControlThreads& control_;
  const absl::Duration start_timeout_;
  const ServerLimits limits_;
  RecentRequests recent_requests_;
  // Of sessions that are being made; ends with the master.
  CancellationManager creations_cancellation_;
  mutable Mutex mu_;
  CondVar creation_ended_;
  int creations_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<MasterSession>> sessions_ ABSL_GUARDED_BY(mu_);
  absl::Status drained_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_MASTER_H_
