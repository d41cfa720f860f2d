#include "runtime/rpc/transfer_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tandem {

TransferLog::Transfer::Transfer(TransferLog* log, int64_t step_id, const RendezvousKey& key)
    : log_(*log), step_id_(step_id), key_(key), start_nanos_(absl::GetCurrentTimeNanos()) {}

void TransferLog::Transfer::End(const Tensor& value, bool was_lent) {
  const int64_t took = absl::GetCurrentTimeNanos() - start_nanos_;
  tensorflow::NodeExecStats stats;
  stats.set_node_name("RecvTensor");
  // The form is TensorFlow's, but for the shared memory.
  stats.set_timeline_label(absl::StrCat(
      "[", value.is_valid() ? value.num_bytes() : 0, "B] ", key_.edge, " from ", key_.source_device,
      " to ", key_.destination_device, was_lent ? " through shared memory" : ""));
  stats.set_all_start_micros(start_nanos_ / 1000);
  stats.set_op_end_rel_micros(took / 1000);
  stats.set_all_end_rel_micros(took / 1000);
  stats.set_scheduled_micros(start_nanos_ / 1000);
  stats.set_all_start_nanos(start_nanos_);
  stats.set_op_end_rel_nanos(took);
  stats.set_all_end_rel_nanos(took);
  stats.set_scheduled_nanos(start_nanos_);
  log_.Add(step_id_, key_.destination_device, std::move(stats));
}

void TransferLog::Add(int64_t step_id, const std::string& device, tensorflow::NodeExecStats stats) {
  MutexLock lock(mu_);
  auto& devices = steps_[step_id];
  if (devices.empty()) order_.push_back(step_id);
  tensorflow::DeviceStepStats& device_stats = devices[device];
  device_stats.set_device(device);
  *device_stats.add_node_stats() = std::move(stats);
  ++kept_;
  while (kept_ > kKeptTransfers && order_.size() > 1) {
    const auto oldest = steps_.find(order_.front());
    for (const auto& [name, forgotten] : oldest->second) {
      kept_ -= static_cast<size_t>(forgotten.node_stats_size());
    }
    steps_.erase(oldest);
    order_.pop_front();
  }
}

tensorflow::StepStats TransferLog::Fetch(int64_t step_id) const {
  tensorflow::StepStats result;
  MutexLock lock(mu_);
  const auto found = steps_.find(step_id);
  if (found == steps_.end()) return result;
  for (const auto& [device, stats] : found->second) *result.add_dev_stats() = stats;
  return result;
}

void TransferLog::Clear() {
  MutexLock lock(mu_);
  steps_.clear();
  order_.clear();
  kept_ = 0;
}

}  // namespace tandem
