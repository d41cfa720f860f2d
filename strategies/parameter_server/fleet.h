// Fleet: the workers of a training with parameter servers. Steps are handed to those that are
// there, several to each; a step whose worker is lost is run again elsewhere. Workers come and go
// at any time.
//
// What a step ends with is its own error if it is one that another worker would find, too. After
// Unavailable and Aborted, which a lost worker or a lost server leave behind, it is run again,
// until nothing has come of it for `start_timeout`; after Cancelled, which both may be, some times.
//
// Threads: any. `done` of a step is called once, on any thread, outside locks. Lifetime: the
// destructor ends the steps that are left with Cancelled.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_FLEET_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_FLEET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "core/tensor/tensor.h"
#include "runtime/rpc/security.h"
#include "strategies/parameter_server/worker_link.h"
#include "strategies/runner.h"

namespace tandem::parameter_server {

struct FleetOptions {
  std::map<int, std::string> workers;  // Addresses by the number of the task.
  std::string job = "worker";          // For messages.
  int steps_in_flight = 2;             // At each worker.
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  absl::Duration start_timeout = absl::Seconds(120);
  absl::optional<Security> security;
  // A step failed at a worker as it does when a server is lost. On any thread, outside locks.
  std::function<void()> on_trouble;
};

// A step, or a part of one.
struct FleetStep {
  int64_t id = 0;  // The caller's; unique among those that have not ended.
  int program = 0;
  std::vector<Tensor> feeds;
  // Gives the last of the feeds, whenever the step is sent somewhere. Nothing: it cannot be sent
  // before Fleet::Wake was called. Called on any thread, outside locks; may be empty.
  std::function<absl::optional<Tensor>()> route;
  // Those of the lowest are sent first.
  int64_t order = 0;
  // Others of this order wait for it where they run, so that it is sent, when its order is the
  // lowest of all, however busy the workers are.
  bool belongs_together = false;
  Session::Callable::Done done;
};

class Fleet final : private WorkerLink::Watcher {
 public:
  explicit Fleet(FleetOptions options);
  ~Fleet() override;

  int num_workers() const { return static_cast<int>(links_.size()); }
  int num_there() const;

  // Returns the program's number. Workers get it with the first step of it.
  int AddProgram(WorkerProgram program);
  void Submit(FleetStep step);
  // Does nothing when it has ended.
  void Cancel(int64_t id, const absl::Status& reason);
  void CancelAll(const absl::Status& reason);
  // Steps that had no route may have one now.
  void Wake();

  std::vector<MemberEvent> TakeEvents();

 private:
  // A run of a step at a worker.
  struct Attempt {
    CancellationManager cancellation;
  };
  struct Item {
    FleetStep step;
    bool is_running = false;
    int failures = 0;
    absl::Time first_failure;
    absl::Time not_before = absl::InfinitePast();
    std::shared_ptr<Attempt> attempt;  // While it runs.
    absl::Status cancelled;
  };
  struct Worker {
    std::unique_ptr<WorkerLink> link;
    int load = 0;
    bool was_lost = false;
  };
  using Key = std::pair<int64_t, int64_t>;  // Order and id.

  void WorkerJoined(WorkerLink* link) override;
  void WorkerLeft(WorkerLink* link, const absl::Status& reason) override;
  void WorkerIsReady(WorkerLink* link) override;
  void ProgramIsBad(int program, const absl::Status& error) override;

  // Sends what can be sent. One thread at a time does; others leave it to that one.
  void Dispatch();
  // The next step to send, and where to; marks it as running. Null: there is none now.
  std::shared_ptr<Item> TakeNext(Worker** worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Worker* Choose(const Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Send(const std::shared_ptr<Item>& item, Worker* worker, uint64_t wakes);
  void Ended(const std::shared_ptr<Item>& item, Worker* worker,
             absl::StatusOr<std::vector<Tensor>> result);
  void Requeue(const std::shared_ptr<Item>& item, Worker* worker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes out all that wait and fit; their `done` has to be called.
  std::vector<std::shared_ptr<Item>> TakeWaiting(const std::function<bool(const Item&)>& fits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string DescribeWorkers() const;
  void Watch();

  const FleetOptions options_;
  const absl::Time began_ = absl::Now();

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<Worker> links_;  // Filled by the constructor; their counts are guarded by mu_.
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  bool is_dispatching_ ABSL_GUARDED_BY(mu_) = false;
  bool dispatch_again_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t wakes_ ABSL_GUARDED_BY(mu_) = 0;
  bool lacks_route_ ABSL_GUARDED_BY(mu_) = false;  // Until the next Wake.
  int next_worker_ ABSL_GUARDED_BY(mu_) = 0;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  // Since when there are steps and none runs.
  absl::Time idle_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::vector<std::shared_ptr<const WorkerProgram>> programs_ ABSL_GUARDED_BY(mu_);
  std::map<int, absl::Status> bad_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, std::shared_ptr<Item>> items_ ABSL_GUARDED_BY(mu_);
  std::set<Key> all_ ABSL_GUARDED_BY(mu_);
  std::set<Key> waiting_ ABSL_GUARDED_BY(mu_);
  std::vector<MemberEvent> events_ ABSL_GUARDED_BY(mu_);

  std::thread watch_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_FLEET_H_
