#include "strategies/local/replica_builder.h"

#include <map>
#include <utility>

#include "core/base/status.h"

namespace tandem {
namespace {

// Operations are numbered by multiples of it; their gradients take the numbers in between
// (kernels/collective/all_reduce.cc).
constexpr int64_t kInstances = 1024;

// As the attribute of _TandemAllReduce has it.
const char* NameOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMean:
      return "mean";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kProduct:
      break;
  }
  return "product";
}

// The op that joins two values; means are sums first.
const char* OpOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return "AddV2";
    case Reduction::kMin:
      return "Minimum";
    case Reduction::kMax:
      return "Maximum";
    case Reduction::kProduct:
      break;
  }
  return "Mul";
}

class ReplicaBuilder final : public StrategyBuilder {
 public:
  explicit ReplicaBuilder(ReplicaBuilderOptions options)
      : options_(std::move(options)), root_(Scope::NewRoot()) {
    initialize_ = host_scope().WithOpName("initialize_variables").AddNode("NoOp", {});
  }

  Scope host_scope() const override { return root_.WithDevice("/device:CPU:0"); }
  int num_replicas() const override {
    return options_.virtual_replicas > 0 ? options_.virtual_replicas : num_devices();
  }
  int num_copies() const override { return options_.central_device.empty() ? num_devices() : 1; }
  int copy_of(int replica) const override {
    return options_.central_device.empty() ? device_of(replica) : 0;
  }
  std::string device_of_copy(int copy) const override {
    return options_.central_device.empty() ? options_.devices[static_cast<size_t>(copy)]
                                           : options_.central_device;
  }
  std::string initializer() const override { return initialize_->name(); }

