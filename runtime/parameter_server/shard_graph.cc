#include "runtime/parameter_server/shard_graph.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/graph/export.h"
#include "core/graph/import.h"
#include "core/graph/scope.h"
#include "core/op/registry.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/parameter_server/combine.h"

namespace tandem::parameter_server {
namespace {

// Names of nodes that the shard adds begin so.
constexpr char kOwnNodes[] = "tandem_shard/";

std::string ReadNode(int variable) { return absl::StrCat(kOwnNodes, "read/", variable); }
std::string ValueNode(int variable) { return absl::StrCat(kOwnNodes, "value/", variable); }
std::string AssignNode(int variable) { return absl::StrCat(kOwnNodes, "assign/", variable); }

// Ops of our own that optimizers are made of, and that check what they are given.
bool IsAllowedOp(const std::string& op) {
  if (op == "_Arg" || op == "_Retval") return false;
  if (!absl::StartsWith(op, "_Tandem")) return true;
  return op == "_TandemSumDuplicates" || op == "_TandemSumCompressed" || op == "_TandemApplyAdamW";
}

// Checks a node, and lets its device say nothing of the task: that is where the shard lies.
absl::Status Adapt(tensorflow::NodeDef& node) {
  if (!IsAllowedOp(node.op())) {
    return errors::InvalidArgument("node '", node.name(), "': op ", node.op(),
                                   " is made by the runtime only; a shard cannot hold it");
  }
  if (node.device().empty()) return absl::OkStatus();
  absl::StatusOr<DeviceName> device = DeviceName::Parse(node.device());
  if (!device.ok()) {
    return WithContext(device.status(), absl::StrCat("node '", node.name(), "'"));
  }
  device->job.reset();
  device->replica.reset();
  device->task.reset();
  node.set_device(device->ToString());
  return absl::OkStatus();
}

// The part of `graph` that is new. InvalidArgument: a node is there and differs.
absl::StatusOr<tensorflow::GraphDef> NewNodes(const tensorflow::GraphDef& graph,
                                              std::map<std::string, std::string>& known) {
  tensorflow::GraphDef added;
  *added.mutable_versions() = graph.versions();
  *added.mutable_library() = graph.library();
  for (tensorflow::FunctionDef& function : *added.mutable_library()->mutable_function()) {
    for (tensorflow::NodeDef& node : *function.mutable_node_def()) {
      TANDEM_RETURN_IF_ERROR(
          WithContext(Adapt(node), absl::StrCat("function '", function.signature().name(), "'")));
    }
  }
  for (const tensorflow::NodeDef& node : graph.node()) {
    if (absl::StartsWith(node.name(), kOwnNodes)) {
      return errors::InvalidArgument("node '", node.name(), "': names that begin with '", kOwnNodes,
                                     "' are the shard's own");
    }
    std::string bytes = DeterministicBytes(node);
    const auto [entry, is_new] = known.try_emplace(node.name(), bytes);
    if (is_new) {
      *added.add_node() = node;
      TANDEM_RETURN_IF_ERROR(Adapt(*added.mutable_node(added.node_size() - 1)));
    } else if (entry->second != bytes) {
      return errors::InvalidArgument("the shard has a node '", node.name(),
                                     "' already, and it is another one");
    }
  }
  return added;
}

std::string TypeAndShape(DataType dtype, const std::string& shape) {
  return absl::StrCat(DataTypeName(dtype), shape);
}

}  // namespace

absl::Status ShardProgram::CheckArguments(const std::vector<Tensor>& arguments) const {
  if (arguments.size() != feeds.size()) {
    return errors::InvalidArgument("program '", name(), "' takes ", feeds.size(),
                                   " arguments; it was given ", arguments.size());
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    const auto& [dtype, shape] = feeds[i];
    const Tensor& given = arguments[i];
    if (given.is_valid() && given.dtype() == dtype &&
        shape.IsCompatibleWith(PartialShape(given.shape()))) {
      continue;
    }
    return errors::InvalidArgument(
        "argument ", i, " ('", description.feeds(static_cast<int>(i)), "') of program '", name(),
        "' is ", TypeAndShape(dtype, shape.DebugString()), "; it was given ",
        given.is_valid() ? TypeAndShape(given.dtype(), given.shape().DebugString()) : "nothing");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ShardGraph>> ShardGraph::Create(
    SessionOptions options, std::shared_ptr<VariableBudget> budget) {
  if (options.shared_kernels == nullptr) options.shared_kernels = NewSharedKernelCache();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> first, Session::Create(Graph(), options));
  options.session_devices = first->session_devices();
  auto graph = std::unique_ptr<ShardGraph>(new ShardGraph(std::move(options), std::move(budget)));
  MutexLock lock(graph->mu_);
  graph->contents_ = std::make_shared<const Contents>();
  return graph;
}

ShardGraph::~ShardGraph() {
  if (budget_ != nullptr) budget_->GiveBack(variable_bytes());
}

absl::StatusOr<int64_t> ShardGraph::Reserve(const Contents& contents, size_t first) const {
  if (budget_ == nullptr) return 0;
  int64_t bytes = 0;
  for (size_t i = first; i < contents.variables.size(); ++i) {
    const KnownVariable& variable = contents.variables[i];
    if (budget_->has_limit() && !variable.shape.ToShape().ok()) {
      return errors::InvalidArgument(
          "variable '", variable.description.name(), "' has the shape ",
          variable.shape.DebugString(),
          "; where the bytes of variables are limited (--max_variable_bytes) all sizes have to be "
          "known");
    }
    bytes += BytesOf(variable);
  }
  TANDEM_RETURN_IF_ERROR(budget_->Take(bytes));
  return bytes;
}

std::shared_ptr<const ShardGraph::Contents> ShardGraph::contents() const {
  MutexLock lock(mu_);
  return contents_;
}

absl::Status ShardGraph::Extend(const tensorflow::GraphDef& graph,
                                const std::vector<Program>& programs,
                                const std::vector<Variable>& variables) {
  MutexLock extending(extend_mu_);
  auto next = std::make_shared<Contents>(*contents());
  const size_t nodes_before = next->nodes.size();
  const size_t variables_before = next->variables.size();
  TANDEM_ASSIGN_OR_RETURN(const tensorflow::GraphDef added, NewNodes(graph, next->nodes));
  Graph extended = graph_.Clone();
  extended.set_shared_functions(graph_.functions().Clone());
  ImportOptions import;
  import.inputs_from_graph = true;
  import.internal_ops = true;  // NewNodes has looked at them.
  TANDEM_RETURN_IF_ERROR(ImportInto(&extended, added, import));
  TANDEM_RETURN_IF_ERROR(AddVariables(variables, extended, *next));

  std::vector<Program> added_programs;
  std::map<std::string, std::string> seen;
  for (const Program& program : programs) {
    const auto known = next->programs.find(program.name());
    const std::string bytes = DeterministicBytes(program);
    const bool differs =
        known != next->programs.end() && DeterministicBytes(known->second->description) != bytes;
    const auto [entry, is_first] = seen.try_emplace(program.name(), bytes);
    if (differs || entry->second != bytes) {
      return errors::InvalidArgument("the shard has a program '", program.name(),
                                     "' already, and it is another one");
    }
    if (known == next->programs.end() && is_first) added_programs.push_back(program);
  }
  if (next->nodes.size() == nodes_before && next->variables.size() == variables_before &&
      added_programs.empty()) {
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(int64_t reserved, Reserve(*next, variables_before));
  const auto give_back = absl::MakeCleanup([&] {
    if (reserved > 0) budget_->GiveBack(reserved);
  });
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Create(extended, options_));
  next->sessions.push_back(std::move(session));
  TANDEM_RETURN_IF_ERROR(CompilePrograms(added_programs, extended, *next));
  if (next->variables.size() != variables_before) TANDEM_RETURN_IF_ERROR(CompileVariables(*next));

  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(closed_);
  reserved = 0;  // They are there.
  graph_ = std::move(extended);
  contents_ = std::move(next);
  return absl::OkStatus();
}

absl::Status ShardGraph::AddVariables(const std::vector<Variable>& variables, Graph& graph,
                                      Contents& contents) {
  for (const Variable& variable : variables) {
    const auto refuse = [&](const auto&... what) {
      return errors::InvalidArgument("variable '", variable.name(), "': ", what...);
    };
    const auto known = absl::c_find_if(contents.variables, [&](const KnownVariable& other) {
      return other.description.name() == variable.name();
    });
    if (known != contents.variables.end()) {
      if (DeterministicBytes(known->description) == DeterministicBytes(variable)) continue;
      return refuse("the shard has one of this name already, and it is another one");
    }
    if (variable.name().empty() || absl::StartsWith(variable.name(), kNotePrefix)) {
      return refuse("it cannot be called so");
    }
    const absl::StatusOr<Output> handle = graph.GetOutput(variable.handle());
    if (!handle.ok()) {
      return refuse("its handle: ", handle.status().message());
    }
    if (handle->index < 0 || handle->index >= handle->node->num_outputs() ||
        handle->dtype() != kResource) {
      return refuse("'", variable.handle(), "' is no handle");
    }
    const OutputInfo& info = handle->node->output_info(handle->index);
    if (info.handle.size() != 1) {
      return refuse("nothing is known of what the handle '", variable.handle(), "' leads to");
    }
    const auto same = absl::c_find_if(contents.variables, [&](const KnownVariable& other) {
      return other.description.handle() == variable.handle();
    });
    if (same != contents.variables.end()) {
      return refuse("'", same->description.name(), "' has the same handle");
    }
    KnownVariable& added = contents.variables.emplace_back();
    added.description = variable;
    added.number = static_cast<int>(contents.variables.size()) - 1;
    added.dtype = info.handle[0].first;
    added.shape = info.handle[0].second;
    const Scope scope = Scope::ForGraph(&graph).WithDevice(handle->node->requested_device());
    scope.WithOpName(ReadNode(added.number))
        .Call("ReadVariableOp", {*handle}, {{"dtype", added.dtype}});
    const Output value =
        scope.WithOpName(ValueNode(added.number))
            .Call("Placeholder", {}, {{"dtype", added.dtype}, {"shape", added.shape}});
    scope.WithOpName(AssignNode(added.number)).AddNode("AssignVariableOp", {*handle, value});
    TANDEM_RETURN_IF_ERROR(scope.status());
  }
  return absl::OkStatus();
}

absl::Status ShardGraph::CompilePrograms(const std::vector<Program>& programs, const Graph& graph,
                                         Contents& contents) {
  Session& session = *contents.sessions.back();
  for (const Program& program : programs) {
    const auto refuse = [&](const auto&... what) {
      return errors::InvalidArgument("program '", program.name(), "': ", what...);
    };
    if (program.updates() && program.fetches_size() > 0) {
      return refuse("it updates, and fetches '", program.fetches(0),
                    "'; a push that is repeated would have no results");
    }
    if (program.combinations_size() > 0 && program.combinations_size() != program.feeds_size()) {
      return refuse("it has ", program.feeds_size(), " feeds, and combinations of ",
                    program.combinations_size());
    }
    auto compiled = std::make_shared<ShardProgram>();
    compiled->description = program;
    RunSignature signature;
    for (int i = 0; i < program.feeds_size(); ++i) {
      const absl::StatusOr<Output> feed = graph.GetOutput(program.feeds(i));
      if (!feed.ok()) return refuse("feed ", i, ": ", feed.status().message());
      if (feed->index < 0 || feed->index >= feed->node->num_outputs()) {
        return refuse("feed ", i, ": '", program.feeds(i), "' is no value");
      }
      compiled->feeds.emplace_back(RemoveReference(feed->dtype()), feed->shape());
      signature.feeds.push_back(program.feeds(i));
      if (program.combinations_size() == 0) continue;
      compiled->combinations.push_back(program.combinations(i));
      const absl::Status combined =
          CheckCombination(program.combinations(i), compiled->feeds.back().first);
      if (!combined.ok()) return refuse("feed ", i, ": ", combined.message());
    }
    signature.fetches.assign(program.fetches().begin(), program.fetches().end());
    signature.targets.assign(program.targets().begin(), program.targets().end());
    absl::StatusOr<std::unique_ptr<Session::Callable>> callable = session.MakeCallable(signature);
    // Whatever does not fit is the argument's fault, also a name that is not there.
    if (!callable.ok()) return refuse(callable.status().message());
    compiled->callable = *std::move(callable);
    contents.programs.emplace(program.name(), std::move(compiled));
  }
  return absl::OkStatus();
}

absl::Status ShardGraph::CompileVariables(Contents& contents) {
  RunSignature read;
  RunSignature assign;
  for (const KnownVariable& variable : contents.variables) {
    read.fetches.push_back(ReadNode(variable.number));
    assign.feeds.push_back(ValueNode(variable.number));
    assign.targets.push_back(AssignNode(variable.number));
  }
  Session& session = *contents.sessions.back();
  TANDEM_ASSIGN_OR_RETURN(contents.read, session.MakeCallable(read));
  TANDEM_ASSIGN_OR_RETURN(contents.assign, session.MakeCallable(assign));
  return absl::OkStatus();
}

absl::StatusOr<const ShardProgram*> ShardGraph::Find(const std::string& name, bool updates) const {
  const std::shared_ptr<const Contents> now = contents();
  const auto found = now->programs.find(name);
  if (found == now->programs.end()) {
    std::vector<std::string> names;
    for (const auto& [known, program] : now->programs) names.push_back(known);
    return errors::NotFound("the shard has no program '", name, "'", DidYouMean(name, names));
  }
  if (found->second->description.updates() != updates) {
    return errors::InvalidArgument(
        "program '", name, "' ",
        updates ? "does not update; it is pulled" : "updates; it is pushed");
  }
  return found->second.get();
}

std::vector<std::string> ShardGraph::variables() const {
  std::vector<std::string> names;
  for (const KnownVariable& variable : contents()->variables) {
    names.push_back(variable.description.name());
  }
  return names;
}

int64_t ShardGraph::BytesOf(const KnownVariable& variable) {
  const absl::StatusOr<Shape> shape = variable.shape.ToShape();
  if (!shape.ok()) return 0;
  return shape->num_elements() * static_cast<int64_t>(DataTypeSize(variable.dtype));
}

int64_t ShardGraph::variable_bytes() const {
  int64_t bytes = 0;
  for (const KnownVariable& variable : contents()->variables) bytes += BytesOf(variable);
  return bytes;
}

absl::Status ShardGraph::CheckValues(const NamedTensors& values, bool all) const {
  const std::shared_ptr<const Contents> now = contents();
  std::map<std::string, const KnownVariable*> known;
  std::vector<std::string> names;
  for (const KnownVariable& variable : now->variables) {
    known[variable.description.name()] = &variable;
    names.push_back(variable.description.name());
  }
  std::set<std::string> given;
  for (const auto& [name, value] : values) {
    const auto found = known.find(name);
    if (found == known.end()) {
      return errors::NotFound("the shard has no variable '", name, "'", DidYouMean(name, names));
    }
    if (!given.insert(name).second) {
      return errors::InvalidArgument("variable '", name, "' is given twice");
    }
    const KnownVariable& variable = *found->second;
    if (!value.is_valid() || value.dtype() != variable.dtype ||
        !variable.shape.IsCompatibleWith(PartialShape(value.shape()))) {
      return errors::InvalidArgument(
          "variable '", name, "' is ", TypeAndShape(variable.dtype, variable.shape.DebugString()),
          "; its value would be ",
          value.is_valid() ? TypeAndShape(value.dtype(), value.shape().DebugString()) : "nothing");
    }
  }
  for (const std::string& name : names) {
    if (!all || given.count(name) > 0) continue;
    return errors::NotFound("there is no value for variable '", name, "'");
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardGraph::NamedTensors> ShardGraph::ReadAll() const {
  const std::shared_ptr<const Contents> now = contents();
  NamedTensors read;
  if (now->read == nullptr) return read;
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, now->read->Run({}));
  for (size_t i = 0; i < values.size(); ++i) {
    read.emplace_back(now->variables[i].description.name(), std::move(values[i]));
  }
  return read;
}

absl::StatusOr<std::vector<Tensor>> ShardGraph::Read(const std::vector<std::string>& names) const {
  const std::shared_ptr<const Contents> now = contents();
  std::vector<std::string> known;
  for (const KnownVariable& variable : now->variables) {
    known.push_back(variable.description.name());
  }
  std::vector<std::string> nodes;
  for (const std::string& name : names) {
    const auto found = absl::c_find(known, name);
    if (found == known.end()) {
      return errors::NotFound("the shard has no variable '", name, "'", DidYouMean(name, known));
    }
    nodes.push_back(ReadNode(static_cast<int>(found - known.begin())));
  }
  std::vector<Tensor> values;
  if (names == known) {
    if (now->read == nullptr) return values;
    return now->read->Run({});
  }
  // One by one, so that there are no more kinds of runs than variables.
  for (const std::string& node : nodes) {
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> value, now->sessions.back()->Run({}, {node}));
    values.push_back(std::move(value[0]));
  }
  return values;
}

absl::Status ShardGraph::Assign(NamedTensors values) {
  const std::shared_ptr<const Contents> now = contents();
  std::map<std::string, Tensor> by_name;
  for (auto& [name, value] : values) by_name[name] = std::move(value);
  values.clear();
  if (by_name.empty()) return absl::OkStatus();
  // Nobody but the run holds the values, so that the variables can keep them.
  if (by_name.size() == now->variables.size()) {
    std::vector<Tensor> feeds;
    for (const KnownVariable& variable : now->variables) {
      feeds.push_back(std::move(by_name[variable.description.name()]));
    }
    by_name.clear();
    return now->assign->Run(std::move(feeds)).status();
  }
  for (const KnownVariable& variable : now->variables) {
    const auto found = by_name.find(variable.description.name());
    if (found == by_name.end()) continue;
    RunSignature signature;
    signature.feeds = {ValueNode(variable.number)};
    signature.targets = {AssignNode(variable.number)};
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session::Callable> assign,
                            now->sessions.back()->MakeCallable(signature));
    std::vector<Tensor> feeds;
    feeds.push_back(std::move(found->second));
    TANDEM_RETURN_IF_ERROR(assign->Run(std::move(feeds)).status());
  }
  return absl::OkStatus();
}

void ShardGraph::Close(const absl::Status& reason) {
  std::shared_ptr<const Contents> now;
  {
    MutexLock lock(mu_);
    if (closed_.ok()) closed_ = reason;
    now = contents_;
  }
  for (const std::shared_ptr<Session>& session : now->sessions) session->Close(reason);
}

}  // namespace tandem::parameter_server
