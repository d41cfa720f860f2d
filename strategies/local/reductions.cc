#include "strategies/local/reductions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "strategies/local/replica_builder.h"

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

Output Tree(const Scope& scope, const char* op, const PerReplica& values, size_t first,
            size_t last) {
  const size_t n = last - first;
  if (n == 1) return values[first];
  size_t half = 1;
  while (half * 2 < n) half *= 2;
  const Output left = Tree(scope, op, values, first, first + half);
  const Output right = Tree(scope, op, values, first + half, last);
  return scope.Call(op, {left, right});
}

int64_t BytesOf(const Output& value) {
  int64_t bytes = static_cast<int64_t>(DataTypeSize(RemoveReference(value.dtype())));
  if (!value.shape().IsFullyDefined()) return bytes;
  for (const int64_t size : value.shape().dims()) bytes *= size;
  return bytes;
}

std::string Kind(const Gradient& gradient) {
  return absl::StrCat(gradient.is_sparse() ? "sparse " : "dense ",
                      DataTypeName(gradient.values.dtype()));
}

}  // namespace

absl::Status Reductions::CheckPerReplica(const PerReplica& values) const {
  if (static_cast<int>(values.size()) != layout_.num_replicas()) {
    return errors::InvalidArgument("there are ", values.size(), " values of ",
                                   layout_.num_replicas(), " replicas; one of each is wanted");
  }
  for (const Output& value : values) {
    if (!value.valid()) return errors::InvalidArgument("a replica's value is an invalid output");
  }
  return absl::OkStatus();
}