  absl::StatusOr<StrategyVariable*> Variable(const VariableSpec& spec) override {
    for (const auto& variable : variables_) {
      if (variable->name() != spec.name) continue;
      if (variable->spec().dtype != spec.dtype || variable->spec().shape != spec.shape) {
        return errors::InvalidArgument(
            "variable '", spec.name, "' exists as ", DataTypeName(variable->spec().dtype),
            variable->spec().shape.DebugString(), " and is asked for as ", DataTypeName(spec.dtype),
            spec.shape.DebugString());
      }
      return variable.get();
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
      const std::string device = mirrored ? device_of_copy(copy) : device_of_replica(copy);
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
    variables_.push_back(std::make_unique<StrategyVariable>(spec, std::move(handles)));
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
    ended_.clear();
    barriers_.clear();
    for (int copy = 0; copy < num_copies(); ++copy) {
      barriers_.push_back(root_.WithDevice(device_of_copy(copy))
                              .WithOpName(absl::StrCat(name, "/arrived_", copy))
                              .AddNode("NoOp", {}));
    }
    return root_.status();
  }

  absl::StatusOr<Node*> EndStep() override {
    if (step_name_.empty()) {
      return errors::FailedPrecondition("no step of the graph has begun");
    }
    TANDEM_RETURN_IF_ERROR(CheckCalls());
    TANDEM_RETURN_IF_ERROR(ApplyAssignments());
    Node* const done = host_scope()
                           .WithControlDependencies(ended_)
                           .WithOpName(absl::StrCat(step_name_, "/done"))
                           .AddNode("NoOp", {});
    step_name_.clear();
    step_ = Output();
    TANDEM_RETURN_IF_ERROR(root_.status());
    return done;
  }

  absl::StatusOr<Output> ReduceToHost(Reduction reduction, const PerReplica& values) override {
    TANDEM_RETURN_IF_ERROR(CheckPerReplica(values));
    const Scope scope = host_scope().SubScope("reduce");
    // The same tree as in collectives: the bits of a metric do not depend on the devices either.
    Output sum = Tree(scope, OpOf(reduction), values, 0, values.size());
    if (reduction == Reduction::kMean && values.size() > 1) {
      const Output count = scope.Call("Cast", {scope.Constant(static_cast<int>(values.size()))},
                                      {{"DstT", values[0].dtype()}});
      sum = scope.Call("RealDiv", {sum, count});
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    return sum;
  }

  absl::StatusOr<Output> GatherToHost(const PerReplica& values, int axis) override {
    TANDEM_RETURN_IF_ERROR(CheckPerReplica(values));
    if (values.size() == 1) return values[0];
    const Scope scope = host_scope().SubScope("gather");
    InputList inputs(values.begin(), values.end());
    inputs.emplace_back(scope.Constant(axis));
    const Output joined = scope.Call("ConcatV2", inputs);
    TANDEM_RETURN_IF_ERROR(scope.status());
    return joined;
  }

  absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients) override {
    for (size_t i = 0; i < gradients.size(); ++i) {
      TANDEM_RETURN_IF_ERROR(CheckGradient(i, gradients[i]));
    }
    std::vector<std::vector<Gradient>> reduced(
        gradients.size(), std::vector<Gradient>(static_cast<size_t>(num_copies())));
    std::vector<size_t> bucket;
    int64_t bytes = 0;
    for (size_t i = gradients.size(); i-- > 0;) {
      const PerReplicaGradient& gradient = gradients[i];
      if (!gradient[0].exists()) continue;
      if (num_replicas() == 1) {
        // Nothing to reduce, but updates wait for all gradients all the same: an error on the way
        // to the last of them must not leave some variables changed.
        reduced[i][0] = gradient[0];
        Arrived({gradient[0].values.node});
        continue;
      }
      if (gradient[0].is_sparse()) {
        TANDEM_RETURN_IF_ERROR(JoinSparse(gradient, reduced[i]));
        continue;
      }
      if (!bucket.empty() && gradient[0].values.dtype() != gradients[bucket[0]][0].values.dtype()) {
        Flush(gradients, bucket, reduced);
        bytes = 0;
      }
      bucket.push_back(i);
      bytes += BytesOf(gradient[0].values);
      if (bytes >= options_.bucket_bytes) {
        Flush(gradients, bucket, reduced);
        bytes = 0;
      }
    }
    Flush(gradients, bucket, reduced);
    TANDEM_RETURN_IF_ERROR(root_.status());
    return reduced;
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
    return scope.WithDevice(device_of_replica(replica));
  }

  Output CurrentStep() const override { return step_; }

  Output ReadVariable(int replica, const StrategyVariable& variable, const Scope& scope) override {
    for (const Assignment& assignment : assigned_) {
      if (assignment.variable == &variable &&
          static_cast<int>(assignment.values.size()) == replica + 1) {
        return assignment.values.back();
      }
    }
    Output& read = reads_[{variable.name(), replica}];
    if (!read.valid()) {
      const bool own = variable.spec().synchronization == Synchronization::kOnRead;
      const int copy = own ? replica : copy_of(replica);
      read =
          scope.WithoutControlDependencies()
              .WithDevice(own ? device_of_replica(replica) : device_of_copy(copy))
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
    for (Assignment& assignment : assigned_) {
      if (assignment.variable != &variable) continue;
      const int replicas = static_cast<int>(assignment.values.size());
      if (replicas == replica + 1) {
        assignment.values.back() = value;  // The last one counts.
        return absl::OkStatus();
      }
      if (replicas != replica) {
        return errors::InvalidArgument("variable '", variable.name(), "' is assigned by replica ",
                                       replica, " and not by all replicas before it");
      }
      assignment.values.push_back(value);
      return absl::OkStatus();
    }
    if (replica != 0) {
      return errors::InvalidArgument("variable '", variable.name(), "' is assigned by replica ",
                                     replica, " and not by those before it");
    }
    assigned_.push_back({&variable, {value}});
    return absl::OkStatus();
  }

  std::vector<Output> AllReduce(int replica, Reduction reduction, const std::vector<Output>& values,
                                const Scope& scope) override {
    // The others have no gradient, with one replica as with many.
    const bool is_linear = reduction == Reduction::kSum || reduction == Reduction::kMean;
    if (num_replicas() == 1 && is_linear) return values;
    std::vector<Output> results;
    if (step_name_.empty()) {
      scope.UpdateStatus(errors::FailedPrecondition(
          "values are reduced over replicas outside a step (StrategyBuilder::BeginStep)"));
    } else {
      // The n-th call of every replica in a step is one operation.
      const size_t call = next_call_[static_cast<size_t>(replica)]++;
      if (call == calls_.size()) calls_.push_back(kInstances * num_operations_++);
      results = AllReduceNode(replica, calls_[call], reduction, values, scope);
      if (!results.empty()) Arrived({results[0].node});
    }
    results.resize(values.size());
    return results;
  }

 private:
  // What comes from outside: one valid value a replica.
  absl::Status CheckPerReplica(const PerReplica& values) const {
    if (static_cast<int>(values.size()) != num_replicas()) {
      return errors::InvalidArgument("there are ", values.size(), " values of ", num_replicas(),
                                     " replicas; one of each is wanted");
    }
    for (const Output& value : values) {
      if (!value.valid()) return errors::InvalidArgument("a replica's value is an invalid output");
    }
    return absl::OkStatus();
  }

  // A variable's gradients: one of each replica, all alike, or none of any.
  absl::Status CheckGradient(size_t number, const PerReplicaGradient& gradient) const {
    if (static_cast<int>(gradient.size()) != num_replicas()) {
      return errors::InvalidArgument("list ", number, " of gradients has ", gradient.size(),
                                     " entries for ", num_replicas(),
                                     " replicas; one of each is wanted");
    }
    for (size_t r = 1; r < gradient.size(); ++r) {
      if (gradient[r].exists() != gradient[0].exists()) {
        return errors::InvalidArgument("of list ", number, " of gradients replica ",
                                       gradient[0].exists() ? r : 0, " has none and replica ",
                                       gradient[0].exists() ? 0 : r,
                                       " has one; every replica must run the same model");
      }
      if (!gradient[0].exists()) continue;
      if (gradient[r].is_sparse() != gradient[0].is_sparse() ||
          gradient[r].values.dtype() != gradient[0].values.dtype()) {
        return errors::InvalidArgument("of list ", number, " of gradients replica 0 has a ",
                                       Kind(gradient[0]), " one and replica ", r, " a ",
                                       Kind(gradient[r]), " one; all must be alike");
      }
    }
    return absl::OkStatus();
  }
  static std::string Kind(const Gradient& gradient) {
    return absl::StrCat(gradient.is_sparse() ? "sparse " : "dense ",
                        DataTypeName(gradient.values.dtype()));
  }

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

  int num_devices() const { return static_cast<int>(options_.devices.size()); }
  // Replica i of V belongs to device floor(i·N/V): each device has a contiguous range.
  int device_of(int replica) const { return replica * num_devices() / num_replicas(); }
  const std::string& device_of_replica(int replica) const {
    return options_.devices[static_cast<size_t>(device_of(replica))];
  }

  struct Assignment {
    const StrategyVariable* variable;
    PerReplica values;
  };

  // Where nodes run that change a copy: after all that the step waits for.
  Scope UpdateScope(int copy) {
    const Scope scope = root_.WithDevice(device_of_copy(copy));
    if (barriers_.empty()) return scope;
    return scope.WithControlDependencies({barriers_[static_cast<size_t>(copy)]});
  }

  // No copy changes before these have run. Every copy waits for all reductions: one that arrives on
  // its own device may fail on another one.
  void Arrived(std::initializer_list<Node*> nodes) {
    for (int copy = 0; copy < num_copies(); ++copy) Arrived(nodes, copy);
  }
  void Arrived(std::initializer_list<Node*> nodes, int copy) {
    if (barriers_.empty() || barriers_[static_cast<size_t>(copy)] == nullptr) return;
    for (Node* node : nodes) graph()->AddControlEdge(node, barriers_[static_cast<size_t>(copy)]);
  }

  absl::Status ApplyAssignments() {
    for (const Assignment& assignment : assigned_) {
      const VariableSpec& spec = assignment.variable->spec();
      if (static_cast<int>(assignment.values.size()) != num_replicas()) {
        return errors::InvalidArgument("variable '", spec.name, "' is assigned by ",
                                       assignment.values.size(), " of ", num_replicas(),
                                       " replicas; every replica has to assign it");
      }
      const bool mirrored = spec.synchronization == Synchronization::kMirrored;
      Output whole;
      if (mirrored) {
        TANDEM_ASSIGN_OR_RETURN(whole, Aggregate(spec, assignment.values));
        Arrived({whole.node});
      }
      for (int copy = 0; copy < assignment.variable->num_copies(); ++copy) {
        const Output value = mirrored ? whole : assignment.values[static_cast<size_t>(copy)];
        if (!mirrored) Arrived({value.node});
        const Scope scope =
            UpdateScope(mirrored ? copy : copy_of(copy))
                .WithDevice(mirrored ? device_of_copy(copy) : device_of_replica(copy))
                .SubScope("assign");
        ended_.push_back(
            scope.AddNode("AssignVariableOp", {assignment.variable->handle(copy), value}));
        TANDEM_RETURN_IF_ERROR(scope.status());
      }
    }
    return absl::OkStatus();
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
    return errors::InvalidArgument(
        "variable '", spec.name, "' is assigned by ", values.size(),
        " replicas, but its spec does not say how their values become one (aggregation)");
  }

  static int64_t BytesOf(const Output& value) {
    int64_t bytes = static_cast<int64_t>(DataTypeSize(RemoveReference(value.dtype())));
    if (!value.shape().IsFullyDefined()) return bytes;
    for (const int64_t size : value.shape().dims()) bytes *= size;
    return bytes;
  }

  std::vector<Output> AllReduceNode(int replica, int64_t instance, Reduction reduction,
                                    const std::vector<Output>& values, const Scope& scope) {
    InputList inputs;
    for (const Output& value : values) inputs.emplace_back(value);
    return scope.CallMulti("_TandemAllReduce", inputs,
                           {{"group", kReplicaGroup},
                            {"member", replica},
                            {"instance", instance},
                            {"reduction", NameOf(reduction)}});
  }

  static Output Tree(const Scope& scope, const char* op, const PerReplica& values, size_t first,
                     size_t last) {
    const size_t n = last - first;
    if (n == 1) return values[first];
    size_t half = 1;
    while (half * 2 < n) half *= 2;
    const Output left = Tree(scope, op, values, first, first + half);
    const Output right = Tree(scope, op, values, first + half, last);
    return scope.Call(op, {left, right});
  }

  // Reduces the gradients of a bucket in one operation a replica, and empties the bucket.
  void Flush(const std::vector<PerReplicaGradient>& gradients, std::vector<size_t>& bucket,
             std::vector<std::vector<Gradient>>& reduced) {
    if (bucket.empty()) return;
    const int64_t instance = kInstances * num_operations_++;
    const int64_t number = num_buckets_++;
    for (int replica = 0; replica < num_replicas(); ++replica) {
      std::vector<Output> values;
      for (const size_t i : bucket) {
        values.push_back(gradients[i][static_cast<size_t>(replica)].values);
      }
      const Scope scope =
          root_.WithDevice(device_of_replica(replica))
              .WithOpName(absl::StrCat("reduce/bucket_", number, "/replica_", replica));
      const std::vector<Output> results =
          AllReduceNode(replica, instance, Reduction::kSum, values, scope);
      if (results.size() != bucket.size()) return;  // The scope keeps the error.
      Arrived({results[0].node});
      for (size_t k = 0; k < bucket.size(); ++k) {
        // Virtual replicas of one device get the same results; the copy takes those of the first.
        Gradient& target = reduced[bucket[k]][static_cast<size_t>(copy_of(replica))];
        if (!target.exists()) target = Gradient(results[k]);
      }
    }
    bucket.clear();
  }

  absl::Status JoinSparse(const PerReplicaGradient& gradient, std::vector<Gradient>& copies) {
    const Scope scope = host_scope().SubScope("reduce/sparse");
    InputList values;
    InputList indices;
    for (const Gradient& part : gradient) {
      values.emplace_back(part.values);
      indices.emplace_back(part.indices);
    }
    const Output axis = scope.Constant(0);
    values.emplace_back(axis);
    indices.emplace_back(axis);
    const Gradient joined(scope.Call("ConcatV2", values), scope.Call("ConcatV2", indices),
                          gradient[0].dense_shape);
    TANDEM_RETURN_IF_ERROR(scope.status());
    Arrived({joined.values.node, joined.indices.node});
    for (Gradient& copy : copies) copy = joined;
    return absl::OkStatus();
  }

  const ReplicaBuilderOptions options_;
  const Scope root_;
  Node* initialize_ = nullptr;
  std::vector<std::unique_ptr<StrategyVariable>> variables_;
  int64_t num_operations_ = 0;
  int64_t num_buckets_ = 0;

  // Of the step that has begun.
  std::string step_name_;
  Output step_;
  std::map<std::pair<std::string, int>, Output> reads_;  // Looked up only.
  std::vector<size_t> next_call_;                        // Of AllReduce, by replica.
  std::vector<int64_t> calls_;                           // The instance of each call.
  std::vector<Assignment> assigned_;
  // By copy: nodes that run when all has arrived that the step waits for, and so decide that it
  // changes all that it has to change, or nothing.
  std::vector<Node*> barriers_;
  std::vector<Node*> ended_;
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
  return std::make_unique<ReplicaBuilder>(std::move(options));
}

}  // namespace tandem
