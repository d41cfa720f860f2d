#include "runtime/rpc/cluster_step.h"

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/passes/partial_ends.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/session/step_stats.h"

namespace tandem {
namespace {

constexpr absl::Duration kCleanupTimeout = absl::Seconds(30);

// The seven highest bits are 0: others use them.
int64_t NewStepId() {
  thread_local std::mt19937_64 random{std::random_device()()};
  return static_cast<int64_t>(random() >> 7);
}

// It is the same error, and tells more of it: where the own part was when a task was lost, or the
// time was over.
bool SaysMore(const absl::Status& status, const absl::Status& error) {
  return status.code() == error.code() && status.message().size() > error.message().size() &&
         absl::StrContains(status.message(), error.message());
}

// The own part's rendezvous when its caller has one, too: a partial run, whose feeds and results go
// there. All else goes between the tasks.
class TwoRendezvous final : public Rendezvous {
 public:
  TwoRendezvous(Rendezvous* caller, std::shared_ptr<Rendezvous> tasks)
      : caller_(*caller), tasks_(std::move(tasks)) {}

  absl::Status Send(absl::string_view key, Entry entry) override {
    return Of(key).Send(key, std::move(entry));
  }
  void Receive(absl::string_view key, CancellationManager* cancellation,
               Received received) override {
    Of(key).Receive(key, cancellation, std::move(received));
  }
  void Abort(absl::Status reason) override { tasks_->Abort(std::move(reason)); }

 private:
  Rendezvous& Of(absl::string_view key) { return IsPartialKey(key) ? caller_ : *tasks_; }

  Rendezvous& caller_;
  const std::shared_ptr<Rendezvous> tasks_;
};

class ClusterStep : public std::enable_shared_from_this<ClusterStep> {
 public:
  ClusterStep(std::shared_ptr<ClusterPlan> plan, Worker* worker, CancellationManager* all_runs,
              const RunOptions& options, RunMetadata* metadata, Session::Callable::Done done)
      : plan_(std::move(plan)),
        worker_(*worker),
        step_id_(NewStepId()),
        traces_(options.trace),
        shows_graphs_(options.partition_graphs),
        outer_(options.cancellation),
        caller_rendezvous_(options.rendezvous),
        metadata_(metadata),
        done_(std::move(done)),
        watches_(plan_->parts().size()),
        running_(plan_->parts().size(), true) {
    cancellation_.emplace(all_runs);
  }

  void Start(std::vector<Tensor> feeds) {
    {
      MutexLock lock(mu_);
      // One more, so that the step does not end before all parts have begun.
      pending_ = plan_->parts().size() + (plan_->own() != nullptr ? 1 : 0) + 1;
      own_runs_ = plan_->own() != nullptr;
    }
    if (outer_ != nullptr) {
      token_ = outer_->NewToken();
      registered_ = outer_->Register(token_, [this] { CancelledFromOutside(); });
      if (!registered_) cancellation_->Cancel(outer_->status());
    }
    absl::StatusOr<std::shared_ptr<Rendezvous>> rendezvous = worker_.JoinStep(step_id_);
    if (rendezvous.ok()) {
      rendezvous_ = *std::move(rendezvous);
      if (caller_rendezvous_ != nullptr) {
        rendezvous_ = std::make_shared<TwoRendezvous>(caller_rendezvous_, std::move(rendezvous_));
      }
      for (size_t i = 0; i < plan_->parts().size(); ++i) StartPart(i);
      StartOwn(std::move(feeds));
    } else {
      const size_t parts = plan_->parts().size() + (plan_->own() != nullptr ? 1 : 0);
      for (size_t i = 0; i < parts; ++i) PartEnded(rendezvous.status());
    }
    PartEnded(absl::OkStatus());
  }