absl::StatusOr<Output> Reductions::Reduce(const Scope& scope, Reduction reduction,
                                          const PerReplica& values) {
  TANDEM_RETURN_IF_ERROR(CheckPerReplica(values));
  Output sum = Tree(scope, OpOf(reduction), values, 0, values.size());
  if (reduction == Reduction::kMean && values.size() > 1) {
    const Output count = scope.Call("Cast", {scope.Constant(static_cast<int>(values.size()))},
                                    {{"DstT", values[0].dtype()}});
    sum = scope.Call("RealDiv", {sum, count});
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return sum;
}

absl::StatusOr<std::vector<Output>> Reductions::ReduceAll(const Scope& scope, Reduction reduction,
                                                          const std::vector<PerReplica>& values,
                                                          Arrived arrived) {
  if (options_.spans_processes) {
    return AllReduceToHost(scope.SubScope("reduce"), reduction, values, arrived);
  }
  std::vector<Output> results;
  for (const PerReplica& value : values) {
    TANDEM_ASSIGN_OR_RETURN(const Output result,
                            Reduce(scope.SubScope("reduce"), reduction, value));
    results.push_back(result);
  }
  return results;
}

// Each replica of this process brings its values by itself, so that sums follow one tree over the
// replicas of all processes.
absl::StatusOr<std::vector<Output>> Reductions::AllReduceToHost(
    const Scope& scope, Reduction reduction, const std::vector<PerReplica>& values,
    Arrived arrived) {
  for (const PerReplica& value : values) TANDEM_RETURN_IF_ERROR(CheckPerReplica(value));
  if (values.empty()) return std::vector<Output>();
  const int64_t operation = NewOperation();
  std::vector<Output> results;
  std::vector<Node*> others;
  for (int replica = 0; replica < layout_.num_replicas(); ++replica) {
    std::vector<Output> own;
    for (const PerReplica& value : values) own.push_back(value[static_cast<size_t>(replica)]);
    const std::vector<Output> reduced = AllReduce(
        scope.WithOpName(absl::StrCat("replica_", replica)), replica, operation, reduction, own);
    TANDEM_RETURN_IF_ERROR(scope.status());
    arrived({reduced[0].node});
    if (replica == 0) {
      results = reduced;
    } else {
      others.push_back(reduced[0].node);
    }
  }
  // All get the same; but a step in which somebody fetches what one of them got has to run the
  // others, too.
  if (others.empty()) return results;
  Node* const all = scope.WithControlDependencies(others).WithOpName("all").AddNode("NoOp", {});
  for (Output& result : results) {
    result = scope.WithControlDependencies({all}).Call("Identity", {result});
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return results;
}

absl::StatusOr<Output> Reductions::Gather(const Scope& scope, const PerReplica& values, int axis,
                                          Arrived arrived) {
  TANDEM_RETURN_IF_ERROR(CheckPerReplica(values));
  Output joined = values[0];
  if (values.size() > 1) {
    InputList inputs(values.begin(), values.end());
    inputs.emplace_back(scope.Constant(axis));
    joined = scope.Call("ConcatV2", inputs);
    TANDEM_RETURN_IF_ERROR(scope.status());
  }
  if (!options_.spans_processes) return joined;
  TANDEM_ASSIGN_OR_RETURN(const Output rows, MoveAxis(scope, joined, axis, /*to_front=*/true));
  const std::vector<Output> all = AllGatherRows(scope, {rows}, arrived);
  TANDEM_RETURN_IF_ERROR(scope.status());
  return MoveAxis(scope, all[0], axis, /*to_front=*/false);
}

absl::StatusOr<Output> Reductions::MoveAxis(const Scope& scope, const Output& value, int axis,
                                            bool to_front) {
  if (axis == 0) return value;
  const PartialShape& shape = value.shape();
  if (!shape.has_rank()) {
    return errors::InvalidArgument(
        "values whose number of dimensions is not known cannot be "
        "joined along axis ",
        axis, " between processes; along axis 0 they can");
  }
  const int rank = shape.rank();
  const int moved = axis < 0 ? axis + rank : axis;
  if (moved < 0 || moved >= rank) {
    return errors::InvalidArgument("values of shape ", shape.DebugString(),
                                   " cannot be joined along axis ", axis);
  }
  std::vector<int32_t> order;
  for (int i = 0; i < rank - 1; ++i) order.push_back(to_front && i < moved ? i : i + 1);
  order.insert(order.begin() + (to_front ? 0 : moved), to_front ? moved : 0);
  const Output result = scope.Call("Transpose", {value, Tensor::Vector<int32_t>(order)});
  TANDEM_RETURN_IF_ERROR(scope.status());
  return result;
}

std::vector<Output> Reductions::AllGatherRows(const Scope& scope, const std::vector<Output>& values,
                                              Arrived arrived) {
  const InputList inputs(values.begin(), values.end());
  std::vector<Output> joined = scope.CallMulti(
      "_TandemAllGatherRows", inputs, {{"group", kReplicaGroup}, {"instance", NewOperation()}});
  if (!joined.empty()) arrived({joined[0].node});
  return joined;
}

absl::StatusOr<std::vector<Output>> Reductions::OfFirstReplica(
    const Scope& scope, const std::vector<PerReplica>& values, Arrived arrived) {
  std::vector<Output> results;
  for (const PerReplica& value : values) results.push_back(value[0]);
  if (!options_.spans_processes || values.empty()) return results;
  // A row of each process, of which all take the first.
  for (Output& result : results) result = scope.Call("ExpandDims", {result, scope.Constant(0)});
  results = AllGatherRows(scope, results, arrived);
  const auto index = [](int32_t i) { return Tensor::Vector<int32_t>({i}); };
  for (Output& result : results) {
    result = scope.Call("StridedSlice", {result, index(0), index(1), index(1)},
                        {{"shrink_axis_mask", 1}});
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return results;
}

int64_t Reductions::NewOperation() { return kInstances * num_operations_++; }

std::vector<Output> Reductions::AllReduce(const Scope& scope, int replica, int64_t operation,
                                          Reduction reduction,
                                          const std::vector<Output>& values) const {
  const InputList inputs(values.begin(), values.end());
  return scope.CallMulti("_TandemAllReduce", inputs,
                         {{"group", kReplicaGroup},
                          {"member", replica},
                          {"instance", operation},
                          {"reduction", NameOf(reduction)}});
}

absl::StatusOr<std::vector<std::vector<Gradient>>> Reductions::ReduceGradients(
    const std::vector<PerReplicaGradient>& gradients, Arrived arrived, Residuals& residuals) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    TANDEM_RETURN_IF_ERROR(CheckGradient(i, gradients[i]));
  }
  std::vector<std::vector<Gradient>> reduced(
      gradients.size(), std::vector<Gradient>(static_cast<size_t>(layout_.num_copies())));
  std::vector<size_t> bucket;
  int64_t bytes = 0;
  int64_t limit =
      options_.first_bucket_bytes > 0 ? options_.first_bucket_bytes : options_.bucket_bytes;
  std::vector<size_t> compressed;
  int64_t compressed_bytes = 0;
  for (size_t i = gradients.size(); i-- > 0;) {
    const PerReplicaGradient& gradient = gradients[i];
    if (!gradient[0].exists()) continue;
    if (layout_.num_replicas() == 1 && !options_.spans_processes) {
      // Nothing to reduce, but updates wait for all gradients all the same: an error on the way
      // to the last of them must not leave some variables changed.
      reduced[i][0] = gradient[0];
      arrived({gradient[0].values.node});
      continue;
    }
    if (gradient[0].is_sparse()) {
      TANDEM_RETURN_IF_ERROR(JoinSparse(gradient, reduced[i], arrived));
      continue;
    }
    if (IsCompressed(gradient[0])) {
      compressed.push_back(i);
      compressed_bytes += BytesOf(gradient[0].values);
      if (compressed_bytes < limit) continue;
      TANDEM_RETURN_IF_ERROR(FlushCompressed(gradients, compressed, reduced, arrived, residuals));
      compressed_bytes = 0;
      limit = options_.bucket_bytes;
      continue;
    }
    if (!bucket.empty() && gradient[0].values.dtype() != gradients[bucket[0]][0].values.dtype()) {
      Flush(gradients, bucket, reduced, arrived);
      bytes = 0;
      limit = options_.bucket_bytes;
    }
    bucket.push_back(i);
    bytes += BytesOf(gradient[0].values);
    if (bytes >= limit) {
      Flush(gradients, bucket, reduced, arrived);
      bytes = 0;
      limit = options_.bucket_bytes;
    }
  }
  TANDEM_RETURN_IF_ERROR(FlushCompressed(gradients, compressed, reduced, arrived, residuals));
  Flush(gradients, bucket, reduced, arrived);
  TANDEM_RETURN_IF_ERROR(root_.status());
  return reduced;
}

// A variable's gradients: one of each replica, all alike, or none of any.
absl::Status Reductions::CheckGradient(size_t number, const PerReplicaGradient& gradient) const {
  if (static_cast<int>(gradient.size()) != layout_.num_replicas()) {
    return errors::InvalidArgument("list ", number, " of gradients has ", gradient.size(),
                                   " entries for ", layout_.num_replicas(),
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

void Reductions::Flush(const std::vector<PerReplicaGradient>& gradients,
                       std::vector<size_t>& bucket, std::vector<std::vector<Gradient>>& reduced,
                       Arrived arrived) {
  if (bucket.empty()) return;
  const int64_t operation = NewOperation();
  const int64_t number = num_buckets_++;
  for (int replica = 0; replica < layout_.num_replicas(); ++replica) {
    std::vector<Output> values;
    for (const size_t i : bucket) {
      values.push_back(gradients[i][static_cast<size_t>(replica)].values);
    }
    const Scope scope =
        root_.WithDevice(layout_.device_of_replica(replica))
            .WithOpName(absl::StrCat("reduce/bucket_", number, "/replica_", replica));
    const std::vector<Output> results =
        AllReduce(scope, replica, operation, Reduction::kSum, values);
    if (results.size() != bucket.size()) return;  // The scope keeps the error.
    arrived({results[0].node});
    for (size_t k = 0; k < bucket.size(); ++k) {
      // Virtual replicas of one device get the same results; the copy takes those of the first.
      Gradient& target = reduced[bucket[k]][static_cast<size_t>(layout_.copy_of(replica))];
      if (!target.exists()) target = Gradient(results[k]);
    }
  }
  bucket.clear();
}

bool Reductions::IsCompressed(const Gradient& gradient) const {
  const PartialShape& shape = gradient.values.shape();
  return !options_.compression.empty() && !gradient.is_sparse() &&
         gradient.values.dtype() == kFloat32 && shape.IsFullyDefined() &&
         BytesOf(gradient.values) >= options_.least_compressed_bytes;
}

absl::Status Reductions::FlushCompressed(const std::vector<PerReplicaGradient>& gradients,
                                         std::vector<size_t>& bucket,
                                         std::vector<std::vector<Gradient>>& reduced,
                                         Arrived arrived, Residuals& residuals) {
  if (bucket.empty()) return absl::OkStatus();
  const Scope scope =
      root_.WithDevice(kHostDevice).SubScope(absl::StrCat("reduce/compressed_", num_buckets_++));
  const AttrMap codec = {{"codec", options_.compression}};
  std::vector<Output> sums;
  std::vector<Output> payloads;
  for (const size_t i : bucket) {
    PerReplica own;
    for (const Gradient& gradient : gradients[i]) own.push_back(gradient.values);
    TANDEM_ASSIGN_OR_RETURN(const Output sum, Reduce(scope, Reduction::kSum, own));
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, sum.shape().ToShape());
    TANDEM_ASSIGN_OR_RETURN(const Output handle, residuals.New(shape));
    const Output residual = scope.Call("ReadVariableOp", {handle}, {{"dtype", kFloat32}});
    const std::vector<Output> parts = scope.CallMulti("_TandemCompress", {sum, residual}, codec);
    TANDEM_RETURN_IF_ERROR(scope.status());
    sums.push_back(sum);
    payloads.push_back(parts[0]);
    residuals.Keep(handle, parts[1]);
  }
  const std::vector<Output> all = AllGatherRows(scope, payloads, arrived);
  TANDEM_RETURN_IF_ERROR(scope.status());
  for (size_t k = 0; k < bucket.size(); ++k) {
    const Output total = scope.Call("_TandemSumCompressed", {all[k], sums[k]}, codec);
    TANDEM_RETURN_IF_ERROR(scope.status());
    arrived({total.node});
    for (Gradient& copy : reduced[bucket[k]]) copy = Gradient(total);
  }
  bucket.clear();
  return absl::OkStatus();
}

absl::Status Reductions::JoinSparse(const PerReplicaGradient& gradient,
                                    std::vector<Gradient>& copies, Arrived arrived) {
  const Scope scope = root_.WithDevice(kHostDevice).SubScope("reduce/sparse");
  Gradient joined = gradient[0];
  if (gradient.size() > 1) {
    InputList values;
    InputList indices;
    for (const Gradient& part : gradient) {
      values.emplace_back(part.values);
      indices.emplace_back(part.indices);
    }
    const Output axis = scope.Constant(0);
    values.emplace_back(axis);
    indices.emplace_back(axis);
    joined = Gradient(scope.Call("ConcatV2", values), scope.Call("ConcatV2", indices),
                      gradient[0].dense_shape);
    TANDEM_RETURN_IF_ERROR(scope.status());
  }
  if (options_.spans_processes) {
    const std::vector<Output> all = AllGatherRows(scope, {joined.values, joined.indices}, arrived);
    TANDEM_RETURN_IF_ERROR(scope.status());
    joined.values = all[0];
    joined.indices = all[1];
  } else {
    arrived({joined.values.node, joined.indices.node});
  }
  for (Gradient& copy : copies) copy = joined;
  return absl::OkStatus();
}

}  // namespace tandem
