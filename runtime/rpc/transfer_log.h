// TransferLog: when which values arrived from other tasks, for traces of steps (the Logging call of
// WorkerService).
//
// Off until it is switched on: a transfer then costs one load. Keeps a bounded number of transfers;
// those of the oldest steps go first.
#ifndef TANDEM_RUNTIME_RPC_TRANSFER_LOG_H_
#define TANDEM_RUNTIME_RPC_TRANSFER_LOG_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "core/base/mutex.h"
#include "core/kernel/rendezvous_key.h"
#include "core/tensor/tensor.h"
#include "proto/step_stats.pb.h"

namespace tandem {

// Threads: any.
class TransferLog {
 public:
  static constexpr size_t kKeptTransfers = 100'000;

  // One value on its way. Threads: one at a time.
  class Transfer {
   public:
    Transfer(TransferLog* log, int64_t step_id, const RendezvousKey& key);
    // The value has arrived; in a message, unless it was lent (received_tensor.h).
    void End(const Tensor& value, bool was_lent);

   private:
    TransferLog& log_;
    const int64_t step_id_;
    const RendezvousKey key_;
    const int64_t start_nanos_;  // Since 1970.
  };

  void SetEnabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }
  // Null while the log is off. The log outlives the transfer.
  std::shared_ptr<Transfer> Begin(int64_t step_id, const RendezvousKey& key) {
    if (!enabled_.load(std::memory_order_relaxed)) return nullptr;
    return std::make_shared<Transfer>(this, step_id, key);
  }
  // The transfers of a step; empty when there were none, or they are forgotten.
  tensorflow::StepStats Fetch(int64_t step_id) const;
  void Clear();

 private:
  void Add(int64_t step_id, const std::string& device, tensorflow::NodeExecStats stats);

  std::atomic<bool> enabled_{false};
  mutable Mutex mu_;
  // By step and receiving device.
  std::map<int64_t, std::map<std::string, tensorflow::DeviceStepStats>> steps_ ABSL_GUARDED_BY(mu_);
  std::deque<int64_t> order_ ABSL_GUARDED_BY(mu_);  // Steps, oldest first.
  size_t kept_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TRANSFER_LOG_H_
