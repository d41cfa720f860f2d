#include "strategies/local/local_runner.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "core/op/registry.h"
#include "strategies/local/replica_builder.h"

namespace tandem {
namespace {

std::string ReadNode(const std::string& variable) { return absl::StrCat("state/read/", variable); }
std::string ValueNode(const std::string& variable) {
  return absl::StrCat("state/value/", variable);
}
std::string AssignNode(const std::string& variable) {
  return absl::StrCat("state/assign/", variable);
}

std::string SpreadNode(const std::string& variable) {
  return absl::StrCat("state/spread/", variable);
}

bool IsSummed(const VariableSpec& spec) {
  return spec.synchronization == Synchronization::kOnRead && spec.aggregation == Aggregation::kSum;
}

// Adds what reads a variable as one value: a copy if it is mirrored, else the copies aggregated.
absl::Status AddRead(const StrategyBuilder& builder, const StrategyVariable& variable,
                     Graph& graph) {
  const VariableSpec& spec = variable.spec();
  const Scope scope = Scope::ForGraph(&graph);
  if (variable.aggregate().valid()) {
    // The last step has done it, with all processes.
    const Node* const handle = variable.aggregate().node;
    scope.WithDevice(handle->requested_device())
        .WithOpName(ReadNode(spec.name))
        .Call("ReadVariableOp", {graph.FindNode(handle->name())}, {{"dtype", spec.dtype}});
    return scope.status();
  }
  const bool all = spec.synchronization == Synchronization::kOnRead &&
                   spec.aggregation != Aggregation::kOnlyFirstReplica &&
                   spec.aggregation != Aggregation::kNone;
  InputList values;
  for (int copy = 0; copy < (all ? variable.num_copies() : 1); ++copy) {
    const Node* const handle = variable.handle(copy).node;
    values.emplace_back(
        scope.WithDevice(handle->requested_device())
            .WithOpName(absl::StrCat(ReadNode(spec.name), "/copy_", copy))
            .Call("ReadVariableOp", {graph.FindNode(handle->name())}, {{"dtype", spec.dtype}}));
  }
  const Scope host = builder.host_scope().device().empty()
                         ? scope
                         : scope.WithDevice(builder.host_scope().device());
  Output whole = values.size() == 1 ? values[0].output() : host.Call("AddN", values);
  if (all && spec.aggregation == Aggregation::kMean && values.size() > 1) {
    const Output count =
        host.Call("Cast", {host.Constant(static_cast<int>(values.size()))}, {{"DstT", spec.dtype}});
    whole = host.Call("Div", {whole, count});
  }
  host.WithOpName(ReadNode(spec.name)).Call("Identity", {whole});
  return scope.status();
}

// Adds what gives all copies a value. Copies that are summed on reading all but the first get
// zeros, so that the sum is the value.
absl::Status AddAssign(const StrategyBuilder& builder, const StrategyVariable& variable,
                       Graph& graph) {
  const VariableSpec& spec = variable.spec();
  const Scope scope = Scope::ForGraph(&graph).WithDevice(builder.host_scope().device());
  const Output value =
      scope.WithOpName(ValueNode(spec.name))
          .Call("Placeholder", {}, {{"dtype", spec.dtype}, {"shape", PartialShape(spec.shape)}});
  std::vector<Node*> assigned;
  if (variable.aggregate().valid()) {
    const Node* const handle = variable.aggregate().node;
    assigned.push_back(scope.WithDevice(handle->requested_device())
                           .WithOpName(absl::StrCat(AssignNode(spec.name), "/aggregate"))
                           .AddNode("AssignVariableOp", {graph.FindNode(handle->name()), value}));
  }
  for (int copy = 0; copy < variable.num_copies(); ++copy) {
    const Node* const handle = variable.handle(copy).node;
    const Output mine = IsSummed(spec) && copy > 0 ? scope.Call("ZerosLike", {value}) : value;
    assigned.push_back(scope.WithDevice(handle->requested_device())
                           .WithOpName(absl::StrCat(AssignNode(spec.name), "/copy_", copy))
                           .AddNode("AssignVariableOp", {graph.FindNode(handle->name()), mine}));
  }
  scope.WithControlDependencies(assigned).WithOpName(AssignNode(spec.name)).AddNode("NoOp", {});
  return scope.status();
}

// Adds what gives copies what the copies of all processes were together. Of a sum the first replica
// of all gets it, the others zeros.
absl::Status AddSpread(const StrategyBuilder& builder, const StrategyVariable& variable,
                       Graph& graph) {
  const VariableSpec& spec = variable.spec();
  const Scope scope = Scope::ForGraph(&graph).WithDevice(builder.host_scope().device());
  const Scope parts = scope.SubScope(SpreadNode(spec.name) + "/parts");
  const Output whole =
      parts.Call("ReadVariableOp", {graph.FindNode(variable.aggregate().node->name())},
                 {{"dtype", spec.dtype}});
  Output first = whole;
  Output other = whole;
  if (IsSummed(spec)) {
    other = parts.Call("ZerosLike", {whole});
    const Output before = parts.Call("_TandemFirstReplica", {}, {{"group", kReplicaGroup}});
    const Output is_first = parts.Call("Equal", {before, Tensor::Scalar<int64_t>(0)});
    first = parts.Call("SelectV2", {is_first, whole, other});
  }
  std::vector<Node*> assigned;
  for (int copy = 0; copy < variable.num_copies(); ++copy) {
    const Node* const handle = variable.handle(copy).node;
    assigned.push_back(parts.WithDevice(handle->requested_device())
                           .AddNode("AssignVariableOp",
                                    {graph.FindNode(handle->name()), copy == 0 ? first : other}));
  }
  scope.WithControlDependencies(assigned).WithOpName(SpreadNode(spec.name)).AddNode("NoOp", {});
  return scope.status();
}

// Details of a state: single copies, by "copy/<number>/<variable>", and positions of random ops, by
// "random/<node>".
constexpr char kRandom[] = "random/";

std::string CopyName(const StrategyVariable& variable, int copy) {
  return absl::StrCat("copy/", copy, "/", variable.name());
}
std::string CopyNode(const char* what, const StrategyVariable& variable, int copy) {
  return absl::StrCat("state/", what, "/", CopyName(variable, copy));
}

// Adds what reads and assigns each copy of a variable by itself.
absl::Status AddOwnCopies(const StrategyVariable& variable, Graph& graph) {
  const VariableSpec& spec = variable.spec();
  for (int copy = 0; copy < variable.num_copies(); ++copy) {
    const Node* const handle = variable.handle(copy).node;
    const Scope scope = Scope::ForGraph(&graph).WithDevice(handle->requested_device());
    const auto named = [&](const char* what) {
      return scope.WithOpName(CopyNode(what, variable, copy));
    };
    named("read").Call("ReadVariableOp", {graph.FindNode(handle->name())}, {{"dtype", spec.dtype}});
    const Output value = named("value").Call(
        "Placeholder", {}, {{"dtype", spec.dtype}, {"shape", PartialShape(spec.shape)}});
    named("assign").AddNode("AssignVariableOp", {graph.FindNode(handle->name()), value});
    TANDEM_RETURN_IF_ERROR(scope.status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalRunner>> LocalRunner::Create(const StrategyBuilder& builder,
                                                                 SessionOptions options) {
  const bool aligned = options.inner_parallelism == 1;
  options.collective_groups.emplace_back(kReplicaGroup, builder.num_replicas());
  std::shared_ptr<BetweenProcesses> between = options.between_processes;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Create(*builder.graph(), std::move(options)));
  return std::unique_ptr<LocalRunner>(
      new LocalRunner(builder, std::move(between), std::move(session), aligned));
}

LocalRunner::~LocalRunner() {
  MutexLock lock(mu_);
  while (running_ > 0) ended_.Wait(mu_);
}

absl::Status LocalRunner::Initialize() {
  {
    MutexLock lock(mu_);
    copies_ = Copies::kInitial;
  }
  return session_->Run({}, {}, {builder_.initializer()}).status();
}

absl::StatusOr<int> LocalRunner::AddProgram(const RunSignature& signature) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Session::Callable> callable,
                          session_->MakeCallable(signature));
  std::vector<OutputInfo> feeds;
  for (const std::string& name : signature.feeds) {
    TANDEM_ASSIGN_OR_RETURN(const Output feed, builder_.graph()->GetOutput(name));
    feeds.push_back({feed.dtype(), feed.shape()});
  }
  programs_.push_back(std::move(callable));
  feeds_.push_back(std::move(feeds));
  return static_cast<int>(programs_.size()) - 1;
}

std::shared_ptr<CancellationManager> LocalRunner::Begin() {
  MutexLock lock(mu_);
  ++running_;
  return cancellation_;
}

void LocalRunner::NoteResult(const Result& result) {
  MutexLock lock(mu_);
  if (result.ok()) copies_ = Copies::kOfLastStep;
}

void LocalRunner::End() {
  MutexLock lock(mu_);
  --running_;
  ended_.NotifyAll();  // Under the lock: the runner may end as soon as it is released.
}

RunOptions LocalRunner::Options(const StepInput& input, CancellationManager* cancellation) const {
  RunOptions options;
  options.trace = input.trace != nullptr;
  options.cancellation = cancellation;
  if (between_ != nullptr) options.collective_step = between_->NextStep();
  return options;
}

CollectiveGroup LocalRunner::Replicas() const {
  CollectiveGroup group;
  group.size = builder_.num_replicas();
  return between_ == nullptr ? group : between_->Describe(group);
}

absl::Status LocalRunner::SpreadAggregates() {
  if (between_ == nullptr) return absl::OkStatus();
  const int64_t generation = Replicas().generation;
  {
    MutexLock lock(mu_);
    const bool changed = std::exchange(generation_, generation) != generation;
    if (copies_ == Copies::kInitial || (copies_ == Copies::kOfLastStep && !changed)) {
      return absl::OkStatus();
    }
    copies_ = Copies::kRestored;  // Until all have their part.
  }
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  std::vector<std::string> targets;
  for (const StrategyVariable* variable : builder_.variables()) {
    if (variable->aggregate().valid()) targets.push_back(SpreadNode(variable->name()));
  }
  if (!targets.empty()) TANDEM_RETURN_IF_ERROR(session_->Run({}, {}, targets).status());
  MutexLock lock(mu_);
  copies_ = Copies::kOfLastStep;
  return absl::OkStatus();
}

// Before the batch is cut: whoever made it knows nothing of the replicas' parts.
absl::Status LocalRunner::CheckBatch(const std::vector<OutputInfo>& feeds,
                                     const std::vector<Tensor>& batch) const {
  const size_t replicas = static_cast<size_t>(builder_.num_replicas());
  for (size_t i = 0; i < batch.size() && i * replicas < feeds.size(); ++i) {
    const OutputInfo& part = feeds[i * replicas];
    const Shape& shape = batch[i].shape();
    PartialShape wanted = part.shape;
    if (wanted.has_rank() && wanted.rank() > 0) wanted.SetDim(0, -1);
    if (batch[i].dtype() == part.dtype && wanted.IsCompatibleWith(PartialShape(shape))) continue;
    return errors::InvalidArgument("tensor ", i, " of the batch is ",
                                   DataTypeName(batch[i].dtype()), shape.DebugString(),
                                   "; the step was made for ", DataTypeName(part.dtype),
                                   wanted.DebugString(), ", with any number of examples");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> LocalRunner::Feeds(int program, StepInput& input) const {
  if (program < 0 || program >= static_cast<int>(programs_.size())) {
    return errors::InvalidArgument("there is no program ", program, "; ", programs_.size(),
                                   " were added");
  }
  TANDEM_RETURN_IF_ERROR(CheckBatch(feeds_[static_cast<size_t>(program)], input.batch));
  const CollectiveGroup replicas = Replicas();
  TANDEM_ASSIGN_OR_RETURN(
      std::vector<Tensor> feeds,
      CutBatch(input.batch, {replicas.size, replicas.first, builder_.num_replicas()}, aligned_));
  for (Tensor& value : input.values) feeds.push_back(std::move(value));
  return feeds;
}

StrategyRunner::Result LocalRunner::Run(int program, StepInput input) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> feeds, Feeds(program, input));
  TANDEM_RETURN_IF_ERROR(SpreadAggregates());
  const std::shared_ptr<CancellationManager> cancellation = Begin();
  RunMetadata metadata;
  Result result = programs_[static_cast<size_t>(program)]->Run(
      std::move(feeds), Options(input, cancellation.get()), &metadata);
  if (input.trace != nullptr) *input.trace = std::move(metadata.events);
  NoteResult(result);
  End();
  return result;
}

void LocalRunner::Start(int program, StepInput input, Done done) {
  absl::StatusOr<std::vector<Tensor>> feeds = Feeds(program, input);
  absl::Status status = feeds.status();
  if (status.ok()) status = SpreadAggregates();
  if (!status.ok()) {
    done(status);
    return;
  }
  std::shared_ptr<CancellationManager> cancellation = Begin();
  const RunOptions options = Options(input, cancellation.get());
  auto metadata = input.trace == nullptr ? nullptr : std::make_unique<RunMetadata>();
  RunMetadata* const filled = metadata.get();
  programs_[static_cast<size_t>(program)]->Start(
      *std::move(feeds), options, filled,
      [this, cancellation = std::move(cancellation), metadata = std::move(metadata),
       trace = input.trace, done = std::move(done)](Result result) mutable {
        if (trace != nullptr) *trace = std::move(metadata->events);
        NoteResult(result);
        done(std::move(result));
        End();
      });
}

void LocalRunner::CancelSteps(const absl::Status& reason) {
  std::shared_ptr<CancellationManager> former = std::make_shared<CancellationManager>();
  {
    MutexLock lock(mu_);
    former.swap(cancellation_);
  }
  former->Cancel(reason);
}

absl::Status LocalRunner::AddStateNodes() {
  if (has_state_nodes_) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(session_->Extend([this](Graph& graph) -> absl::Status {
    for (const StrategyVariable* variable : builder_.variables()) {
      TANDEM_RETURN_IF_ERROR(AddRead(builder_, *variable, graph));
      TANDEM_RETURN_IF_ERROR(AddAssign(builder_, *variable, graph));
      if (HasOwnCopies(*variable)) TANDEM_RETURN_IF_ERROR(AddOwnCopies(*variable, graph));
      if (variable->aggregate().valid()) {
        TANDEM_RETURN_IF_ERROR(AddSpread(builder_, *variable, graph));
      }
    }
    return absl::OkStatus();
  }));
  has_state_nodes_ = true;
  return absl::OkStatus();
}

bool LocalRunner::HasOwnCopies(const StrategyVariable& variable) const {
  // Those of one process alone are of no use to the others.
  return between_ == nullptr && variable.spec().synchronization == Synchronization::kOnRead &&
         variable.num_copies() > 1;
}

absl::StatusOr<StrategyState> LocalRunner::CaptureState() {
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  StrategyState state;
  std::vector<std::string> fetches;
  for (const StrategyVariable* variable : builder_.variables()) {
    state.emplace_back(variable->name(), Tensor());
    fetches.push_back(ReadNode(variable->name()));
  }
  if (fetches.empty()) return state;
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, session_->Run({}, fetches));
  for (size_t i = 0; i < values.size(); ++i) state[i].second = std::move(values[i]);
  return state;
}

absl::Status LocalRunner::TakeState(StrategyState state) {
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  std::map<std::string, Tensor*> by_name;
  for (auto& [name, tensor] : state) by_name[name] = &tensor;
  std::vector<std::string> names;
  RunSignature signature;
  std::vector<Tensor> values;
  for (const StrategyVariable* variable : builder_.variables()) {
    const VariableSpec& spec = variable->spec();
    names.push_back(spec.name);
    const auto found = by_name.find(spec.name);
    if (found == by_name.end()) {
      return errors::NotFound("the state to restore has no variable '", spec.name, "'");
    }
    Tensor& value = *found->second;
    if (value.dtype() != spec.dtype || value.shape() != spec.shape) {
      return errors::InvalidArgument("variable '", spec.name, "' is ", DataTypeName(spec.dtype),
                                     spec.shape.DebugString(), "; the state to restore has ",
                                     DataTypeName(value.dtype()), value.shape().DebugString());
    }
    signature.feeds.push_back(ValueNode(spec.name));
    signature.targets.push_back(AssignNode(spec.name));
    values.push_back(std::move(value));
  }
  for (const auto& [name, tensor] : by_name) {
    if (absl::c_linear_search(names, name)) continue;
    return errors::NotFound("the state to restore has a variable '", name,
                            "', which the program has not", DidYouMean(name, names));
  }
  if (values.empty()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session::Callable> assign,
                          session_->MakeCallable(signature));
  // Nobody holds the values but the step, so that variables can keep them.
  by_name.clear();
  state.clear();
  {
    MutexLock lock(mu_);
    copies_ = Copies::kRestored;
  }
  return assign->Run(std::move(values)).status();
}

absl::StatusOr<StrategyState> LocalRunner::CaptureDetails() {
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  StrategyState details;
  std::vector<std::string> fetches;
  for (const StrategyVariable* variable : builder_.variables()) {
    if (!HasOwnCopies(*variable)) continue;
    for (int copy = 0; copy < variable->num_copies(); ++copy) {
      details.emplace_back(CopyName(*variable, copy), Tensor());
      fetches.push_back(CopyNode("read", *variable, copy));
    }
  }
  if (!fetches.empty()) {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, session_->Run({}, fetches));
    for (size_t i = 0; i < values.size(); ++i) details[i].second = std::move(values[i]);
  }
  for (auto& [node, position] : session_->RandomPositions()) {
    details.emplace_back(absl::StrCat(kRandom, node), std::move(position));
  }
  return details;
}

