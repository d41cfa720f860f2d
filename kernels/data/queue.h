// FifoQueue: elements that steps put in and take out, in order; whoever finds it full or empty
// waits.
//
// A waiter holds no thread. It registers with its step's cancellation before it waits, and whoever
// takes it off the list of waiters, the queue or the cancellation, is the one to end it.
#ifndef TANDEM_KERNELS_DATA_QUEUE_H_
#define TANDEM_KERNELS_DATA_QUEUE_H_

#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// Threads: any. Callbacks run outside the lock, once, on whatever thread ends the wait.
class FifoQueue final : public Resource {
 public:
  using Element = std::vector<Tensor>;  // One tensor a component.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Element>)>;

  // `shapes` is empty, or has one for each type. A negative capacity means no limit.
  FifoQueue(std::string name, std::vector<DataType> types, std::vector<PartialShape> shapes,
            int64_t capacity);

  // Puts `element` in once there is room; `done` then gets an empty element. InvalidArgument: its
  // types or shapes are not the queue's. Cancelled: the queue is closed, or the step was cancelled.
  // `cancellation` lives until `done` is called.
  void Enqueue(Element element, CancellationManager* cancellation, Done done);
  // Takes the oldest element once there is one. InvalidArgument: the queue holds other types.
  // OutOfRange: the queue is closed, and empty. Cancelled: the step was.
  void Dequeue(const std::vector<DataType>& types, CancellationManager* cancellation, Done done);
  // From now on nothing can be put in. Enqueues that wait for room go on doing so, unless
  // `cancel_pending_enqueues`. Cancelled: it is closed already, and nothing was to be cancelled.
  absl::Status Close(bool cancel_pending_enqueues);

  int64_t size() const;
  const std::vector<DataType>& types() const { return types_; }
  const std::vector<PartialShape>& shapes() const { return shapes_; }
  int64_t capacity() const { return capacity_; }
  std::string DebugString() const override;

 private:
  struct Waiter {
    int64_t id = 0;
    Element element;  // Of an enqueue.
    CancellationManager* cancellation = nullptr;
    CancellationManager::Token token = 0;  // 0: not registered, since it did not have to wait.
    Done done;
    absl::Status status;
  };
  using Waiters = std::list<Waiter>;

  absl::Status CheckElement(const Element& element) const;
  // Adds a waiter, lets go on who can, and makes the others wait.
  void Add(bool is_enqueue, Waiter waiter);
  // Moves to `ended` all whose wait is over.
  void Match(Waiters& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Abandon(int64_t id);
  static void End(Waiters& ended);

  const std::string name_;
  const std::vector<DataType> types_;
  const std::vector<PartialShape> shapes_;
  const int64_t capacity_;

  mutable Mutex mu_;
  std::deque<Element> elements_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  Waiters enqueues_ ABSL_GUARDED_BY(mu_);
  Waiters dequeues_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::data

#endif  // TANDEM_KERNELS_DATA_QUEUE_H_
