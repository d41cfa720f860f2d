#include "kernels/data/queue.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::data {
namespace {

std::string TypeNames(const std::vector<DataType>& types) {
  return absl::StrCat("(",
                      absl::StrJoin(types, ", ",
                                    [](std::string* out, DataType type) {
                                      absl::StrAppend(out, DataTypeName(type));
                                    }),
                      ")");
}

}  // namespace

FifoQueue::FifoQueue(std::string name, std::vector<DataType> types,
                     std::vector<PartialShape> shapes, int64_t capacity)
    : name_(std::move(name)),
      types_(std::move(types)),
      shapes_(std::move(shapes)),
      capacity_(capacity) {}

std::string FifoQueue::DebugString() const { return absl::StrCat("queue of ", TypeNames(types_)); }

int64_t FifoQueue::size() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(elements_.size());
}

absl::Status FifoQueue::CheckElement(const Element& element) const {
  std::vector<DataType> types;
  for (const Tensor& component : element) types.push_back(component.dtype());
  if (types != types_) {
    return errors::InvalidArgument("queue '", name_, "' holds ", TypeNames(types_), "; ",
                                   TypeNames(types), " is to be put in");
  }
  for (size_t i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i].IsCompatibleWith(element[i].shape())) continue;
    return errors::InvalidArgument("queue '", name_, "': component ", i, " has shape ",
                                   element[i].shape().DebugString(), "; ", shapes_[i].DebugString(),
                                   " is wanted");
  }
  return absl::OkStatus();
}

void FifoQueue::Enqueue(Element element, CancellationManager* cancellation, Done done) {
  const absl::Status fits = CheckElement(element);
  if (!fits.ok()) {
    done(fits);
    return;
  }
  Waiter waiter;
  waiter.element = std::move(element);
  waiter.cancellation = cancellation;
  waiter.done = std::move(done);
  Add(/*is_enqueue=*/true, std::move(waiter));
}

void FifoQueue::Dequeue(const std::vector<DataType>& types, CancellationManager* cancellation,
                        Done done) {
  if (types != types_) {
    done(errors::InvalidArgument("queue '", name_, "' holds ", TypeNames(types_), "; ",
                                 TypeNames(types), " is to be taken out"));
    return;
  }
  Waiter waiter;
  waiter.cancellation = cancellation;
  waiter.done = std::move(done);
  Add(/*is_enqueue=*/false, std::move(waiter));
}

void FifoQueue::Add(bool is_enqueue, Waiter waiter) {
  Waiters ended;
  {
    MutexLock lock(mu_);
    Waiters& waiters = is_enqueue ? enqueues_ : dequeues_;
    const int64_t id = next_id_++;
    waiter.id = id;
    if (closed_ && is_enqueue) {
      waiter.status = errors::Cancelled("queue '", name_, "' is closed: nothing can be put in");
      ended.push_back(std::move(waiter));
    } else {
      waiters.push_back(std::move(waiter));
      Match(ended);
    }
    // The last one still there is the new one, if it has to wait.
    if (!waiters.empty() && waiters.back().id == id) {
      Waiter& added = waiters.back();
      added.token = added.cancellation->NewToken();
      // Under the lock: if the step is cancelled at this moment, the callback finds the waiter.
      const bool registered = added.cancellation->Register(
          added.token, [self = RefPtr<FifoQueue>::Share(this), id] { self->Abandon(id); });
      if (!registered) {
        added.token = 0;
        added.status = errors::Cancelled("the step was cancelled before it could wait for queue '",
                                         name_, "'");
        ended.splice(ended.end(), waiters, std::prev(waiters.end()));
      }
    }
  }
  End(ended);
}

void FifoQueue::Match(Waiters& ended) {
  for (bool moved = true; moved;) {
    moved = false;
    if (!enqueues_.empty() &&
        (capacity_ < 0 || static_cast<int64_t>(elements_.size()) < capacity_)) {
      elements_.push_back(std::move(enqueues_.front().element));
      enqueues_.front().element.clear();
      ended.splice(ended.end(), enqueues_, enqueues_.begin());
      moved = true;
    }
    if (!dequeues_.empty() && !elements_.empty()) {
      dequeues_.front().element = std::move(elements_.front());
      elements_.pop_front();
      ended.splice(ended.end(), dequeues_, dequeues_.begin());
      moved = true;
    }
  }
  if (!closed_ || !elements_.empty() || !enqueues_.empty()) return;
  for (Waiter& waiter : dequeues_) {
    waiter.status = errors::OutOfRange("queue '", name_, "' is closed, and nothing is left in it");
  }
  ended.splice(ended.end(), dequeues_);
}

void FifoQueue::Abandon(int64_t id) {
  Waiters ended;
  {
    MutexLock lock(mu_);
    for (Waiters* waiters : {&enqueues_, &dequeues_}) {
      for (auto it = waiters->begin(); it != waiters->end(); ++it) {
        if (it->id != id) continue;
        it->token = 0;  // Its callback is the one that runs.
        it->status =
            errors::Cancelled("the step was cancelled while it waited for queue '", name_, "'");
        ended.splice(ended.end(), *waiters, it);
        break;
      }
    }
    // The enqueue may have been the last thing that a closed queue waited for.
    Match(ended);
  }
  End(ended);
}

absl::Status FifoQueue::Close(bool cancel_pending_enqueues) {
  Waiters ended;
  bool was_closed = false;
  {
    MutexLock lock(mu_);
    was_closed = std::exchange(closed_, true);
    if (cancel_pending_enqueues) {
      for (Waiter& waiter : enqueues_) {
        waiter.status = errors::Cancelled("queue '", name_, "' was closed while this waited");
      }
      ended.splice(ended.end(), enqueues_);
    }
    Match(ended);
  }
  End(ended);
  if (was_closed && !cancel_pending_enqueues) {
    return errors::Cancelled("queue '", name_, "' is closed already");
  }
  return absl::OkStatus();
}

void FifoQueue::End(Waiters& ended) {
  for (Waiter& waiter : ended) {
    // Its callback may be about to run; it will find no waiter. The step lives until done is
    // called.
    if (waiter.token != 0) waiter.cancellation->Deregister(waiter.token);
    if (waiter.status.ok()) {
      waiter.done(std::move(waiter.element));
    } else {
      waiter.done(waiter.status);
    }
  }
}

}  // namespace tandem::data
