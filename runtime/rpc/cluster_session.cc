#include "runtime/rpc/cluster_session.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/rpc/cluster_plan.h"
#include "runtime/rpc/cluster_step.h"
#include "runtime/rpc/join_tasks.h"
#include "runtime/rpc/signature_key.h"
#include "runtime/rpc/status_on_wire.h"
#include "runtime/session/partial_run.h"

namespace tandem {
namespace {

constexpr absl::Duration kReportEvery = absl::Seconds(10);
constexpr absl::Duration kControlTimeout = absl::Seconds(30);
constexpr absl::Duration kDeleteTimeout = absl::Seconds(10);

void DeleteShares(const std::string& handle,
                  const std::vector<std::shared_ptr<WorkerClient>>& clients) {
  CallOptions options;
  options.deadline = absl::Now() + kDeleteTimeout;
  for (const std::shared_ptr<WorkerClient>& client : clients) {
    tensorflow::DeleteWorkerSessionRequest request;
    request.set_session_handle(handle);
    // A task that cannot be reached has lost the session, or will forget it when the master comes
    // back with another incarnation.
    client->DeleteWorkerSession(
        std::move(request), options,
        [](const absl::StatusOr<tensorflow::DeleteWorkerSessionResponse>&) {});
  }
}

class SessionOverTasks final : public Session {
 public:
  SessionOverTasks(Graph graph, ClusterPlanContext context, Worker* worker)
      : context_(std::move(context)), worker_(*worker), graph_(std::move(graph)) {}

  ~SessionOverTasks() override {
    worker_.DeleteSession(context_.session_handle);
    std::vector<std::shared_ptr<WorkerClient>> clients;
    for (const auto& [task, client] : context_.others) clients.push_back(client);
    DeleteShares(context_.session_handle, clients);
  }

  absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets,
                                          RunMetadata* metadata) override {
    RunSignature signature{{}, fetches, targets};
    std::vector<Tensor> values;
    for (const auto& [name, value] : feeds) {
      signature.feeds.push_back(name);
      values.push_back(value);
    }
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ClusterPlan> plan, Find(signature));
    return RunPlan(std::move(plan), std::move(values), options, metadata);
  }

  absl::StatusOr<std::unique_ptr<Callable>> MakeCallable(const RunSignature& signature) override {
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ClusterPlan> plan, Find(signature));
    class PlanCallable final : public Callable {
     public:
      PlanCallable(SessionOverTasks* session, std::shared_ptr<ClusterPlan> plan)
          : session_(*session), plan_(std::move(plan)) {}
      absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> feeds, const RunOptions& options,
                                              RunMetadata* metadata) override {
        return session_.RunPlan(plan_, std::move(feeds), options, metadata);
      }
      void Start(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
                 Done done) override {
        if (options.timeout != absl::InfiniteDuration()) {
          done(errors::InvalidArgument(
              "a run that is started without waiting has no deadline of its own; cancel it in "
              "time"));
          return;
        }
        session_.StartPlan(plan_, std::move(feeds), options, metadata, std::move(done));
      }

