#include "strategies/local/replica_builder.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "kernels/collective/gradient_codec.h"
#include "strategies/local/reductions.h"

namespace tandem {
namespace {

class ReplicaBuilder final : public StrategyBuilder, private Residuals {
 public:
  explicit ReplicaBuilder(const ReplicaBuilderOptions& options)
      : layout_{options.devices, options.central_device, options.virtual_replicas},
        spans_processes_(options.spans_processes),
        root_(Scope::NewRoot()),
        reductions_(layout_, root_,
                    {options.bucket_bytes, options.first_bucket_bytes, options.spans_processes,
                     options.compression, options.least_compressed_bytes}) {
    initialize_ = host_scope().WithOpName("initialize_variables").AddNode("NoOp", {});
  }

  Scope host_scope() const override { return root_.WithDevice(kHostDevice); }
  int num_replicas() const override { return layout_.num_replicas(); }
  int num_copies() const override { return layout_.num_copies(); }
  int copy_of(int replica) const override { return layout_.copy_of(replica); }
  std::string device_of_copy(int copy) const override { return layout_.device_of_copy(copy); }
  std::string initializer() const override { return initialize_->name(); }

  absl::StatusOr<StrategyVariable*> Variable(const VariableSpec& spec) override {
    if (const auto found = by_name_.find(spec.name); found != by_name_.end()) {
      StrategyVariable* const variable = found->second;
      if (variable->spec().dtype != spec.dtype || variable->spec().shape != spec.shape) {
        return errors::InvalidArgument(
            "variable '", spec.name, "' exists as ", DataTypeName(variable->spec().dtype),
            variable->spec().shape.DebugString(), " and is asked for as ", DataTypeName(spec.dtype),
            spec.shape.DebugString());
      }
      return variable;
    }
    if (!spec.initializer) {
      return errors::InvalidArgument("variable '", spec.name,
                                     "' has no initializer (VariableSpec::initializer)");
    }
    const bool mirrored = spec.synchronization == Synchronization::kMirrored;
    const int copies = mirrored ? num_copies() : num_replicas();
    std::vector<Output> handles;
    // The initial value is computed once, on the host, and given to every copy: they begin equal.
    const Scope initial_scope = host_scope().SubScope(absl::StrCat(spec.name, "/initializer"));
    const Output initial = spec.initializer(initial_scope);
    TANDEM_RETURN_IF_ERROR(initial_scope.status());
    if (!initial.valid()) {
      return errors::InvalidArgument("the initializer of variable '", spec.name,
                                     "' gives an invalid output");
    }
    for (int copy = 0; copy < copies; ++copy) {
      const std::string device = mirrored ? device_of_copy(copy) : layout_.device_of_replica(copy);
      // A copy's number never shows in the variable's name, only in the node's. Copies of one
      // variable on one device (one a virtual replica) need names of their own.
      const std::string suffix = copy == 0 ? "" : absl::StrCat("/copy_", copy);
      const Scope scope = root_.WithDevice(device);
      const Output handle = scope.WithOpName(spec.name + suffix)
                                .Call("VarHandleOp", {},
                                      {{"dtype", spec.dtype},
                                       {"shape", PartialShape(spec.shape)},
                                       {"shared_name", mirrored ? spec.name : spec.name + suffix}});
      Node* const assign = scope.WithOpName(spec.name + "/assign_initial" + suffix)
                               .AddNode("AssignVariableOp", {handle, initial});
      TANDEM_RETURN_IF_ERROR(scope.status());
      graph()->AddControlEdge(assign, initialize_);
      handles.push_back(handle);
    }
    Output aggregate;
    if (!mirrored && spans_processes_ && spec.aggregation != Aggregation::kNone) {
      TANDEM_ASSIGN_OR_RETURN(aggregate, NewAggregate(spec, initial));
    }
    variables_.push_back(std::make_unique<StrategyVariable>(spec, std::move(handles), aggregate));
    by_name_.emplace(spec.name, variables_.back().get());
    return variables_.back().get();
  }

  std::vector<StrategyVariable*> variables() const override {
    std::vector<StrategyVariable*> list;
    for (const auto& variable : variables_) list.push_back(variable.get());
    return list;
  }

