// TaskRendezvous: what one task sees of the exchange of a step of several tasks.
//
// Values are sent into the task's own rendezvous of the step, where they stay until somebody asks
// for them. Values that another task computes are asked of that task (RecvTensor), which answers
// when they are there.
#ifndef TANDEM_RUNTIME_RPC_TASK_RENDEZVOUS_H_
#define TANDEM_RUNTIME_RPC_TASK_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/kernel/rendezvous.h"
#include "runtime/rpc/transfer_log.h"
#include "runtime/rpc/worker_client.h"

namespace tandem {

// Threads: any. Lifetime: outlives the calls of `received`, as the step that it belongs to does.
class TaskRendezvous final : public Rendezvous {
 public:
  // `tasks` and `log` outlive it.
  TaskRendezvous(int64_t step_id, std::shared_ptr<Rendezvous> own, const ClusterTasks* tasks,
                 TransferLog* log)
      : step_id_(step_id), own_(std::move(own)), tasks_(*tasks), log_(*log) {}

  absl::Status Send(absl::string_view key, Entry entry) override;
  // Errors of the other task name it (worker_client.h). InvalidArgument: no rendezvous key.
  // NotFound: the cluster has no such task.
  void Receive(absl::string_view key, CancellationManager* cancellation,
               Received received) override;
  // Ends the task's own part; calls to other tasks end with their cancellations.
  void Abort(absl::Status reason) override;

 private:
  const int64_t step_id_;
  const std::shared_ptr<Rendezvous> own_;
  const ClusterTasks& tasks_;
  TransferLog& log_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TASK_RENDEZVOUS_H_
