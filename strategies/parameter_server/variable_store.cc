#include "strategies/parameter_server/variable_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

// More of them are a mistake (max_part_bytes in place of megabytes), and would be as many nodes.
constexpr int64_t kMostParts = 10000;

int64_t BytesOf(DataType dtype, const Shape& shape) {
  return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype));
}

Shape ShapeOfPart(const Shape& whole, const Partition& partition, size_t part) {
  if (partition.num_parts() == 1) return whole;
  Shape::Dims dims(whole.dims().begin(), whole.dims().end());
  dims[0] = partition.parts()[part].rows;
  return *Shape::FromDims(dims);  // No larger than `whole`, which is one.
}

}  // namespace

std::string ServerDevice(int shard) {
  return absl::StrCat("/job:", kServerJob, "/task:", shard, "/device:CPU:0");
}

VariableStore::VariableStore(const ParameterBuilderOptions& options, Scope root, Node* initialize)
    : options_(options),
      root_(std::move(root)),
      initialize_(initialize),
      placement_(options.shards, options.balance_by_bytes) {}

Partition VariableStore::Cut(const VariableSpec& spec) const {
  PartitionOptions options;
  options.min_part_bytes = options_.min_part_bytes;
  options.max_part_bytes = options_.max_part_bytes;
  options.most_parts = options_.parts > 0 ? options_.parts : options_.shards;
  const int64_t parts = NumParts(options, spec.dtype, spec.shape);
  return Partition(spec.shape.rank() > 0 ? spec.shape.dim(0) : 1,
                   static_cast<int>(std::min(parts, kMostParts + 1)), spec.spread_rows);
}

const VariableStore::Entry* VariableStore::OwnerOf(const VariableSpec& spec) const {
  // The longest name counts: "a/b/adam/momentum" is a slot of "a/b", should there be an "a".
  for (size_t end = spec.name.rfind('/'); end != std::string::npos && end > 0;
       end = spec.name.rfind('/', end - 1)) {
    const auto found = by_name_.find(spec.name.substr(0, end));
    if (found == by_name_.end()) continue;
    if (found->second->variable->spec().shape == spec.shape) return found->second;
  }
  return nullptr;
}

absl::StatusOr<StrategyVariable*> VariableStore::GetOrCreate(const VariableSpec& spec) {
  if (const auto found = by_name_.find(spec.name); found != by_name_.end()) {
    StrategyVariable* const variable = found->second->variable.get();
    if (variable->spec().dtype != spec.dtype || variable->spec().shape != spec.shape) {
      return errors::InvalidArgument("variable '", spec.name, "' exists as ",
                                     DataTypeName(variable->spec().dtype),
                                     variable->spec().shape.DebugString(), " and is asked for as ",
                                     DataTypeName(spec.dtype), spec.shape.DebugString());
    }
    return variable;
  }
  if (!spec.initializer) {
    return errors::InvalidArgument("variable '", spec.name,
                                   "' has no initializer (VariableSpec::initializer)");
  }
  const Entry* const owner = OwnerOf(spec);
  Partition partition = owner != nullptr ? owner->partition : Cut(spec);
  if (partition.num_parts() > kMostParts) {
    return errors::InvalidArgument("variable '", spec.name, "' of shape ", spec.shape.DebugString(),
                                   " would be cut into more than ", kMostParts,
                                   " parts; max_part_bytes is ", options_.max_part_bytes);
  }
  std::vector<Shape> shapes;
  for (size_t p = 0; p < partition.parts().size(); ++p) {
    shapes.push_back(ShapeOfPart(spec.shape, partition, p));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> initial,
                          InitialValues(spec, partition, shapes, owner != nullptr));
  std::vector<Output> handles;
  std::vector<StrategyVariable::Part> parts;
  std::vector<int> shards;
  for (size_t p = 0; p < shapes.size(); ++p) {
    const int64_t bytes = BytesOf(spec.dtype, shapes[p]);
    if (owner != nullptr) {
      shards.push_back(owner->shards[p]);
      placement_.AddTo(shards.back(), bytes);
    } else {
      shards.push_back(placement_.Place(bytes));
    }
    const std::string name = shapes.size() == 1 ? spec.name : absl::StrCat(spec.name, "/part_", p);
    const Scope scope = root_.WithDevice(ServerDevice(shards.back()));
    const Output handle = scope.WithOpName(name).Call(
        "VarHandleOp", {},
        {{"dtype", spec.dtype}, {"shape", PartialShape(shapes[p])}, {"shared_name", name}});
    Node* const assign = scope.WithOpName(absl::StrCat(name, "/assign_initial"))
                             .AddNode("AssignVariableOp", {handle, initial[p]});
    TANDEM_RETURN_IF_ERROR(scope.status());
    root_.graph()->AddControlEdge(assign, initialize_);
    handles.push_back(handle);
    const Partition::Part& rows = partition.parts()[p];
    parts.push_back({rows.first, rows.stride, shapes[p]});
  }
  auto variable = std::make_unique<StrategyVariable>(spec, std::move(handles), std::move(parts));
  entries_.push_back(
      std::make_unique<Entry>(Entry{std::move(variable), std::move(partition), std::move(shards)}));
  by_name_.emplace(spec.name, entries_.back().get());
  return entries_.back()->variable.get();
}

