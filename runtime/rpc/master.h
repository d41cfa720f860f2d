// Master: what a server does for clients' sessions, as TensorFlow's MasterService has it, apart
// from the wire (master_service.h).
//
// Sessions of one master share the variables of its devices, unless they are isolated: a client
// that connects again finds what it left. Errors are those that TensorFlow's clients expect:
// Aborted for a session that is not known (any more), or a graph that changed behind the client's
// back.
//
// Of one task only, so far: a cluster_def in a session's config, and partial runs, are
// Unimplemented.
//
// Threads: any.
#ifndef TANDEM_RUNTIME_RPC_MASTER_H_
#define TANDEM_RUNTIME_RPC_MASTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "proto/master.pb.h"
#include "runtime/device/session_devices.h"

namespace tandem {

class Master {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;

  explicit Master(std::shared_ptr<DeviceSet> devices);
  // REQUIRES: no call is going on.
  ~Master();

  absl::Status CreateSession(const tensorflow::CreateSessionRequest& request,
                             tensorflow::CreateSessionResponse* response);
  absl::Status ExtendSession(const tensorflow::ExtendSessionRequest& request,
                             tensorflow::ExtendSessionResponse* response);
  // Cancels the session's steps and waits for them.
  absl::Status CloseSession(const tensorflow::CloseSessionRequest& request);
  absl::Status ListDevices(const tensorflow::ListDevicesRequest& request,
                           tensorflow::ListDevicesResponse* response);
  // Closes all sessions and clears the containers.
  absl::Status Reset(const tensorflow::ResetRequest& request);
  absl::Status MakeCallable(const tensorflow::MakeCallableRequest& request,
                            tensorflow::MakeCallableResponse* response);
  absl::Status ReleaseCallable(const tensorflow::ReleaseCallableRequest& request);

  // Start the step and return; `done` is called once. Cancelling `cancellation`, which outlives the
  // step, ends it. An error of a step that wants it so is in the response, and the status OK.
  void RunStep(const tensorflow::RunStepRequest& request, tensorflow::RunStepResponse* response,
               CancellationManager* cancellation, Done done);
  void RunCallable(const tensorflow::RunCallableRequest& request,
                   tensorflow::RunCallableResponse* response, CancellationManager* cancellation,
                   Done done);
  // The timeout with which the callable that is to be run was made, in milliseconds. 0: none, or
  // there is no such callable.
  int64_t CallableTimeout(const tensorflow::RunCallableRequest& request) const;

  // Refuses new sessions and steps with `reason`. Steps that run go on.
  void Drain(const absl::Status& reason);
  // Returns when no step runs, or at the deadline.
  void WaitUntilIdle(absl::Time deadline);
  // Cancels all steps with `reason` and waits for them.
  void CloseAll(const absl::Status& reason);
  int num_sessions() const;

 private:
  class ServerSession;

  absl::StatusOr<std::shared_ptr<ServerSession>> Find(const std::string& handle,
                                                      absl::string_view hint = "") const;
  // Aborted: the request came before. 0 is no id.
  absl::Status NoteRequest(int64_t id);

  // Of the sessions that are not isolated.
  const std::shared_ptr<SessionDevices> shared_devices_;
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<ServerSession>> sessions_ ABSL_GUARDED_BY(mu_);
  absl::Status drained_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> recent_requests_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> request_order_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_MASTER_H_