absl::StatusOr<std::vector<std::string>> LocalRunner::RestoreDetails(const StrategyState& details) {
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  std::vector<std::string> unknown;
  Session::Feeds feeds;
  std::vector<std::string> targets;
  const auto add_copy = [&](const std::string& name, const Tensor& value) {
    for (const StrategyVariable* variable : builder_.variables()) {
      if (!HasOwnCopies(*variable)) continue;
      if (value.dtype() != variable->spec().dtype || value.shape() != variable->spec().shape) {
        continue;
      }
      for (int copy = 0; copy < variable->num_copies(); ++copy) {
        if (CopyName(*variable, copy) != name) continue;
        feeds.emplace_back(CopyNode("value", *variable, copy), value);
        targets.push_back(CopyNode("assign", *variable, copy));
        return true;
      }
    }
    return false;
  };
  for (const auto& [name, value] : details) {
    if (absl::StartsWith(name, kRandom)) {
      const absl::Status status =
          session_->SetRandomPosition(name.substr(sizeof(kRandom) - 1), value);
      if (status.ok()) continue;
      if (!absl::IsNotFound(status)) return status;
      unknown.push_back(name);
    } else if (!add_copy(name, value)) {
      unknown.push_back(name);
    }
  }
  if (!targets.empty()) TANDEM_RETURN_IF_ERROR(session_->Run(feeds, {}, targets).status());
  return unknown;
}

absl::StatusOr<Tensor> LocalRunner::ReadVariable(const std::string& name) {
  std::vector<std::string> names;
  for (const StrategyVariable* variable : builder_.variables()) names.push_back(variable->name());
  if (!absl::c_linear_search(names, name)) {
    return errors::NotFound("there is no variable '", name, "'", DidYouMean(name, names));
  }
  TANDEM_RETURN_IF_ERROR(AddStateNodes());
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, session_->Run({}, {ReadNode(name)}));
  return values[0];
}

}  // namespace tandem
