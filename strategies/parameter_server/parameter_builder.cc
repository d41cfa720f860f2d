#include "strategies/parameter_server/parameter_builder.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/op/gradients.h"
#include "strategies/parameter_server/variable_store.h"

namespace tandem::parameter_server {
namespace {

constexpr char kHost[] = "/device:CPU:0";

Join JoinFor(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return Join::kSum;
    case Reduction::kMean:
      return Join::kMean;
    case Reduction::kMin:
      return Join::kMin;
    case Reduction::kMax:
      return Join::kMax;
    case Reduction::kProduct:
      break;
  }
  return Join::kProduct;
}

// As gradients of tables come from lookups: rows by number.
struct Lookup {
  const StrategyVariable* variable;
  Output ids;   // A vector.
  Output rows;  // What the lookup gave.
};

class Builder final : public ParameterBuilder {
 public:
  explicit Builder(const ParameterBuilderOptions& options)
      : options_(options),
        root_(Scope::NewRoot()),
        initialize_(host_scope().WithOpName("initialize_variables").AddNode("NoOp", {})),
        store_(options, root_, initialize_) {}

  Scope host_scope() const override { return root_.WithDevice(kHost); }
  int num_replicas() const override { return 1; }
  int num_copies() const override { return 1; }
  int copy_of(int) const override { return 0; }
  std::string device_of_copy(int) const override { return options_.device; }
  std::string initializer() const override { return initialize_->name(); }
  int num_shards() const override { return options_.shards; }

  absl::StatusOr<StrategyVariable*> Variable(const VariableSpec& spec) override {
    return store_.GetOrCreate(spec);
  }
  std::vector<StrategyVariable*> variables() const override { return store_.variables(); }

  std::vector<VariablePart> PartsOf(const StrategyVariable& variable) const override {
    const VariableStore::Entry& entry = store_.Find(variable);
    std::vector<VariablePart> parts;
    for (int p = 0; p < variable.num_copies(); ++p) {
      const StrategyVariable::Part& rows = variable.parts()[static_cast<size_t>(p)];
      VariablePart part;
      part.shard = entry.shards[static_cast<size_t>(p)];
      part.variable.set_name(*variable.handle(p).node->Attr<std::string>("shared_name"));
      part.variable.set_handle(variable.handle(p).node->name());
      part.variable.set_offset(rows.first);
      part.variable.set_stride(rows.stride);
      part.shape = rows.shape;
      parts.push_back(std::move(part));
    }
    return parts;
  }

  absl::StatusOr<Join> JoinOf(const std::string& fetch) const override {
    absl::string_view name = fetch;
    absl::ConsumeSuffix(&name, ":0");
    const auto found = joins_.find(name);
    if (found != joins_.end()) return found->second;
    return errors::NotFound("'", fetch, "' is no result of a reduction or of a gathering");
  }

  absl::Status BeginStep(absl::string_view name, Output step) override {
    if (!step_name_.empty()) {
      return errors::FailedPrecondition("step '", step_name_, "' of the graph has not ended; '",
                                        name, "' cannot begin in it");
    }
    step_name_ = std::string(name);
    step_ = step;
    reads_.clear();
    lookups_.clear();
    assigned_.clear();
    ended_.clear();
    arrived_ = root_.WithDevice(options_.device)
                   .WithOpName(absl::StrCat(name, "/arrived"))
                   .AddNode("NoOp", {});
    return root_.status();
  }

  absl::StatusOr<Node*> EndStep() override {
    if (step_name_.empty()) {
      return errors::FailedPrecondition("no step of the graph has begun");
    }
    for (const Assignment& assignment : assigned_) TANDEM_RETURN_IF_ERROR(Apply(assignment));
    Node* const done = host_scope()
                           .WithControlDependencies(ended_)
                           .WithOpName(absl::StrCat(step_name_, "/done"))
                           .AddNode("NoOp", {});
    step_name_.clear();
    step_ = Output();
    arrived_ = nullptr;
    TANDEM_RETURN_IF_ERROR(root_.status());
    return done;
  }

  absl::StatusOr<std::vector<Output>> ReduceAllToHost(
      Reduction reduction, const std::vector<PerReplica>& values) override {
    std::vector<Output> results;
    for (const PerReplica& value : values) {
      TANDEM_ASSIGN_OR_RETURN(const Output result, Result("reduce", value, JoinFor(reduction)));
      results.push_back(result);
    }
    return results;
  }

  absl::StatusOr<Output> GatherToHost(const PerReplica& values, int axis) override {
    if (axis != 0) {
      return errors::InvalidArgument("results of several workers are joined along axis 0, not ",
                                     axis);
    }
    return Result("gather", values, Join::kConcat);
  }

  absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients) override {
    std::vector<std::vector<Gradient>> reduced;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].size() != 1) {
        return errors::InvalidArgument("list ", i, " of gradients has ", gradients[i].size(),
                                       " entries for one replica");
      }
      const Gradient& gradient = gradients[i][0];
      if (gradient.exists()) Arrived(gradient.values.node);
      reduced.push_back({gradient});
    }
    return reduced;
  }

  absl::StatusOr<std::vector<Gradient>> SplitGradient(
      const StrategyVariable& variable, const std::vector<Gradient>& copies) override {
    if (copies.size() != 1 || !copies[0].exists()) {
      return errors::InvalidArgument("variable '", variable.name(), "' has ", copies.size(),
                                     " gradients; one is wanted");
    }
    const Scope scope = CopyScope(0).SubScope(absl::StrCat(variable.name(), "/parts"));
    const Partition& partition = store_.Find(variable).partition;
    Gradient gradient = copies[0];
    std::vector<Gradient> parts;
    if (gradient.is_sparse()) {
      // Rows with equal numbers travel as one.
      const std::vector<Output> sums =
          scope.CallMulti("_TandemSumDuplicates", {gradient.values, gradient.indices});
      TANDEM_RETURN_IF_ERROR(scope.status());
      parts = partition.SplitSparse(scope, Gradient(sums[0], sums[1], gradient.dense_shape));
    } else {
      for (const Output& part : partition.Split(scope, gradient.values)) parts.emplace_back(part);
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    return parts;
  }

  absl::Status HoldUpdates(Node* node) override {
    if (node == nullptr) {
      return errors::InvalidArgument("updates cannot be held back for a node that is null");
    }
    Arrived(node);
    return absl::OkStatus();
  }

  Scope CopyScope(int) override { return root_.WithDevice(options_.device); }

  absl::Status Update(
      const StrategyVariable& variable,
      absl::FunctionRef<absl::StatusOr<Node*>(const Scope& scope, Output handle, int copy)> update)
      override {
    if (variable.spec().synchronization == Synchronization::kOnRead) {
      return errors::InvalidArgument("variable '", variable.name(),
                                     "' is synchronized on read: its copies are the replicas' own, "
                                     "which assign them (ReplicaContext::Assign)");
    }
    for (int p = 0; p < variable.num_copies(); ++p) {
      const Scope scope = PartScope(variable, p).SubScope("update");
      TANDEM_ASSIGN_OR_RETURN(Node * ended, update(scope, variable.handle(p), p));
      TANDEM_RETURN_IF_ERROR(scope.status());
      if (ended != nullptr) ended_.push_back(ended);
    }
    return absl::OkStatus();
  }

 protected:
  Scope ReplicaScope(int) override { return root_.WithDevice(options_.device); }
  Output CurrentStep() const override { return step_; }

  Output ReadVariable(int, const StrategyVariable& variable, const Scope& scope) override {
    if (const Assignment* const assignment = FindAssignment(variable)) return assignment->value;
    return ReadBefore(variable, scope);
  }

  Output LookUp(int, const StrategyVariable& variable, const Output& ids, const Scope&,
                const Scope& scope) override {
    if (FindAssignment(variable) != nullptr || !ids.valid()) {
      return StrategyBuilder::LookUp(0, variable, ids, scope, scope);
    }
    const Scope here = scope.WithoutControlDependencies().SubScope("lookup");
    const Scope host = here.WithDevice(kHost);
    const Output flat = host.Call("Reshape", {ids, Tensor::Vector<int32_t>({-1})});
    const std::vector<Output> unique = host.CallMulti("Unique", {flat});
    if (!here.ok()) return {};
    std::vector<Node*> reads;
    const Output rows = store_.Gather(here, variable, unique[0], reads);
    for (Node* const read : reads) Arrived(read);
    const Output places =
        host.Call("Reshape", {unique[1], host.Call("Shape", {ids}, {{"out_type", kInt64}})});
    const Output result = here.Call("GatherV2", {rows, places, Tensor::Scalar<int32_t>(0)});
    if (result.valid() && !step_name_.empty()) lookups_.push_back({&variable, flat, result});
    return result;
  }

  absl::StatusOr<std::vector<Gradient>> GradientsOf(int, const Output& loss,
                                                    const std::vector<StrategyVariable*>& variables,
                                                    const Scope& scope) override {
    TANDEM_RETURN_IF_ERROR(scope.status());
    // Only of what the step has read: a variable that it only looks up is not to be read for this.
    std::vector<Output> xs;
    for (const StrategyVariable* variable : variables) {
      if (const auto read = reads_.find(variable); read != reads_.end()) {
        xs.push_back(read->second);
      }
    }
    for (const Lookup& lookup : lookups_) xs.push_back(lookup.rows);
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                            AddGradients(graph(), {loss}, xs));
    std::vector<Gradient> results;
    size_t next = 0;
    for (const StrategyVariable* variable : variables) {
      std::vector<Gradient> summands;
      if (reads_.contains(variable)) summands.push_back(gradients[next++]);
      results.emplace_back();
      const size_t first_lookup = gradients.size() - lookups_.size();
      // The last one first, as gradients flow: sums of rows then have the bits that they have where
      // tables are read as a whole.
      for (size_t i = lookups_.size(); i-- > 0;) {
        if (lookups_[i].variable != variable) continue;
        if (!gradients[first_lookup + i].exists()) continue;
        summands.push_back(RowsGradient(scope, lookups_[i], gradients[first_lookup + i]));
      }
      TANDEM_RETURN_IF_ERROR(scope.status());
      TANDEM_ASSIGN_OR_RETURN(
          results.back(),
          SumGradients(graph(), summands, absl::StrCat("gradients/", variable->name()),
                       options_.device));
    }
    return results;
  }

  absl::Status AssignVariable(int, const StrategyVariable& variable, Output value) override {
    if (step_name_.empty()) {
      return errors::FailedPrecondition(
          "variable '", variable.name(),
          "' is assigned outside a step (StrategyBuilder::BeginStep)");
    }
    if (!value.valid()) {
      return errors::InvalidArgument("replica 0 assigns variable '", variable.name(),
                                     "' an invalid output");
    }
    if (Assignment* const assignment = FindAssignment(variable)) {
      assignment->value = value;  // The last one counts.
    } else {
      assigned_.push_back({&variable, value});
    }
    return absl::OkStatus();
  }

  std::vector<Output> AllReduce(int, Reduction reduction, const std::vector<Output>& values,
                                const Scope& scope) override {
    if (reduction == Reduction::kSum || reduction == Reduction::kMean) return values;
    std::vector<Output> results(values.size());
    if (step_name_.empty()) {
      scope.UpdateStatus(errors::FailedPrecondition(
          "values are reduced over replicas outside a step (StrategyBuilder::BeginStep)"));
      return results;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].valid()) continue;
      // The value itself, without a gradient, as it has none where there are several replicas.
      results[i] =
          scope.WithOpName("AllReduce")
              .Call("Bitcast", {values[i]}, {{"type", RemoveReference(values[i].dtype())}});
    }
    return results;
  }

 private:
  // Of the step that has begun; in the order of the first calls.
  struct Assignment {
    const StrategyVariable* variable;
    Output value;
  };

  Assignment* FindAssignment(const StrategyVariable& variable) {
    for (Assignment& assignment : assigned_) {
      if (assignment.variable == &variable) return &assignment;
    }
    return nullptr;
  }

  // What a variable's part is changed by: after all that the step waits for.
  Scope PartScope(const StrategyVariable& variable, int part) const {
    const int shard = store_.Find(variable).shards[static_cast<size_t>(part)];
    const Scope scope = root_.WithDevice(ServerDevice(shard));
    return arrived_ == nullptr ? scope : scope.WithControlDependencies({arrived_});
  }

  void Arrived(Node* node) {
    if (arrived_ != nullptr) graph()->AddControlEdge(node, arrived_);
  }

  // The value from before the step.
  Output ReadBefore(const StrategyVariable& variable, const Scope& scope) {
    std::vector<Node*> nodes;
    if (step_name_.empty()) {
      return store_.Read(scope.WithoutControlDependencies().WithDevice(options_.device), variable,
                         nodes);
    }
    Output& read = reads_[&variable];
    if (!read.valid()) {
      read = store_.Read(scope.WithoutControlDependencies().WithDevice(options_.device), variable,
                         nodes);
      for (Node* const node : nodes) Arrived(node);
    }
    return read;
  }

  absl::StatusOr<Output> Result(const char* name, const PerReplica& values, Join join) {
    if (values.size() != 1) {
      return errors::InvalidArgument("there are ", values.size(),
                                     " values of 1 replicas; one of each is wanted");
    }
    if (!values[0].valid()) {
      return errors::InvalidArgument("a replica's value is an invalid output");
    }
    // A name of its own: one value may be reduced in two ways.
    const Scope scope = host_scope();
    const Output result = scope.WithOpName(name).Call("Identity", {values[0]});
    TANDEM_RETURN_IF_ERROR(scope.status());
    joins_.emplace(result.name(), join);
    Arrived(values[0].node);
    return result;
  }

  Gradient RowsGradient(const Scope& scope, const Lookup& lookup, const Gradient& gradient) const {
    const Shape& whole = lookup.variable->spec().shape;
    std::vector<int64_t> sizes(whole.dims().begin(), whole.dims().end());
    const DataType index = RemoveReference(lookup.ids.dtype());
    const Output dense_shape = index == kInt64
                                   ? scope.Constant(Tensor::Vector<int64_t>(sizes))
                                   : scope.Constant(Tensor::Vector<int32_t>(
                                         std::vector<int32_t>(sizes.begin(), sizes.end())));
    const Output dense = Densify(scope, gradient);
    InputList shape;
    // One of them may be 0, where -1 would not tell how many rows there are.
    const Output count = scope.Call("Size", {lookup.ids}, {{"out_type", kInt64}});
    shape.emplace_back(count);
    for (size_t i = 1; i < sizes.size(); ++i) {
      shape.emplace_back(scope.Constant(Tensor::Scalar<int64_t>(sizes[i])));
    }
    const Output values = scope.Call("Reshape", {dense, scope.Call("Pack", shape)});
    return Gradient(values, lookup.ids, dense_shape);
  }

  absl::Status Apply(const Assignment& assignment) {
    const StrategyVariable& variable = *assignment.variable;
    const VariableSpec& spec = variable.spec();
    const bool mirrored = spec.synchronization == Synchronization::kMirrored;
    if (mirrored && spec.aggregation == Aggregation::kNone) {
      return errors::InvalidArgument(
          "variable '", spec.name,
          "' is assigned by replicas of several processes, but its spec does not say how their "
          "values become one (aggregation)");
    }
    const Scope worker = CopyScope(0).SubScope("assign");
    Arrived(assignment.value.node);
    // What each worker has counted by itself, all of it counts.
    const bool adds = !mirrored && spec.aggregation == Aggregation::kSum && spec.dtype != kBool &&
                      spec.dtype != kString;
    // A value of its own in any case: variables that are assigned the same one may differ in what
    // those of several workers become.
    const Output value = adds ? worker.Call("Sub", {assignment.value, ReadBefore(variable, worker)})
                              : worker.Call("Identity", {assignment.value});
    AttrMap attrs;
    if (mirrored && spec.aggregation == Aggregation::kSum) {
      attrs[kCombinationAttr] = Combination_Name(SUM);
    } else if (spec.aggregation == Aggregation::kOnlyFirstReplica ||
               spec.aggregation == Aggregation::kNone) {
      attrs[kCombinationAttr] = Combination_Name(FIRST);
    }
    const std::vector<Output> parts = store_.Find(variable).partition.Split(worker, value);
    TANDEM_RETURN_IF_ERROR(worker.status());
    for (int p = 0; p < variable.num_copies(); ++p) {
      const InputList inputs = {variable.handle(p), parts[static_cast<size_t>(p)]};
      const Scope scope = PartScope(variable, p).SubScope("assign");
      ended_.push_back(adds ? scope.AddNode("AssignAddVariableOp", inputs)
                            : scope.AddNode("AssignVariableOp", inputs, attrs));
      TANDEM_RETURN_IF_ERROR(scope.status());
    }
    return absl::OkStatus();
  }

  const ParameterBuilderOptions options_;
  const Scope root_;
  Node* const initialize_;
  VariableStore store_;
  absl::flat_hash_map<std::string, Join> joins_;  // Looked up only.

  // Of the step that has begun.
  std::string step_name_;
  Output step_;
  absl::flat_hash_map<const StrategyVariable*, Output> reads_;  // Looked up only.
  std::vector<Lookup> lookups_;
  std::vector<Assignment> assigned_;
  Node* arrived_ = nullptr;  // Runs when all has arrived that the step's updates wait for.
  std::vector<Node*> ended_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterBuilder>> NewParameterBuilder(
    ParameterBuilderOptions options) {
  if (options.shards < 1) {
    return errors::InvalidArgument("parameter servers: there are ", options.shards,
                                   " servers; at least one is needed");
  }
  if (options.min_part_bytes < -1 || options.max_part_bytes < 0 || options.parts < 0 ||
      options.most_initial_bytes < 0) {
    return errors::InvalidArgument(
        "parameter servers: min_part_bytes is ", options.min_part_bytes, ", max_part_bytes ",
        options.max_part_bytes, ", parts ", options.parts, ", most_initial_bytes ",
        options.most_initial_bytes, "; none may be negative, but min_part_bytes -1");
  }
  return std::make_unique<Builder>(options);
}

}  // namespace tandem::parameter_server
