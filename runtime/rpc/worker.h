// Worker: what a task does for the masters of steps of several tasks, and for other tasks, as
// TensorFlow's WorkerService has it, apart from the wire (worker_service.h).
//
// A master makes a session here, registers its parts of steps (graphs whose nodes are all placed on
// this task's devices), and runs them by number; parts exchange values through the step's
// rendezvous, which begins with whichever comes first, the run or another task's request, and ends
// when the master cleans up. The first error of a run ends the rendezvous, so that the other tasks
// get it, marked as derived (status_on_wire.h).
//
// Sessions share the variables of the task's devices, unless they are isolated. They share the
// state of stateful nodes (by name) only within one session.
//
// A master is asked once a second whether it lives, for as long as it has sessions here (and if it
// answered once, so that a master that cannot be reached from here keeps its sessions). One that is
// lost loses those that run something: at once when its process has ended, after three to four
// seconds when it is stopped; its other sessions half a minute later. When it wakes up, or comes
// back, it is told that they are gone.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_RPC_WORKER_H_
#define TANDEM_RUNTIME_RPC_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/rendezvous.h"
#include "proto/worker.pb.h"
#include "runtime/device/session_devices.h"
#include "runtime/rendezvous/step_table.h"
#include "runtime/rpc/recent_requests.h"
#include "runtime/rpc/transfer_log.h"
#include "runtime/rpc/worker_client.h"
#include "runtime/rpc/worker_session.h"

namespace tandem {

class Worker {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // `tasks` outlives it. `parameter_store` (may be null): how steps reach parameter servers.
  Worker(std::shared_ptr<DeviceSet> devices, const ClusterTasks* tasks,
         std::shared_ptr<ParameterStore> parameter_store = nullptr);
  // REQUIRES: no call is going on.
  ~Worker();

  const ClusterTasks& tasks() const { return tasks_; }
  // Of the sessions that are not isolated.
  const std::shared_ptr<SessionDevices>& shared_devices() const { return shared_devices_; }
  const std::shared_ptr<ParameterStore>& parameter_store() const { return parameter_store_; }
  void GetStatus(tensorflow::GetStatusResponse* response) const;

  // InvalidArgument: no handle. Unimplemented: a cluster of the session's own. Sessions of the same
  // master in an earlier life are deleted.
  absl::Status CreateSession(const tensorflow::CreateWorkerSessionRequest& request);
  // Cancels the session's runs; they may go on for a moment. An unknown handle is no error.
  void DeleteSession(const std::string& handle);
  // Aborted, as a restarted worker's: there is no such session. `was_created` false: the caller
  // made none and means the one that every worker has.
  absl::StatusOr<std::shared_ptr<WorkerSession>> FindSession(const std::string& handle,
                                                             bool was_created = true) const;

  // InvalidArgument and others: the graph cannot be imported or compiled.
  absl::Status RegisterGraph(const tensorflow::RegisterGraphRequest& request,
                             tensorflow::RegisterGraphResponse* response);
  absl::Status DeregisterGraph(const tensorflow::DeregisterGraphRequest& request);

  // Starts the run and returns; `done` is called once, with request and response still there.
  // Cancelling `cancellation`, which outlives the run, ends it. Aborted: no such session or graph,
  // a request that came before, or a step that has ended.
  void RunGraph(const tensorflow::RunGraphRequest& request, tensorflow::RunGraphResponse* response,
                CancellationManager* cancellation, Done done);

  // What the parts of a step that run in this process exchange their values through. Aborted: the
  // step has ended.
  absl::StatusOr<std::shared_ptr<Rendezvous>> JoinStep(int64_t step_id);
  // Whoever still waits for a value of the step gets `reason` (not OK).
  void EndStep(int64_t step_id, absl::Status reason);

  // A value of this task, when it is there. Aborted: a request that came before, a step that has
  // ended, or a key that names another task's device or an earlier life of this one.
  void RecvTensor(const tensorflow::RecvTensorRequest& request, CancellationManager* cancellation,
                  Rendezvous::Received received);

  // Forgets the state in some containers (none: the default one).
  void CleanupAll(const google::protobuf::RepeatedPtrField<std::string>& containers);
  void Logging(const tensorflow::LoggingRequest& request, tensorflow::LoggingResponse* response);

  // Refuses new sessions and runs with `reason`. What runs goes on.
  void Drain(const absl::Status& reason);
  // Returns when no run goes on, or at the deadline.
  void WaitUntilIdle(absl::Time deadline);
  // Deletes all sessions and ends all steps with `reason`; returns when no run goes on.
  void CloseAll(const absl::Status& reason);
  int num_sessions() const;

 private:
  struct Run;
  struct Anchor;
  struct SessionEntry {
    std::shared_ptr<WorkerSession> session;
    std::string master_task;
    int64_t master_incarnation = 0;
    // Who is watched, and how often it was lost one after the other. Null: nobody.
    std::shared_ptr<WorkerClient> master;
    int64_t watch = 0;
    int losses = 0;
    absl::Time last_loss = absl::InfinitePast();
  };

  absl::Status CheckNotDrained() const;
  absl::Status FindGraph(const tensorflow::RunGraphRequest& request, Run* run) const;
  void EndRun(Run& run, absl::Status status);
  // Closes a session that is no longer in the table.
  static void Close(const SessionEntry& entry, const absl::Status& reason);
  // Watches the session's master, once it has answered.
  void FindMaster(const std::string& handle, const std::shared_ptr<WorkerSession>& session,
                  const std::string& master_task);
  void WatchLocked(const std::string& handle, SessionEntry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MasterAnswers(const std::string& handle, const WorkerSession* session,
                     std::shared_ptr<WorkerClient> master);
  void MasterIsLost(const std::string& handle, const WorkerSession* session,
                    const absl::Status& status);

  const ClusterTasks& tasks_;
  const std::shared_ptr<SessionDevices> shared_devices_;
  const std::shared_ptr<ParameterStore> parameter_store_;
  // Of masters that make none.
  const std::shared_ptr<WorkerSession> default_session_;
  TransferLog log_;
  StepTable steps_;
  RecentRequests recent_requests_;

  // By which what comes later learns whether the worker still is.
  const std::shared_ptr<Anchor> anchor_;
  mutable Mutex mu_;
  CondVar ended_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status drained_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, SessionEntry> sessions_ ABSL_GUARDED_BY(mu_);
};

// What a task tells of a device.
void DescribeDevice(const Device& device, tensorflow::DeviceAttributes* attributes);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_WORKER_H_