 private:
  void StartPart(size_t i) {
    const ClusterPlan::Part& part = plan_->parts()[i];
    tensorflow::RunGraphRequest request;
    request.set_session_handle(plan_->session_handle());
    request.set_create_worker_session_called(true);
    request.set_graph_handle(part.graph_handle);
    request.set_step_id(step_id_);
    request.mutable_exec_opts()->set_record_timeline(traces_);
    request.mutable_exec_opts()->set_record_partition_graphs(shows_graphs_);
    request.set_request_id(NewRequestId());
    CallOptions options;
    options.cancellation = &*cancellation_;
    watches_[i] = part.client->Watch(
        [self = shared_from_this(), i](const absl::Status& status) { self->TaskLost(i, status); });
    part.client->RunGraph(
        std::move(request), options,
        [self = shared_from_this(), i](absl::StatusOr<tensorflow::RunGraphResponse> response) {
          self->OtherEnded(i, std::move(response));
        });
  }

  void OtherEnded(size_t i, absl::StatusOr<tensorflow::RunGraphResponse> response) {
    plan_->parts()[i].client->Unwatch(watches_[i]);
    absl::Status status = response.status();
    // Servers that put errors into the body whether asked to or not.
    if (status.ok() && response->status_code() != tensorflow::error::OK) {
      status = absl::Status(static_cast<absl::StatusCode>(response->status_code()),
                            response->status_error_message());
    }
    {
      MutexLock lock(mu_);
      running_[i] = false;
      if (status.ok() && traces_) AppendEvents(response->step_stats(), &events_);
      if (status.ok() && shows_graphs_) {
        for (tensorflow::GraphDef& graph : *response->mutable_partition_graph()) {
          graphs_.push_back(std::make_shared<const tensorflow::GraphDef>(std::move(graph)));
        }
      }
    }
    if (!status.ok() && !cancellation_->IsCancelled()) {
      status = FromTask(status, plan_->parts()[i].client->task());
    }
    PartEnded(std::move(status));
  }

  // The task may be stopped, and its call would not end by itself.
  void TaskLost(size_t i, const absl::Status& status) {
    {
      MutexLock lock(mu_);
      if (!running_[i]) return;
      ++pending_;  // The step goes on until this has been noted.
    }
    PartEnded(status);
  }

  void StartOwn(std::vector<Tensor> feeds) {
    if (plan_->own() == nullptr) return;
    RunOptions options;
    options.cancellation = &*cancellation_;
    options.rendezvous = rendezvous_.get();
    options.trace = traces_;
    options.partition_graphs = shows_graphs_;
    plan_->own()->Run(std::move(feeds), options, &own_metadata_,
                      [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> results) {
                        self->OwnEnded(std::move(results));
                      });
  }

  void OwnEnded(absl::StatusOr<std::vector<Tensor>> results) {
    absl::Status status = results.status();
    if (!status.ok() && !cancellation_->IsCancelled()) status = FromTask(status, plan_->own_task());
    {
      MutexLock lock(mu_);
      own_runs_ = false;
      if (results.ok()) results_ = *std::move(results);
    }
    PartEnded(std::move(status));
  }

  void PartEnded(absl::Status status) {
    bool ends_others = false;
    if (!status.ok()) {
      MutexLock lock(mu_);
      if (error_.ok() || (IsDerived(error_) && !IsDerived(status)) || SaysMore(status, error_)) {
        error_ = status;
      }
      // A derived error is not the one to report: its cause is on the way.
      ends_others = !IsDerived(status) && !ended_others_;
      ended_others_ |= ends_others;
    }
    if (ends_others) cancellation_->Cancel(status);
    bool is_last = false;
    {
      MutexLock lock(mu_);
      is_last = --pending_ == 0;
    }
    if (is_last) End();
  }

  // Whoever cancels a step for its duration wants to know for whom it waited.
  void CancelledFromOutside() {
    absl::Status reason = outer_->status();
    if (absl::IsDeadlineExceeded(reason)) {
      std::vector<std::string> waited_for;
      {
        MutexLock lock(mu_);
        if (own_runs_) waited_for.push_back(plan_->own_task());
        for (size_t i = 0; i < running_.size(); ++i) {
          if (running_[i]) waited_for.push_back(plan_->parts()[i].client->task());
        }
      }
      reason = absl::Status(reason.code(),
                            absl::StrCat(reason.message(), "; its parts in ",
                                         absl::StrJoin(waited_for, ", "), " had not ended"));
    }
    cancellation_->Cancel(std::move(reason));
  }