absl::StatusOr<std::vector<Output>> VariableStore::InitialValues(const VariableSpec& spec,
                                                                 const Partition& partition,
                                                                 const std::vector<Shape>& shapes,
                                                                 bool is_slot) const {
  const Scope scope =
      root_.WithDevice("/device:CPU:0").SubScope(absl::StrCat(spec.name, "/initializer"));
  const auto check = [&](const Output& initial) -> absl::Status {
    TANDEM_RETURN_IF_ERROR(scope.status());
    if (initial.valid()) return absl::OkStatus();
    return errors::InvalidArgument("the initializer of variable '", spec.name,
                                   "' gives an invalid output");
  };
  std::vector<Output> values;
  // A slot begins with one number everywhere.
  const bool alone = is_slot || BytesOf(spec.dtype, spec.shape) > options_.most_initial_bytes;
  if (alone && shapes.size() > 1 && spec.part_initializer) {
    for (size_t p = 0; p < shapes.size(); ++p) {
      const Output value = spec.part_initializer(scope.SubScope(absl::StrCat("part_", p)),
                                                 shapes[p], partition.parts()[p].first);
      TANDEM_RETURN_IF_ERROR(scope.status());
      if (!value.valid()) break;  // It cannot: of the whole, then.
      values.push_back(value);
    }
    if (values.size() == shapes.size()) return values;
    values.clear();
  }
  const Output whole = spec.initializer(scope);
  TANDEM_RETURN_IF_ERROR(check(whole));
  for (int p = 0; p < partition.num_parts(); ++p) {
    values.push_back(partition.Slice(scope, whole, p));
    TANDEM_RETURN_IF_ERROR(check(values.back()));
  }
  return values;
}

std::vector<StrategyVariable*> VariableStore::variables() const {
  std::vector<StrategyVariable*> list;
  for (const auto& entry : entries_) list.push_back(entry->variable.get());
  return list;
}

const VariableStore::Entry& VariableStore::Find(const StrategyVariable& variable) const {
  return *by_name_.find(variable.name())->second;
}

Output VariableStore::Read(const Scope& scope, const StrategyVariable& variable,
                           std::vector<Node*>& reads) const {
  const Entry& entry = Find(variable);
  std::vector<Output> parts;
  for (int p = 0; p < variable.num_copies(); ++p) {
    parts.push_back(
        scope.WithDevice(ServerDevice(entry.shards[static_cast<size_t>(p)]))
            .Call("ReadVariableOp", {variable.handle(p)}, {{"dtype", variable.spec().dtype}}));
    if (!parts.back().valid()) return {};
    reads.push_back(parts.back().node);
  }
  const Output whole = entry.partition.Join(scope, parts);
  if (!whole.valid() || whole.shape().IsFullyDefined()) return whole;
  // Of rows that were spread the number is not seen.
  return scope.Call("EnsureShape", {whole}, {{"shape", PartialShape(variable.spec().shape)}});
}

Output VariableStore::Gather(const Scope& scope, const StrategyVariable& variable,
                             const Output& ids, std::vector<Node*>& reads) const {
  const Entry& entry = Find(variable);
  const auto gather = [&](int p, const Output& rows) {
    const Output values =
        scope.WithDevice(ServerDevice(entry.shards[static_cast<size_t>(p)]))
            .Call("ResourceGather", {variable.handle(p), rows}, {{"dtype", variable.spec().dtype}});
    if (values.valid()) reads.push_back(values.node);
    return values;
  };
  if (variable.num_copies() == 1) return gather(0, ids);
  // Numbers of rows are of no use on an accelerator.
  const Partition::Route route = entry.partition.Divide(scope.WithDevice("/device:CPU:0"), ids);
  InputList inputs(route.positions.begin(), route.positions.end());
  for (int p = 0; p < variable.num_copies(); ++p) {
    inputs.emplace_back(gather(p, route.ids[static_cast<size_t>(p)]));
  }
  return scope.Call("DynamicStitch", inputs, {{"N", variable.num_copies()}});
}

}  // namespace tandem::parameter_server
