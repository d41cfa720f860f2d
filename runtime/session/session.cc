#include "runtime/session/session.h"

#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "proto/graph.pb.h"
#include "runtime/collective/in_process.h"
#include "runtime/executor/step_run.h"
#include "runtime/session/compile.h"
#include "runtime/session/function_runtime.h"
#include "runtime/session/partial_run.h"

namespace tandem {
namespace {

std::string SignatureKey(const RunSignature& signature) {
  std::string key;
  for (const auto* names : {&signature.feeds, &signature.fetches, &signature.targets}) {
    // With lengths, so that no name can look like two.
    for (const std::string& name : *names) absl::StrAppend(&key, name.size(), ":", name);
    key += ';';
  }
  if (signature.is_partial) key += "partial";
  return key;
}

int64_t NextStepId() {
  static std::atomic<int64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// What one run needs, recycled between runs of one signature.
struct StepState {
  explicit StepState(const Plan& plan) : run(NewStepRun(plan)) {
    environment.scheduler = MakeRef<StepScheduler>();
    environment.step_resources = &step_resources;
  }

  StepEnvironment environment;
  ResourceManager step_resources;
  std::optional<CancellationManager> cancellation;
  // The caller's, in which the step is registered; or null.
  CancellationManager* outer_cancellation = nullptr;
  CancellationManager::Token token = 0;
  StepTracer tracer;
  std::unique_ptr<StepRun> run;
};

// A plan with its idle states.
class CompiledSignature {
 public:
  CompiledSignature(RunSignature signature, std::unique_ptr<Plan> plan,
                    std::vector<PartialShape> feed_shapes)
      : signature_(std::move(signature)),
        plan_(std::move(plan)),
        feed_shapes_(std::move(feed_shapes)) {}

  std::unique_ptr<StepState> Take() {
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        std::unique_ptr<StepState> state = std::move(idle_.back());
        idle_.pop_back();
        return state;
      }
    }
    return std::make_unique<StepState>(*plan_);
  }
  void Put(std::unique_ptr<StepState> state) {
    MutexLock lock(mu_);
    idle_.push_back(std::move(state));
  }

  absl::Status CheckFeeds(const std::vector<Tensor>& feeds) const {
    if (feeds.size() != signature_.feeds.size()) {
      return errors::InvalidArgument("the signature has ", signature_.feeds.size(), " feeds; ",
                                     feeds.size(), " tensors were given");
    }
    for (size_t i = 0; i < feeds.size(); ++i) {
      // A feed that nothing depends on was pruned; its type is not known any more.
      const DataType wanted =
          i < plan_->arg_types.size() ? plan_->arg_types[i] : DataType::kInvalid;
      if (wanted != DataType::kInvalid && feeds[i].dtype() != wanted) {
        return errors::InvalidArgument("feed '", signature_.feeds[i], "' is ",
                                       DataTypeName(feeds[i].dtype()), "; ", DataTypeName(wanted),
                                       " is wanted");
      }
      if (!feeds[i].is_valid() ||
          !feed_shapes_[i].IsCompatibleWith(PartialShape(feeds[i].shape()))) {
        return errors::InvalidArgument("feed '", signature_.feeds[i], "' has the shape ",
                                       feeds[i].shape().DebugString(), "; ",
                                       feed_shapes_[i].DebugString(), " is wanted");
      }
    }
    return absl::OkStatus();
  }

  const RunSignature& signature() const { return signature_; }

  // The graph of the plan, for people to look at. Made when somebody asks for it first.
  absl::StatusOr<std::shared_ptr<const tensorflow::GraphDef>> GraphForPeople() {
    MutexLock lock(mu_);
    if (graph_for_people_ == nullptr) {
      ExportOptions options;
      options.placed_devices = true;
      options.internal_ops = true;
      TANDEM_ASSIGN_OR_RETURN(tensorflow::GraphDef def, ExportGraphDef(*plan_->graph, options));
      graph_for_people_ = std::make_shared<const tensorflow::GraphDef>(std::move(def));
    }
    return graph_for_people_;
  }

