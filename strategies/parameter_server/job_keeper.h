// JobKeeper: makes this process the only coordinator of its job, for as long as it lives. It holds
// the job at the server of the first shard (runtime/parameter_server/job_holds.h), and renews that
// with each heartbeat. A coordinator that died loses the job when its lease is over; one that lives
// keeps it, and another one is told who it is.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_JOB_KEEPER_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_JOB_KEEPER_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "runtime/parameter_server/shard_client.h"

namespace tandem::parameter_server {

struct JobKeeperOptions {
  std::string job;
  std::string task;               // Of the server, for messages.
  ShardClient* client = nullptr;  // Of the server; outlives this.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lease = absl::Seconds(3);
  absl::Duration start_timeout = absl::Seconds(120);

  // Called on the thread of this, outside locks.
  // The job is held from now on; once.
  std::function<void()> on_held;
  // Another one is the job's coordinator: FailedPrecondition says who. Nothing is done afterwards.
  std::function<void(const absl::Status&)> on_refused;
  // The server has not answered for `start_timeout` (DeadlineExceeded), or refuses to be asked. It
  // is tried again after the next Begin.
  std::function<void(const absl::Status&)> on_not_there;
};

// Threads: any.
class JobKeeper {
 public:
  explicit JobKeeper(JobKeeperOptions options);
  // As Stop, but the job is not given back.
  ~JobKeeper();
  JobKeeper(const JobKeeper&) = delete;
  JobKeeper& operator=(const JobKeeper&) = delete;

  // The job is to be held. Returns at once; does nothing when it was called already.
  void Begin();
  // Returns when no callback runs, and none will.
  void Stop();
  // Lets another process be the coordinator at once. REQUIRES: Stop was called.
  void GiveBack(absl::Time deadline);

 private:
  void Run();
  // False: it is over.
  bool Wait(absl::Duration time);

  const JobKeeperOptions options_;
  const JobHolder self_;
  bool is_held_ = false;   // Of the thread.
  bool is_there_ = false;  // The server has answered the last call.

  Mutex mu_;
  CondVar changed_;
  bool wants_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time began_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_JOB_KEEPER_H_
