#include "strategies/mirrored/mirrored.h"

#include <map>
#include <utility>

#include "core/base/status.h"

namespace tandem {
namespace {

constexpr char kGroup[] = "replicas";

class MirroredBuilder final : public StrategyBuilder {
 public:
  explicit MirroredBuilder(MirroredOptions options)
      : options_(std::move(options)), root_(Scope::NewRoot()) {
    next_instance_.assign(static_cast<size_t>(num_replicas()), 0);
    initialize_ = host_scope().WithOpName("initialize_variables").AddNode("NoOp", {});
  }

  Scope host_scope() const override { return root_.WithDevice("/device:CPU:0"); }
  int num_replicas() const override {
    return options_.virtual_replicas > 0 ? options_.virtual_replicas : num_copies();
  }
  int num_copies() const override { return static_cast<int>(options_.devices.size()); }
  // Replica i of V belongs to device floor(i·N/V): each device has a contiguous range.
  int copy_of(int replica) const override { return replica * num_copies() / num_replicas(); }
  std::string device_of_copy(int copy) const override {
    return options_.devices[static_cast<size_t>(copy)];
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
    const bool mirrored = spec.synchronization == Synchronization::kMirrored;
    const int copies = mirrored ? num_copies() : num_replicas();
    std::vector<Output> handles;
    // The initial value is computed once, on the host, and given to every copy: they begin equal.
    const Scope initial_scope = host_scope().SubScope(absl::StrCat(spec.name, "/initializer"));
    const Output initial = spec.initializer(initial_scope);
    TANDEM_RETURN_IF_ERROR(initial_scope.status());
    for (int copy = 0; copy < copies; ++copy) {
      const std::string device = device_of_copy(mirrored ? copy : copy_of(copy));
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

  absl::StatusOr<Output> ReduceToHost(ReduceOp op, const PerReplica& values) override {
    const Scope scope = host_scope().SubScope("reduce");
    // The same tree as in collectives: the bits of a metric do not depend on the devices either.
    Output sum = Tree(scope, values, 0, values.size());
    if (op == ReduceOp::kMean && values.size() > 1) {
      const Output count = scope.Call("Cast", {scope.Constant(static_cast<int>(values.size()))},
                                      {{"DstT", values[0].dtype()}});
      sum = scope.Call("RealDiv", {sum, count});
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    return sum;
  }

  absl::StatusOr<std::vector<std::vector<Gradient>>> ReduceGradients(
      const std::vector<PerReplicaGradient>& gradients) override {
    std::vector<std::vector<Gradient>> reduced(
        gradients.size(), std::vector<Gradient>(static_cast<size_t>(num_copies())));
    std::vector<size_t> bucket;
    int64_t bytes = 0;
    for (size_t i = gradients.size(); i-- > 0;) {
      const PerReplicaGradient& gradient = gradients[i];
      if (!gradient[0].exists()) continue;
      if (num_replicas() == 1) {
        reduced[i][0] = gradient[0];
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
    MakeBarriers(reduced);
    TANDEM_RETURN_IF_ERROR(root_.status());
    return reduced;
  }

  absl::Status Update(const StrategyVariable& variable,
                      absl::FunctionRef<absl::Status(const Scope& scope, Output handle, int copy)>
                          update) override {
    for (int copy = 0; copy < variable.num_copies(); ++copy) {
      Scope scope = root_.WithDevice(device_of_copy(copy)).SubScope("update");
      if (!barriers_.empty()) {
        scope = scope.WithControlDependencies({barriers_[static_cast<size_t>(copy)]});
      }
      TANDEM_RETURN_IF_ERROR(update(scope, variable.handle(copy), copy));
      TANDEM_RETURN_IF_ERROR(scope.status());
    }
    return absl::OkStatus();
  }

 protected:
  Scope ReplicaScope(int replica) override {
    const Scope scope =
        num_replicas() == 1 ? root_ : root_.SubScope(absl::StrCat("replica_", replica));
    return scope.WithDevice(device_of_copy(copy_of(replica)));
  }

  Output ReadVariable(int replica, const StrategyVariable& variable, const Scope& scope) override {
    Output& read = reads_[{variable.name(), replica}];
    if (!read.valid()) {
      const int copy =
          variable.spec().synchronization == Synchronization::kOnRead ? replica : copy_of(replica);
      read = scope.WithoutControlDependencies().Call("ReadVariableOp", {variable.handle(copy)},
                                                     {{"dtype", variable.spec().dtype}});
    }
    return read;
  }

  std::vector<Output> AllReduce(int replica, ReduceOp op, const std::vector<Output>& values,
                                const Scope& scope) override {
    if (num_replicas() == 1) return values;
    // Even numbers, in each replica's order of calls; the odd ones are for gradients of reductions.
    int64_t& next = next_instance_[static_cast<size_t>(replica)];
    const int64_t instance = 2 * next++;
    return AllReduceNode(replica, instance, op, values, scope);
  }

 private:
  static int64_t BytesOf(const Output& value) {
    int64_t bytes = static_cast<int64_t>(DataTypeSize(RemoveReference(value.dtype())));
    if (!value.shape().IsFullyDefined()) return bytes;
    for (const int64_t size : value.shape().dims()) bytes *= size;
    return bytes;
  }

  std::vector<Output> AllReduceNode(int replica, int64_t instance, ReduceOp op,
                                    const std::vector<Output>& values, const Scope& scope) {
    InputList inputs;
    for (const Output& value : values) inputs.emplace_back(value);
    return scope.CallMulti("_TandemAllReduce", inputs,
                           {{"group", kGroup},
                            {"group_size", num_replicas()},
                            {"rank", replica},
                            {"instance", instance},
                            {"reduction", op == ReduceOp::kMean ? "mean" : "sum"}});
  }

  static Output Tree(const Scope& scope, const PerReplica& values, size_t first, size_t last) {
    const size_t n = last - first;
    if (n == 1) return values[first];
    size_t half = 1;
    while (half * 2 < n) half *= 2;
    const Output left = Tree(scope, values, first, first + half);
    const Output right = Tree(scope, values, first + half, last);
    return scope.Call("AddV2", {left, right});
  }

  // Reduces the gradients of a bucket in one operation a replica, and empties the bucket.
  void Flush(const std::vector<PerReplicaGradient>& gradients, std::vector<size_t>& bucket,
             std::vector<std::vector<Gradient>>& reduced) {
    if (bucket.empty()) return;
    // Far above those of AllReduce, which replica functions make; unique in the graph.
    constexpr int64_t kFirstBucket = int64_t{1} << 32;
    const int64_t instance = kFirstBucket + 2 * num_buckets_++;
    for (int replica = 0; replica < num_replicas(); ++replica) {
      std::vector<Output> values;
      for (const size_t i : bucket) {
        values.push_back(gradients[i][static_cast<size_t>(replica)].values);
      }
      const Scope scope =
          root_.WithDevice(device_of_copy(copy_of(replica)))
              .WithOpName(absl::StrCat("reduce/bucket_", num_buckets_ - 1, "/replica_", replica));
      const std::vector<Output> results =
          AllReduceNode(replica, instance, ReduceOp::kSum, values, scope);
      if (results.size() != bucket.size()) return;  // The scope keeps the error.
      reductions_.push_back(results[0].node);
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
    reductions_.push_back(joined.values.node);
    for (Gradient& copy : copies) copy = joined;
    return absl::OkStatus();
  }

  // A node on each device that runs when all reductions have arrived there: updates wait for it, so
  // that a step either changes nothing or has all it needs.
  void MakeBarriers(const std::vector<std::vector<Gradient>>&) {
    if (reductions_.empty()) return;
    for (int copy = 0; copy < num_copies(); ++copy) {
      const Scope scope = root_.WithDevice(device_of_copy(copy))
                              .WithControlDependencies(reductions_)
                              .WithOpName(absl::StrCat("reduce/arrived_", copy));
      barriers_.push_back(scope.AddNode("NoOp", {}));
    }
  }

  const MirroredOptions options_;
  const Scope root_;
  Node* initialize_ = nullptr;
  std::vector<std::unique_ptr<StrategyVariable>> variables_;
  // Looked up only.
  std::map<std::pair<std::string, int>, Output> reads_;
  std::vector<int64_t> next_instance_;  // By replica.
  int64_t num_buckets_ = 0;
  std::vector<Node*> reductions_;
  std::vector<Node*> barriers_;  // By copy.
};

}  // namespace

absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewMirroredBuilder(MirroredOptions options) {
  if (options.devices.empty()) {
    return errors::InvalidArgument("a mirrored strategy needs at least one device (replica)");
  }
  const int devices = static_cast<int>(options.devices.size());
  if (options.virtual_replicas != 0 && options.virtual_replicas < devices) {
    return errors::InvalidArgument("deterministic mode has ", options.virtual_replicas,
                                   " virtual replicas; that cannot be fewer than the ", devices,
                                   " devices");
  }
  return std::make_unique<MirroredBuilder>(std::move(options));
}

}  // namespace tandem