 private:
  const RunSignature signature_;
  const std::unique_ptr<Plan> plan_;
  const std::vector<PartialShape> feed_shapes_;
  Mutex mu_;
  std::vector<std::unique_ptr<StepState>> idle_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const tensorflow::GraphDef> graph_for_people_ ABSL_GUARDED_BY(mu_);
};

class LocalSession final : public Session {
 public:
  LocalSession(Graph graph, SessionOptions options)
      : options_(std::move(options)),
        collectives_(options_.collective_timeout, options_.between_processes.get()),
        shared_kernels_(options_.shared_kernels != nullptr ? options_.shared_kernels
                                                           : NewSharedKernelCache()),
        functions_(graph.shared_functions(), BaseCompileOptions(), options_.parameter_store.get()),
        graph_(std::move(graph)) {
    for (const auto& [name, size] : options_.collective_groups) {
      collectives_.DeclareGroup(name, size);
    }
  }

  absl::StatusOr<std::vector<Tensor>> Run(const RunOptions& options, const Feeds& feeds,
                                          const std::vector<std::string>& fetches,
                                          const std::vector<std::string>& targets,
                                          RunMetadata* metadata) override {
    RunSignature signature{{}, fetches, targets};
    std::vector<Tensor> values;
    values.reserve(feeds.size());
    signature.feeds.reserve(feeds.size());
    for (const auto& [name, value] : feeds) {
      signature.feeds.push_back(name);
      values.push_back(value);
    }
    TANDEM_ASSIGN_OR_RETURN(CompiledSignature * compiled, Find(signature));
    return RunCompiled(*compiled, options, std::move(values), metadata);
  }

  absl::StatusOr<std::unique_ptr<Callable>> MakeCallable(const RunSignature& signature) override {
    TANDEM_ASSIGN_OR_RETURN(CompiledSignature * compiled, Find(signature));
    class SessionCallable final : public Callable {
     public:
      SessionCallable(LocalSession* session, CompiledSignature* compiled)
          : session_(session), compiled_(compiled) {}
      absl::StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> feeds, const RunOptions& options,
                                              RunMetadata* metadata) override {
        return session_->RunCompiled(*compiled_, options, std::move(feeds), metadata);
      }
      void Start(std::vector<Tensor> feeds, const RunOptions& options, RunMetadata* metadata,
                 Done done) override {
        session_->StartCompiled(*compiled_, options, std::move(feeds), metadata, std::move(done));
      }

     private:
      LocalSession* const session_;
      CompiledSignature* const compiled_;
    };
    return std::make_unique<SessionCallable>(this, compiled);
  }