  absl::Status BeginStep(absl::string_view name, Output step) override {
    if (!step_name_.empty()) {
      return errors::FailedPrecondition("step '", step_name_, "' of the graph has not ended; '",
                                        name, "' cannot begin in it");
    }
    step_name_ = std::string(name);
    step_ = step;
    next_call_.assign(static_cast<size_t>(num_replicas()), 0);
    calls_.clear();
    reads_.clear();
    assigned_.clear();
    assignment_of_.clear();
    ended_.clear();
    kept_.clear();
    barriers_.clear();
    all_arrived_ = nullptr;
    if (num_copies() > 1) {
      all_arrived_ =
          host_scope().WithOpName(absl::StrCat(name, "/all_arrived")).AddNode("NoOp", {});
    }
    for (int copy = 0; copy < num_copies(); ++copy) {
      barriers_.push_back(root_.WithDevice(device_of_copy(copy))
                              .WithOpName(absl::StrCat(name, "/arrived_", copy))
                              .AddNode("NoOp", {}));
      if (all_arrived_ != nullptr && barriers_.back() != nullptr) {
        graph()->AddControlEdge(all_arrived_, barriers_.back());
      }
    }
    return root_.status();
  }

  absl::StatusOr<Node*> EndStep() override {
    if (step_name_.empty()) {
      return errors::FailedPrecondition("no step of the graph has begun");
    }
    TANDEM_RETURN_IF_ERROR(CheckCalls());
    TANDEM_RETURN_IF_ERROR(ApplyAssignments());
    for (const auto& [handle, value] : kept_) {
      const Scope scope = UpdateScope(0).WithDevice(kHostDevice).SubScope("residual");
      ended_.push_back(scope.AddNode("AssignVariableOp", {handle, value}));
    }
    Node* const done = host_scope()
                           .WithControlDependencies(ended_)
                           .WithOpName(absl::StrCat(step_name_, "/done"))
                           .AddNode("NoOp", {});
    step_name_.clear();
    step_ = Output();
    TANDEM_RETURN_IF_ERROR(root_.status());
    return done;
  }

  absl::StatusOr<std::vector<Output>> ReduceAllToHost(
      Reduction reduction, const std::vector<PerReplica>& values) override {
    return reductions_.ReduceAll(host_scope(), reduction, values,
                                 [this](std::initializer_list<Node*> nodes) { Arrived(nodes); });
  }

  absl::StatusOr<Output> GatherToHost(const PerReplica& values, int axis) override {
    return reductions_.Gather(host_scope().SubScope("gather"), values, axis,
                              [this](std::initializer_list<Node*> nodes) { Arrived(nodes); });
  }

  absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients) override {
    return reductions_.ReduceGradients(
        gradients, [this](std::initializer_list<Node*> nodes) { Arrived(nodes); }, *this);
  }

  absl::Status HoldUpdates(Node* node) override {
    if (node == nullptr) {
      return errors::InvalidArgument("updates cannot be held back for a node that is null");
    }
    Arrived({node});
    return absl::OkStatus();
  }

  Scope CopyScope(int copy) override { return root_.WithDevice(device_of_copy(copy)); }

  absl::Status Update(
      const StrategyVariable& variable,
      absl::FunctionRef<absl::StatusOr<Node*>(const Scope& scope, Output handle, int copy)> update)
      override {
    if (variable.spec().synchronization == Synchronization::kOnRead) {
      return errors::InvalidArgument("variable '", variable.name(),
                                     "' is synchronized on read: its copies are the replicas' own, "
                                     "which assign them (ReplicaContext::Assign)");
    }
    for (int copy = 0; copy < variable.num_copies(); ++copy) {
      const Scope scope = UpdateScope(copy).SubScope("update");
      TANDEM_ASSIGN_OR_RETURN(Node * ended, update(scope, variable.handle(copy), copy));
      TANDEM_RETURN_IF_ERROR(scope.status());
      if (ended != nullptr) ended_.push_back(ended);
    }
    return absl::OkStatus();
  }

 protected:
  Scope ReplicaScope(int replica) override {
    const Scope scope =
        num_replicas() == 1 ? root_ : root_.SubScope(absl::StrCat("replica_", replica));
    return scope.WithDevice(layout_.device_of_replica(replica));
  }

  Output CurrentStep() const override { return step_; }

  Output FirstReplica() override {
    if (spans_processes_ && !first_replica_.valid()) {
      first_replica_ = host_scope()
                           .WithOpName("first_replica")
                           .Call("_TandemFirstReplica", {}, {{"group", kReplicaGroup}});
    }
    return first_replica_;
  }

