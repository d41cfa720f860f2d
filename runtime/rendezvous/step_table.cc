#include "runtime/rendezvous/step_table.h"

#include <utility>

#include "core/base/status.h"

namespace tandem {

StepTable::~StepTable() { EndAll(errors::Cancelled("the task is shutting down")); }

absl::StatusOr<std::shared_ptr<Rendezvous>> StepTable::FindOrBegin(int64_t step_id) {
  MutexLock lock(mu_);
  if (ended_.count(step_id) != 0) {
    return errors::Aborted("step ", step_id, " has ended here already");
  }
  std::shared_ptr<LocalRendezvous>& rendezvous = steps_[step_id];
  if (rendezvous == nullptr) rendezvous = std::make_shared<LocalRendezvous>();
  return std::shared_ptr<Rendezvous>(rendezvous);
}

void StepTable::End(int64_t step_id, absl::Status reason) {
  std::shared_ptr<LocalRendezvous> ended;
  {
    MutexLock lock(mu_);
    const auto found = steps_.find(step_id);
    if (found != steps_.end()) {
      ended = std::move(found->second);
      steps_.erase(found);
    }
    if (ended_.insert(step_id).second) ended_order_.push_back(step_id);
    if (ended_order_.size() > kRemembered) {
      ended_.erase(ended_order_.front());
      ended_order_.pop_front();
    }
  }
  if (ended != nullptr) ended->Abort(std::move(reason));
}

void StepTable::EndAll(const absl::Status& reason) {
  std::map<int64_t, std::shared_ptr<LocalRendezvous>> steps;
  {
    MutexLock lock(mu_);
    steps.swap(steps_);
  }
  for (const auto& [id, rendezvous] : steps) rendezvous->Abort(reason);
}

size_t StepTable::size() const {
  MutexLock lock(mu_);
  return steps_.size();
}

}  // namespace tandem