  absl::StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(
      const RunSignature& signature) override {
    RunSignature partial = signature;
    partial.is_partial = true;
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const PartialSignature> description, Describe(partial));
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Callable> callable, MakeCallable(partial));
    return NewPartialRun(std::move(description), std::move(callable));
  }

  absl::Status Extend(const std::function<absl::Status(Graph& graph)>& extend) override {
    if (!extend) return errors::InvalidArgument("there is nothing to extend the graph with");
    MutexLock lock(graph_mu_);
    Graph extended = graph_.Clone();
    extended.set_shared_functions(graph_.functions().Clone());
    TANDEM_RETURN_IF_ERROR(extend(extended));
    TANDEM_RETURN_IF_ERROR(graph_.functions().Merge(extended.functions()));
    extended.set_shared_functions(graph_.shared_functions());
    graph_ = std::move(extended);
    return absl::OkStatus();
  }

  std::vector<std::pair<std::string, Tensor>> RandomPositions() override {
    std::vector<std::pair<std::string, Tensor>> positions;
    for (const auto& [node, generator] : shared_kernels_->Generators()) {
      if (!positions.empty() && positions.back().first == node) continue;
      positions.emplace_back(node, generator->Save());
    }
    for (auto& position : functions_.RandomPositions()) positions.push_back(std::move(position));
    return positions;
  }

  absl::Status SetRandomPosition(const std::string& node, const Tensor& position) override {
    if (FunctionRuntime::IsPositionInFunction(node)) {
      return functions_.SetRandomPosition(node, position);
    }
    bool is_known = false;
    for (const auto& [name, generator] : shared_kernels_->Generators()) {
      if (name != node) continue;
      TANDEM_RETURN_IF_ERROR(generator->Restore(position));
      is_known = true;
    }
    if (is_known) return absl::OkStatus();
    return errors::NotFound("there is no random op '", node, "' with a position");
  }

  DeviceSet& devices() override { return options_.session_devices->devices(); }
  const std::shared_ptr<SessionDevices>& session_devices() const override {
    return options_.session_devices;
  }

  void Close(const absl::Status& reason) override { all_runs_.Cancel(reason); }

  absl::StatusOr<std::vector<Tensor>> RunCompiled(CompiledSignature& compiled,
                                                  const RunOptions& options,
                                                  std::vector<Tensor> feeds,
                                                  RunMetadata* metadata) {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StepState> state,
                            Prepare(compiled, options, feeds, metadata));
    absl::StatusOr<std::vector<Tensor>> results(std::vector<Tensor>{});
    StepScheduler* const scheduler = state->environment.scheduler.get();
    const absl::Time deadline = options.timeout == absl::InfiniteDuration()
                                    ? absl::InfiniteFuture()
                                    : absl::Now() + options.timeout;
    const auto begin = [&] {
      state->run->Start(&state->environment, /*call_depth=*/0, std::move(feeds),
                        [&results, scheduler](absl::StatusOr<std::vector<Tensor>> values) {
                          results = std::move(values);
                          scheduler->Finish();
                        });
    };
    if (!scheduler->DriveUntilFinished(begin, deadline)) {
      state->cancellation->Cancel(errors::DeadlineExceeded(
          "step ", state->environment.step_id, " was not done after ",
          absl::FormatDuration(options.timeout), WaitingNodes(*state->run)));
      scheduler->DriveUntilFinished([] {}, absl::InfiniteFuture());
    }
    if (options.trace) {
      std::vector<StepTracer::Event> events = state->tracer.Take();
      if (metadata != nullptr) metadata->events = std::move(events);
    }
    CleanUp(*state);
    compiled.Put(std::move(state));
    return results;
  }

  void StartCompiled(CompiledSignature& compiled, const RunOptions& options,
                     std::vector<Tensor> feeds, RunMetadata* metadata, Callable::Done done) {
    if (options.timeout != absl::InfiniteDuration()) {
      done(errors::InvalidArgument(
          "a run that is started without waiting has no deadline of its own; cancel it in time"));
      return;
    }
    absl::StatusOr<std::unique_ptr<StepState>> prepared =
        Prepare(compiled, options, feeds, metadata);
    if (!prepared.ok()) {
      done(prepared.status());
      return;
    }
    StepState* const state = prepared->release();  // Owned by the closure below.
    state->environment.is_driven = false;
    state->run->Start(&state->environment, /*call_depth=*/0, std::move(feeds),
                      [this, &compiled, state, metadata,
                       done = std::move(done)](absl::StatusOr<std::vector<Tensor>> values) mutable {
                        if (state->environment.tracer != nullptr) {
                          std::vector<StepTracer::Event> events = state->tracer.Take();
                          if (metadata != nullptr) metadata->events = std::move(events);
                        }
                        // Others of the step's threads may still look for work in it; they find
                        // none.
                        CleanUp(*state);
                        compiled.Put(std::unique_ptr<StepState>(state));
                        done(std::move(values));
                      });
  }

 private:
  CompileOptions BaseCompileOptions() const {
    CompileOptions compile;
    compile.devices = options_.session_devices;
    compile.soft_placement = options_.soft_placement;
    compile.default_device = options_.default_device;
    compile.inner_parallelism = options_.inner_parallelism;
    compile.optimize = options_.optimize;
    return compile;
  }

  // A state for a run of the signature, which is registered with whoever may cancel it.
  absl::StatusOr<std::unique_ptr<StepState>> Prepare(CompiledSignature& compiled,
                                                     const RunOptions& options,
                                                     const std::vector<Tensor>& feeds,
                                                     RunMetadata* metadata) {
    TANDEM_RETURN_IF_ERROR(compiled.CheckFeeds(feeds));
    if (all_runs_.IsCancelled()) return all_runs_.status();
    if (options.partition_graphs && metadata != nullptr) {
      TANDEM_ASSIGN_OR_RETURN(auto graph, compiled.GraphForPeople());
      metadata->partition_graphs = {std::move(graph)};
    }
    std::unique_ptr<StepState> state = compiled.Take();
    StepEnvironment& environment = state->environment;
    environment.step_id = NextStepId();
    environment.collective_step =
        options.collective_step < 0 ? environment.step_id : options.collective_step;
    environment.functions = &functions_;
    environment.collectives = &collectives_;
    environment.rendezvous = options.rendezvous;
    environment.tracer = options.trace ? &state->tracer : nullptr;
    environment.is_driven = true;
    environment.dead_fetch_code = options_.dead_fetch_code;
    state->cancellation.emplace(&all_runs_);
    environment.cancellation = &*state->cancellation;
    state->outer_cancellation = options.cancellation;
    if (options.cancellation != nullptr) {
      state->token = options.cancellation->NewToken();
      StepState* const raw = state.get();
      const bool registered = options.cancellation->Register(
          state->token, [raw] { raw->cancellation->Cancel(raw->outer_cancellation->status()); });
      if (!registered) state->cancellation->Cancel(options.cancellation->status());
    }
    return state;
  }

  static void CleanUp(StepState& state) {
    if (state.outer_cancellation != nullptr) state.outer_cancellation->Deregister(state.token);
    state.environment.cancellation = nullptr;
    state.cancellation.reset();
    state.step_resources.ClearAll();
    state.environment.scheduler->Reset();
  }

  static std::string WaitingNodes(const StepRun& run) {
    std::vector<std::string> waiting = run.Waiting();
    if (waiting.empty()) return "; it was computing";
    constexpr size_t kShown = 8;
    const size_t count = waiting.size();
    if (count > kShown) waiting.resize(kShown);
    return absl::StrCat("; ", count, " nodes wait: ", absl::StrJoin(waiting, ", "),
                        count > kShown ? ", …" : "");
  }

  absl::StatusOr<CompiledSignature*> Find(const RunSignature& signature) {
    const std::string key = SignatureKey(signature);
    {
      MutexLock lock(mu_);
      const auto found = compiled_.find(key);
      if (found != compiled_.end()) return found->second.get();
    }
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CompiledSignature> made, Compile(signature));
    MutexLock lock(mu_);
    // Two threads may have compiled the same signature; the first one's is kept.
    return compiled_.emplace(key, std::move(made)).first->second.get();
  }

  absl::StatusOr<std::shared_ptr<const PartialSignature>> Describe(const RunSignature& signature) {
    const std::string key = SignatureKey(signature);
    {
      MutexLock lock(mu_);
      const auto found = partial_.find(key);
      if (found != partial_.end()) return found->second;
    }
    std::shared_ptr<const PartialSignature> made;
    {
      MutexLock lock(graph_mu_);
      TANDEM_ASSIGN_OR_RETURN(PartialSignature description,
                              DescribePartialSignature(signature, graph_));
      made = std::make_shared<const PartialSignature>(std::move(description));
    }
    MutexLock lock(mu_);
    return partial_.emplace(key, std::move(made)).first->second;
  }

  absl::StatusOr<std::unique_ptr<CompiledSignature>> Compile(const RunSignature& signature) {
    std::optional<Graph> graph;
    {
      MutexLock lock(graph_mu_);
      graph = graph_.Clone();
    }
    std::vector<PartialShape> feed_shapes;
    for (const std::string& feed : signature.feeds) {
      const absl::StatusOr<Output> output = graph->GetOutput(feed);
      feed_shapes.push_back(output.ok() && output->index >= 0 && output->node->num_outputs() > 0
                                ? output->shape()
                                : PartialShape::Unknown());
    }
    TANDEM_RETURN_IF_ERROR(
        PruneToSignature(signature, options_.session_devices->devices().host().name(), *graph));
    CompileOptions compile = BaseCompileOptions();
    compile.shared_kernels = shared_kernels_.get();
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, CompileGraph(*std::move(graph), compile));
    // The feeds of a partial run come while it runs; it is started without any.
    RunSignature given = signature;
    if (signature.is_partial) given.feeds.clear();
    plan->arg_slots.resize(given.feeds.size(), -1);
    return std::make_unique<CompiledSignature>(std::move(given), std::move(plan),
                                               std::move(feed_shapes));
  }

  const SessionOptions options_;
  CancellationManager all_runs_;
  InProcessCollectives collectives_;
  const std::shared_ptr<SharedKernelCache> shared_kernels_;
  FunctionRuntime functions_;

  Mutex graph_mu_;
  Graph graph_ ABSL_GUARDED_BY(graph_mu_);
  Mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<CompiledSignature>> compiled_
      ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<const PartialSignature>> partial_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::shared_ptr<SharedKernelCache> NewSharedKernelCache() {
  return std::make_shared<SharedKernelCache>();
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph,
                                                         SessionOptions options) {
  TANDEM_RETURN_IF_ERROR(SwitchPassesFromEnvironment(&options.optimize));
  if (options.session_devices == nullptr) {
    if (options.devices == nullptr) {
      TANDEM_ASSIGN_OR_RETURN(options.devices, DeviceSet::FromEnvironment());
    }
    options.session_devices = std::make_shared<SessionDevices>(options.devices);
  }
  // The session's functions are its own: sessions of one graph that are extended do not meet.
  Graph own = graph.Clone();
  own.set_shared_functions(graph.functions().Clone());
  return std::make_unique<LocalSession>(std::move(own), std::move(options));
}

}  // namespace tandem