  Output ReadVariable(int replica, const StrategyVariable& variable, const Scope& scope) override {
    if (const Assignment* const assignment = FindAssignment(variable);
        assignment != nullptr && static_cast<int>(assignment->values.size()) == replica + 1) {
      return assignment->values.back();
    }
    Output& read = reads_[{&variable, replica}];
    if (!read.valid()) {
      const bool own = variable.spec().synchronization == Synchronization::kOnRead;
      const int copy = own ? replica : copy_of(replica);
      read =
          scope.WithoutControlDependencies()
              .WithDevice(own ? layout_.device_of_replica(replica) : device_of_copy(copy))
              .Call("ReadVariableOp", {variable.handle(copy)}, {{"dtype", variable.spec().dtype}});
      // A step reads before it writes, whatever depends on what.
      if (read.valid() && !step_name_.empty()) Arrived({read.node}, copy_of(replica));
    }
    return read;
  }

  absl::Status AssignVariable(int replica, const StrategyVariable& variable,
                              Output value) override {
    if (step_name_.empty()) {
      return errors::FailedPrecondition(
          "variable '", variable.name(),
          "' is assigned outside a step (StrategyBuilder::BeginStep)");
    }
    if (!value.valid()) {
      return errors::InvalidArgument("replica ", replica, " assigns variable '", variable.name(),
                                     "' an invalid output");
    }
    if (Assignment* const assignment = FindAssignment(variable)) {
      const int replicas = static_cast<int>(assignment->values.size());
      if (replicas == replica + 1) {
        assignment->values.back() = value;  // The last one counts.
        return absl::OkStatus();
      }
      if (replicas != replica) {
        return errors::InvalidArgument("variable '", variable.name(), "' is assigned by replica ",
                                       replica, " and not by all replicas before it");
      }
      assignment->values.push_back(value);
      return absl::OkStatus();
    }
    if (replica != 0) {
      return errors::InvalidArgument("variable '", variable.name(), "' is assigned by replica ",
                                     replica, " and not by those before it");
    }
    assignment_of_.emplace(&variable, assigned_.size());
    assigned_.push_back({&variable, {value}});
    return absl::OkStatus();
  }

  std::vector<Output> AllReduce(int replica, Reduction reduction, const std::vector<Output>& values,
                                const Scope& scope) override {
    // The others have no gradient, with one replica as with many.
    const bool is_linear = reduction == Reduction::kSum || reduction == Reduction::kMean;
    if (num_replicas() == 1 && is_linear && !spans_processes_) return values;
    std::vector<Output> results;
    if (step_name_.empty()) {
      scope.UpdateStatus(errors::FailedPrecondition(
          "values are reduced over replicas outside a step (StrategyBuilder::BeginStep)"));
    } else {
      // The n-th call of every replica in a step is one operation.
      const size_t call = next_call_[static_cast<size_t>(replica)]++;
      if (call == calls_.size()) calls_.push_back(reductions_.NewOperation());
      results = reductions_.AllReduce(scope, replica, calls_[call], reduction, values);
      if (!results.empty()) Arrived({results[0].node});
    }
    results.resize(values.size());
    return results;
  }

 private:
  // A replica that makes fewer calls would leave the others waiting for ever.
  absl::Status CheckCalls() const {
    for (size_t r = 1; r < next_call_.size(); ++r) {
      if (next_call_[r] == next_call_[0]) continue;
      return errors::InvalidArgument("in step '", step_name_,
                                     "' replica 0 reduces values over the "
                                     "replicas ",
                                     next_call_[0], " times (AllReduce) and replica ", r, " does ",
                                     next_call_[r],
                                     " times; every replica has to make the same calls");
    }
    return absl::OkStatus();
  }

  // A variable on the host that variables() does not have.
  absl::StatusOr<Output> NewHidden(const std::string& name, DataType dtype, const Shape& shape,
                                   const Output& initial) {
    const Output handle = host_scope().WithOpName(name).Call(
        "VarHandleOp", {},
        {{"dtype", dtype}, {"shape", PartialShape(shape)}, {"shared_name", name}});
    Node* const assign = host_scope()
                             .WithOpName(name + "/assign_initial")
                             .AddNode("AssignVariableOp", {handle, initial});
    TANDEM_RETURN_IF_ERROR(root_.status());
    graph()->AddControlEdge(assign, initialize_);
    return handle;
  }

  // That of StrategyVariable::aggregate.
  absl::StatusOr<Output> NewAggregate(const VariableSpec& spec, const Output& initial) {
    return NewHidden(spec.name + "/aggregate", spec.dtype, spec.shape, initial);
  }

