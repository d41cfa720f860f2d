#include "runtime/rendezvous/step_table.h"

#include <utility>

#include "absl/types/optional.h"
#include "core/base/status.h"

namespace tandem {

StepTable::~StepTable() { EndAll(errors::Cancelled("the task is shutting down")); }

absl::StatusOr<std::shared_ptr<Rendezvous>> StepTable::FindOrBegin(int64_t step_id) {
  std::shared_ptr<LocalRendezvous> result;
  absl::optional<int64_t> forsaken;
  {
    MutexLock lock(mu_);
    if (ended_.count(step_id) != 0) {
      return errors::Aborted("step ", step_id, " has ended here already");
    }
    Step& step = steps_[step_id];
    if (step.rendezvous == nullptr) {
      step.rendezvous = std::make_shared<LocalRendezvous>();
      step.number = next_number_++;
      by_age_.emplace(step.number, step_id);
      if (steps_.size() > most_steps_) forsaken = by_age_.begin()->second;
    }
    result = step.rendezvous;
  }
  if (forsaken.has_value()) {
    End(*forsaken, errors::Aborted("step ", *forsaken, " is ended: ", most_steps_,
                                   " younger ones go on here, and nobody has ended it"));
  }
  return std::shared_ptr<Rendezvous>(std::move(result));
}

void StepTable::End(int64_t step_id, absl::Status reason) {
  std::shared_ptr<LocalRendezvous> ended;
  {
    MutexLock lock(mu_);
    const auto found = steps_.find(step_id);
    if (found != steps_.end()) {
      ended = std::move(found->second.rendezvous);
      by_age_.erase(found->second.number);
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
  std::map<int64_t, Step> steps;
  {
    MutexLock lock(mu_);
    steps.swap(steps_);
    by_age_.clear();
  }
  for (const auto& [id, step] : steps) step.rendezvous->Abort(reason);
}

size_t StepTable::size() const {
  MutexLock lock(mu_);
  return steps_.size();
}

}  // namespace tandem