  void End() {
    if (registered_) outer_->Deregister(token_);
    absl::Status status;
    std::vector<Tensor> results;
    std::vector<StepTracer::Event> events;
    std::vector<std::shared_ptr<const tensorflow::GraphDef>> graphs;
    {
      MutexLock lock(mu_);
      graphs = std::move(graphs_);
      status = error_;
      results = std::move(results_);
      events = std::move(events_);
    }
    worker_.EndStep(step_id_,
                    status.ok() ? errors::Aborted("the step has ended") : MakeDerived(status));
    CallOptions options;
    options.deadline = absl::Now() + kCleanupTimeout;
    for (const ClusterPlan::Part& part : plan_->parts()) {
      tensorflow::CleanupGraphRequest request;
      request.set_step_id(step_id_);
      // A task that is gone has nothing to clean up.
      part.client->CleanupGraph(std::move(request), options,
                                [](const absl::StatusOr<tensorflow::CleanupGraphResponse>&) {});
    }
    rendezvous_.reset();
    cancellation_.reset();
    if (traces_ && metadata_ != nullptr) {
      metadata_->events = std::move(own_metadata_.events);
      for (StepTracer::Event& event : events) metadata_->events.push_back(std::move(event));
    }
    if (shows_graphs_ && metadata_ != nullptr) {
      metadata_->partition_graphs = std::move(own_metadata_.partition_graphs);
      for (auto& graph : graphs) metadata_->partition_graphs.push_back(std::move(graph));
    }
    Session::Callable::Done done = std::move(done_);
    if (status.ok()) {
      done(std::move(results));
    } else {
      done(std::move(status));
    }
  }

  const std::shared_ptr<ClusterPlan> plan_;
  Worker& worker_;
  const int64_t step_id_;
  const bool traces_;
  const bool shows_graphs_;
  CancellationManager* const outer_;
  Rendezvous* const caller_rendezvous_;  // Or null.
  RunMetadata* const metadata_;
  Session::Callable::Done done_;
  // Of all parts; gone when the step ends.
  std::optional<CancellationManager> cancellation_;
  CancellationManager::Token token_ = 0;
  bool registered_ = false;
  std::shared_ptr<Rendezvous> rendezvous_;
  RunMetadata own_metadata_;
  std::vector<int64_t> watches_;  // Of the plan's parts; each set before its call begins.

  Mutex mu_;
  size_t pending_ ABSL_GUARDED_BY(mu_) = 0;
  bool own_runs_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<bool> running_ ABSL_GUARDED_BY(mu_);  // Of the plan's parts.
  bool ended_others_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  std::vector<Tensor> results_ ABSL_GUARDED_BY(mu_);
  std::vector<StepTracer::Event> events_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<const tensorflow::GraphDef>> graphs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void StartClusterStep(std::shared_ptr<ClusterPlan> plan, Worker* worker,
                      CancellationManager* all_runs, std::vector<Tensor> feeds,
                      const RunOptions& options, RunMetadata* metadata,
                      Session::Callable::Done done) {
  if (plan->parts().empty() && plan->own() != nullptr) {
    // All of it runs here; the session's end reaches the own part by itself.
    RegisteredGraph& own = *plan->own();
    RunOptions alone;
    alone.cancellation = options.cancellation;
    alone.rendezvous = options.rendezvous;
    alone.trace = options.trace;
    alone.partition_graphs = options.partition_graphs;
    own.Run(std::move(feeds), alone, metadata,
            [plan = std::move(plan), done = std::move(done)](
                absl::StatusOr<std::vector<Tensor>> results) mutable { done(std::move(results)); });
    return;
  }
  std::make_shared<ClusterStep>(std::move(plan), worker, all_runs, options, metadata,
                                std::move(done))
      ->Start(std::move(feeds));
}

}  // namespace tandem