  absl::StatusOr<Output> New(const Shape& shape) override {
    const std::string name = absl::StrCat("reduce/residual_", num_residuals_++);
    const Output zeros = host_scope().SubScope(name).Call(
        "Fill",
        {Tensor::Vector<int64_t>(std::vector<int64_t>(shape.dims().begin(), shape.dims().end())),
         Tensor::Scalar<float>(0)});
    TANDEM_RETURN_IF_ERROR(root_.status());
    return NewHidden(name, kFloat32, shape, zeros);
  }

  void Keep(Output handle, Output value) override { kept_.emplace_back(handle, value); }

  struct Assignment {
    const StrategyVariable* variable;
    PerReplica values;
  };

  Assignment* FindAssignment(const StrategyVariable& variable) {
    const auto found = assignment_of_.find(&variable);
    return found == assignment_of_.end() ? nullptr : &assigned_[found->second];
  }

  // Where nodes run that change a copy: after all that the step waits for.
  Scope UpdateScope(int copy) {
    const Scope scope = root_.WithDevice(device_of_copy(copy));
    if (barriers_.empty()) return scope;
    return scope.WithControlDependencies({barriers_[static_cast<size_t>(copy)]});
  }

  // No copy changes before these have run. Every copy waits for all reductions: one that arrives on
  // its own device may fail on another one.
  void Arrived(std::initializer_list<Node*> nodes) {
    if (step_name_.empty()) return;  // They belong to no step.
    if (num_copies() == 1) {
      Arrived(nodes, 0);
    } else if (all_arrived_ != nullptr) {
      for (Node* node : nodes) graph()->AddControlEdge(node, all_arrived_);
    }
  }
  void Arrived(std::initializer_list<Node*> nodes, int copy) {
    if (barriers_.empty() || barriers_[static_cast<size_t>(copy)] == nullptr) return;
    for (Node* node : nodes) graph()->AddControlEdge(node, barriers_[static_cast<size_t>(copy)]);
  }

  absl::Status ApplyAssignments() {
    for (const Assignment& assignment : assigned_) {
      if (static_cast<int>(assignment.values.size()) == num_replicas()) continue;
      return errors::InvalidArgument("variable '", assignment.variable->name(), "' is assigned by ",
                                     assignment.values.size(), " of ", num_replicas(),
                                     " replicas; every replica has to assign it");
    }
    std::vector<Output> wholes(assigned_.size());
    if (spans_processes_) TANDEM_RETURN_IF_ERROR(AggregateBetweenProcesses(wholes));
    for (size_t i = 0; i < assigned_.size(); ++i) {
      const Assignment& assignment = assigned_[i];
      const StrategyVariable& variable = *assignment.variable;
      const bool mirrored = variable.spec().synchronization == Synchronization::kMirrored;
      Output& whole = wholes[i];
      if (mirrored && !spans_processes_) {
        TANDEM_ASSIGN_OR_RETURN(whole, Aggregate(variable.spec(), assignment.values));
      }
      if (whole.valid()) Arrived({whole.node});
      for (int copy = 0; copy < variable.num_copies(); ++copy) {
        const Output value = mirrored ? whole : assignment.values[static_cast<size_t>(copy)];
        if (!mirrored) Arrived({value.node});
        const Scope scope =
            UpdateScope(mirrored ? copy : copy_of(copy))
                .WithDevice(mirrored ? device_of_copy(copy) : layout_.device_of_replica(copy))
                .SubScope("assign");
        ended_.push_back(scope.AddNode("AssignVariableOp", {variable.handle(copy), value}));
        TANDEM_RETURN_IF_ERROR(scope.status());
      }
      if (!variable.aggregate().valid()) continue;
      const Scope scope = UpdateScope(0).WithDevice(kHostDevice).SubScope("assign");
      ended_.push_back(scope.AddNode("AssignVariableOp", {variable.aggregate(), whole}));
      TANDEM_RETURN_IF_ERROR(scope.status());
    }
    return absl::OkStatus();
  }