     private:
      SessionOverTasks& session_;
      const std::shared_ptr<ClusterPlan> plan_;
    };
    return std::make_unique<PlanCallable>(this, std::move(plan));
  }

  absl::StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(
      const RunSignature& signature) override {
    RunSignature partial = signature;
    partial.is_partial = true;
    std::shared_ptr<const PartialSignature> description;
    {
      MutexLock lock(graph_mu_);
      std::shared_ptr<const PartialSignature>& known = partial_[SignatureKey(partial)];
      if (known == nullptr) {
        absl::StatusOr<PartialSignature> made = DescribePartialSignature(partial, graph_);
        if (!made.ok()) {
          partial_.erase(SignatureKey(partial));
          return made.status();
        }
        known = std::make_shared<const PartialSignature>(*std::move(made));
      }
      description = known;
    }
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Callable> callable, MakeCallable(partial));
    return NewPartialRun(std::move(description), std::move(callable));
  }

  absl::Status Extend(const std::function<absl::Status(Graph& graph)>& extend) override {
    if (!extend) return errors::InvalidArgument("there is nothing to extend the graph with");
    MutexLock lock(graph_mu_);
    Graph extended = graph_.Clone();
    // Plans that are made right now keep the library that they began with.
    extended.set_shared_functions(graph_.functions().Clone());
    TANDEM_RETURN_IF_ERROR(extend(extended));
    graph_ = std::move(extended);
    return absl::OkStatus();
  }

  std::vector<std::pair<std::string, Tensor>> RandomPositions() override { return {}; }
  absl::Status SetRandomPosition(const std::string& op, const Tensor&) override {
    return errors::Unimplemented("the position of '", op,
                                 "' cannot be set in a session over several tasks");
  }

  DeviceSet& devices() override { return session_devices()->devices(); }
  const std::shared_ptr<SessionDevices>& session_devices() const override {
    return worker_.shared_devices();
  }

  void Close(const absl::Status& reason) override {
    all_runs_.Cancel(reason);
    context_.own->Close(reason);
  }

 private:
  absl::StatusOr<std::shared_ptr<ClusterPlan>> Find(const RunSignature& signature) {
    const std::string key = SignatureKey(signature);
    {
      MutexLock lock(mu_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    std::optional<Graph> graph;
    {
      MutexLock lock(graph_mu_);
      graph = graph_.Clone();
    }
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ClusterPlan> made,
                            ClusterPlan::Create(context_, signature, *std::move(graph)));
    MutexLock lock(mu_);
    // Two threads may have made it; the first one's is kept.
    return plans_.emplace(key, std::move(made)).first->second;
  }

  void StartPlan(std::shared_ptr<ClusterPlan> plan, std::vector<Tensor> feeds,
                 const RunOptions& options, RunMetadata* metadata, Callable::Done done) {
    absl::Status status = all_runs_.status();
    // The feeds of a partial run come while it runs, through its rendezvous.
    if (status.ok() && options.rendezvous == nullptr) status = plan->CheckFeeds(feeds);
    if (!status.ok()) {
      done(std::move(status));
      return;
    }
    ClusterPlan& registered = *plan;
    registered.Register([this, plan = std::move(plan), feeds = std::move(feeds), options, metadata,
                         done = std::move(done)](const absl::Status& status) mutable {
      if (!status.ok()) {
        done(status);
        return;
      }
      StartClusterStep(std::move(plan), &worker_, &all_runs_, std::move(feeds), options, metadata,
                       std::move(done));
    });
  }

  absl::StatusOr<std::vector<Tensor>> RunPlan(std::shared_ptr<ClusterPlan> plan,
                                              std::vector<Tensor> feeds, const RunOptions& options,
                                              RunMetadata* metadata) {
    absl::StatusOr<std::vector<Tensor>> results = errors::Internal("the step has not ended");
    Event ended;
    CancellationManager cancellation(options.cancellation);
    RunOptions started = options;
    started.timeout = absl::InfiniteDuration();
    started.cancellation = &cancellation;
    StartPlan(std::move(plan), std::move(feeds), started, metadata,
              [&](absl::StatusOr<std::vector<Tensor>> values) {
                results = std::move(values);
                ended.Set();
              });
    const absl::Time deadline = options.timeout == absl::InfiniteDuration()
                                    ? absl::InfiniteFuture()
                                    : absl::Now() + options.timeout;
    if (!ended.Wait(deadline)) {
      cancellation.Cancel(errors::DeadlineExceeded("the step was not done after ",
                                                   absl::FormatDuration(options.timeout)));
      ended.Wait();
    }
    return results;
  }

  const ClusterPlanContext context_;
  Worker& worker_;
  CancellationManager all_runs_;
  Mutex graph_mu_;
  Graph graph_ ABSL_GUARDED_BY(graph_mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const PartialSignature>> partial_
      ABSL_GUARDED_BY(graph_mu_);
  Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<ClusterPlan>> plans_ ABSL_GUARDED_BY(mu_);
};

// Makes the session's shares on all tasks, once these answer.
class Creation : public std::enable_shared_from_this<Creation> {
 public:
  Creation(Graph graph, ClusterSessionOptions options, Worker* worker,
           CancellationManager* cancellation,
           absl::AnyInvocable<void(absl::StatusOr<ClusterSession>)> done)
      : graph_(std::move(graph)),
        options_(std::move(options)),
        worker_(*worker),
        cancellation_(cancellation),
        done_(std::move(done)),
        pending_(options_.others.size()) {}

  void Start() {
    JoinTasks(options_.others, options_.start_timeout, kReportEvery, cancellation_,
              [self = shared_from_this()](
                  absl::StatusOr<std::vector<std::vector<tensorflow::DeviceAttributes>>> devices) {
                self->Joined(std::move(devices));
              });
  }

 private:
  void Joined(absl::StatusOr<std::vector<std::vector<tensorflow::DeviceAttributes>>> devices) {
    if (!devices.ok()) {
      done_(devices.status());
      return;
    }
    tensorflow::GetStatusResponse own;
    worker_.GetStatus(&own);
    devices_.assign(own.device_attributes().begin(), own.device_attributes().end());
    for (const auto& of_task : *devices) {
      devices_.insert(devices_.end(), of_task.begin(), of_task.end());
    }
    tensorflow::CreateWorkerSessionRequest request;
    request.set_session_handle(options_.handle);
    request.set_isolate_session_state(options_.config.isolate_session_state());
    request.set_master_task(worker_.tasks().own());
    request.set_master_incarnation(static_cast<int64_t>(devices_.front().incarnation()));
    if (options_.config.share_cluster_devices_in_session() ||
        options_.config.experimental().share_cluster_devices_in_session()) {
      for (const tensorflow::DeviceAttributes& device : devices_) {
        *request.add_cluster_device_attributes() = device;
      }
    }
    const absl::Status status = worker_.CreateSession(request);
    if (!status.ok()) {
      done_(status);
      return;
    }
    CallOptions call;
    call.deadline = absl::Now() + kControlTimeout;
    call.cancellation = cancellation_;
    for (const std::shared_ptr<WorkerClient>& client : options_.others) {
      tensorflow::CreateWorkerSessionRequest share = request;
      const absl::StatusOr<DeviceName> task = DeviceName::Parse(client->task());
      if (task.ok()) {
        share.mutable_server_def()->set_job_name(task->job.value_or(""));
        share.mutable_server_def()->set_task_index(task->task.value_or(0));
        share.mutable_server_def()->set_protocol("grpc");
      }
      client->CreateWorkerSession(
          std::move(share), call,
          [self = shared_from_this(),
           client](const absl::StatusOr<tensorflow::CreateWorkerSessionResponse>& response) {
            self->ShareMade(FromTask(response.status(), client->task()));
          });
    }
  }

  void ShareMade(absl::Status status) {
    {
      MutexLock lock(mu_);
      if (error_.ok()) error_ = std::move(status);
      if (--pending_ > 0) return;
      status = error_;
    }
    absl::StatusOr<std::shared_ptr<WorkerSession>> own = worker_.FindSession(options_.handle);
    if (status.ok()) status = own.status();
    if (!status.ok()) {
      worker_.DeleteSession(options_.handle);
      DeleteShares(options_.handle, options_.others);
      done_(std::move(status));
      return;
    }
    ClusterPlanContext context;
    context.session_handle = options_.handle;
    context.config = options_.config;
    context.devices = devices_;
    context.own_task = worker_.tasks().own();
    context.own = *std::move(own);
    for (const std::shared_ptr<WorkerClient>& client : options_.others) {
      context.others.emplace(client->task(), client);
    }
    ClusterSession made;
    made.devices = std::move(devices_);
    made.session =
        std::make_unique<SessionOverTasks>(std::move(graph_), std::move(context), &worker_);
    done_(std::move(made));
  }

  Graph graph_;
  const ClusterSessionOptions options_;
  Worker& worker_;
  CancellationManager* const cancellation_;
  absl::AnyInvocable<void(absl::StatusOr<ClusterSession>)> done_;
  std::vector<tensorflow::DeviceAttributes> devices_;
  Mutex mu_;
  size_t pending_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void CreateClusterSession(Graph graph, ClusterSessionOptions options, Worker* worker,
                          CancellationManager* cancellation,
                          absl::AnyInvocable<void(absl::StatusOr<ClusterSession>)> done) {
  if (options.others.empty()) {
    done(errors::InvalidArgument("a session over several tasks needs another one than its own"));
    return;
  }
  std::make_shared<Creation>(std::move(graph), std::move(options), worker, cancellation,
                             std::move(done))
      ->Start();
}

absl::StatusOr<std::vector<std::shared_ptr<WorkerClient>>> FilterTasks(
    const ClusterTasks& tasks, const google::protobuf::RepeatedPtrField<std::string>& filters) {
  std::vector<DeviceName> patterns;
  for (const std::string& filter : filters) {
    absl::StatusOr<DeviceName> pattern = DeviceName::Parse(filter);
    if (!pattern.ok()) return WithContext(pattern.status(), "device_filters");
    patterns.push_back(*std::move(pattern));
  }
  std::vector<std::shared_ptr<WorkerClient>> result;
  for (const auto& [name, client] : tasks.others()) {
    TANDEM_ASSIGN_OR_RETURN(const DeviceName task, DeviceName::Parse(name));
    bool fits = patterns.empty();
    for (const DeviceName& pattern : patterns) fits |= AreCompatible(pattern, task);
    if (fits) result.push_back(client);
  }
  return result;
}

}  // namespace tandem