  // One collective for each kind of aggregation, and not one for each variable. Leaves out those
  // that are read on demand and not aggregated.
  absl::Status AggregateBetweenProcesses(std::vector<Output>& wholes) {
    for (const Assignment& assignment : assigned_) {
      const VariableSpec& spec = assignment.variable->spec();
      if (spec.synchronization == Synchronization::kMirrored &&
          spec.aggregation == Aggregation::kNone) {
        return NoAggregation(spec);
      }
    }
    for (const Aggregation aggregation :
         {Aggregation::kSum, Aggregation::kMean, Aggregation::kOnlyFirstReplica}) {
      std::vector<size_t> which;
      std::vector<PerReplica> values;
      for (size_t i = 0; i < assigned_.size(); ++i) {
        if (assigned_[i].variable->spec().aggregation != aggregation) continue;
        which.push_back(i);
        values.push_back(assigned_[i].values);
      }
      if (which.empty()) continue;
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> results, AggregateAll(aggregation, values));
      for (size_t k = 0; k < which.size(); ++k) wholes[which[k]] = results[k];
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Output>> AggregateAll(Aggregation aggregation,
                                                   const std::vector<PerReplica>& values) {
    if (aggregation == Aggregation::kSum) return ReduceAllToHost(Reduction::kSum, values);
    if (aggregation == Aggregation::kMean) return ReduceAllToHost(Reduction::kMean, values);
    return reductions_.OfFirstReplica(
        host_scope().SubScope("first"), values,
        [this](std::initializer_list<Node*> nodes) { Arrived(nodes); });
  }

  absl::StatusOr<Output> Aggregate(const VariableSpec& spec, const PerReplica& values) {
    switch (spec.aggregation) {
      case Aggregation::kSum:
        return ReduceToHost(Reduction::kSum, values);
      case Aggregation::kMean:
        return ReduceToHost(Reduction::kMean, values);
      case Aggregation::kOnlyFirstReplica:
        return values[0];
      case Aggregation::kNone:
        break;
    }
    if (values.size() == 1) return values[0];
    return NoAggregation(spec);
  }

  absl::Status NoAggregation(const VariableSpec& spec) const {
    return errors::InvalidArgument(
        "variable '", spec.name, "' is assigned by ",
        spans_processes_ ? "" : absl::StrCat(num_replicas(), " "), "replicas",
        spans_processes_ ? " of several processes" : "",
        ", but its spec does not say how their values become one (aggregation)");
  }

  const ReplicaLayout layout_;
  const bool spans_processes_;
  const Scope root_;
  Reductions reductions_;
  Node* initialize_ = nullptr;
  Output first_replica_;  // Made when it is first asked for.
  int num_residuals_ = 0;
  std::vector<std::unique_ptr<StrategyVariable>> variables_;
  absl::flat_hash_map<std::string, StrategyVariable*> by_name_;

  // Of the step that has begun.
  std::string step_name_;
  Output step_;
  absl::flat_hash_map<std::pair<const StrategyVariable*, int>, Output> reads_;  // By replica.
  std::vector<size_t> next_call_;     // Of AllReduce, by replica.
  std::vector<int64_t> calls_;        // The instance of each call.
  std::vector<Assignment> assigned_;  // In the order of the calls.
  absl::flat_hash_map<const StrategyVariable*, size_t> assignment_of_;
  // By copy: nodes that run when all has arrived that the step waits for, and so decide that it
  // changes all that it has to change, or nothing.
  std::vector<Node*> barriers_;
  // Where there are several copies: runs when all has arrived that every copy waits for, before
  // their barriers. With an edge from each of R replicas to each of as many copies the graph would
  // grow with the square of R.
  Node* all_arrived_ = nullptr;
  std::vector<Node*> ended_;
  std::vector<std::pair<Output, Output>> kept_;  // Handles of residuals, and their new values.
};

}  // namespace

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewReplicaBuilder(ReplicaBuilderOptions options) {
  if (options.devices.empty()) {
    return errors::InvalidArgument("a strategy needs at least one device (replica)");
  }
  const int devices = static_cast<int>(options.devices.size());
  if (options.virtual_replicas != 0 && options.virtual_replicas < devices) {
    return errors::InvalidArgument("deterministic mode has ", options.virtual_replicas,
                                   " virtual replicas; that cannot be fewer than the ", devices,
                                   " devices");
  }
  if (!options.compression.empty()) {
    TANDEM_RETURN_IF_ERROR(
        WithContext(GradientCodec::Parse(options.compression).status(), "compression"));
    if (!options.spans_processes || options.virtual_replicas > 0) {
      return errors::InvalidArgument(
          "gradients are compressed (", options.compression, ") on their way between processes, ",
          options.spans_processes
              ? "and not in deterministic mode: their sum would depend on the number of processes"
              : "of which this strategy has one");
    }
  }
  return std::make_unique<ReplicaBuilder>(options);
}

}  // namespace tandem
