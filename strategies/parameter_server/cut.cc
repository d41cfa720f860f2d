#include "strategies/parameter_server/cut.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/passes/node_kinds.h"
#include "strategies/parameter_server/combination.h"
#include "strategies/parameter_server/cut_roles.h"
#include "strategies/parameter_server/cut_shards.h"
#include "strategies/parameter_server/shard_side.h"

namespace tandem::parameter_server {
namespace {

constexpr char kRouteNode[] = "route";
constexpr char kHost[] = "/device:CPU:0";

class Cutter {
 public:
  Cutter(const Graph& graph, const CutRoles& roles, const CutOptions& options)
      : graph_(graph),
        roles_(roles),
        options_(options),
        worker_(graph.Clone()),
        limit_(static_cast<size_t>(graph.id_limit())) {}

  absl::StatusOr<CutStep> Run(const RunSignature& signature) {
    TANDEM_RETURN_IF_ERROR(AddRoute());
    TANDEM_RETURN_IF_ERROR(AddPulls());
    TANDEM_RETURN_IF_ERROR(AddPushes());
    TANDEM_RETURN_IF_ERROR(TakeApart());
    absl::StatusOr<std::vector<Node*>> order = worker_.TopologicalOrder();
    if (!order.ok()) return WithContext(order.status(), absl::StrCat("step '", options_.name, "'"));
    CutStep step{std::move(worker_), signature, /*has_worker=*/true, {}};
    step.signature.feeds.emplace_back(kRouteFeed);
    for (const auto& [shard, graph] : shards_) {
      ShardPart part;
      part.shard = shard;
      TANDEM_ASSIGN_OR_RETURN(part.graph, graph->Export());
      for (const ShardSide::Call& call : graph->calls()) part.programs.push_back(call.program);
      step.shards.push_back(std::move(part));
    }
    return step;
  }

 private:
  Node* InWorker(const Node& node) const { return worker_.node(node.id()); }

  // The value in the worker's graph.
  Output InWorker(const Output& output) const {
    const auto pulled = pulled_.find(output);
    return pulled == pulled_.end() ? Output(InWorker(*output.node), output.index) : pulled->second;
  }

  ShardSide& GraphOf(int shard) {
    std::unique_ptr<ShardSide>& graph = shards_[shard];
    if (graph == nullptr) graph = std::make_unique<ShardSide>(graph_);
    return *graph;
  }

  absl::StatusOr<Node*> AddToWorker(NodeSpec spec) {
    spec.name = worker_.UniqueName(spec.name);
    if (spec.device.empty()) spec.device = kHost;
    return worker_.AddNode(std::move(spec));
  }

  absl::Status AddRoute() {
    if (graph_.FindNode(kRouteNode) != nullptr) {
      return errors::InvalidArgument("the graph has a node '", kRouteNode,
                                     "'; with parameter servers that name is taken by the route "
                                     "of a step");
    }
    NodeSpec spec;
    spec.name = kRouteNode;
    spec.op = "Placeholder";
    spec.attrs = {{"dtype", kString}, {"shape", PartialShape(Shape())}};
    TANDEM_ASSIGN_OR_RETURN(route_, AddToWorker(std::move(spec)));
    return absl::OkStatus();
  }

  // Whether a shard has the value itself.
  bool IsHere(const Output& value, int shard) const {
    if (roles_.IsFed(value)) return false;
    const NodeRole& role = roles_.of(*value.node);
    return role.role == Role::kHandle || roles_.IsPush(*value.node, shard) ||
           (role.role == Role::kWorker && IsFreeConstant(*value.node));
  }

  static AttrMap CallAttrs(int shard, const ShardSide::Call& call) {
    std::vector<DataType> types;
    for (const Output& value : call.arguments) types.push_back(RemoveReference(value.dtype()));
    return {{"shard", shard}, {"program", call.program.name()}, {"Tin", std::move(types)}};
  }

  // --- Pulls

  absl::Status AddPulls() {
    std::map<std::pair<int, int>, std::vector<Node*>> reads;  // By level and shard.
    for (Node* node : roles_.order()) {
      const NodeRole& role = roles_.of(*node);
      if (role.role == Role::kPull) reads[{role.level, role.shard}].push_back(node);
    }
    for (const auto& [where, nodes] : reads) {
      TANDEM_RETURN_IF_ERROR(AddPull(where.first, where.second, nodes));
    }
    return absl::OkStatus();
  }

  absl::Status AddPull(int level, int shard, const std::vector<Node*>& reads) {
    ShardSide::Call call;
    call.program.set_name(level == 0 ? absl::StrCat(options_.name, "/pull")
                                     : absl::StrCat(options_.name, "/pull_", level));
    std::vector<Output> results;
    std::vector<DataType> types;
    std::vector<PartialShape> shapes;
    NodeSpec spec;
    for (Node* node : reads) {
      const size_t before = results.size();
      for (int i = 0; i < node->num_outputs(); ++i) {
        if (roles_.IsPulled(node->output(i))) results.push_back(node->output(i));
      }
      // Only waited for: there is nothing that it could tell.
      if (results.size() == before) continue;
      TANDEM_RETURN_IF_ERROR(GraphOf(shard).Add(
          *node, [&](const Output& value) { return IsHere(value, shard); }, call));
      for (const Node* control : node->control_inputs()) WaitFor(*control, spec.control_inputs);
    }
    if (results.empty()) return absl::OkStatus();
    for (const Output& result : results) {
      call.program.add_fetches(absl::StrCat(result.node->name(), ":", result.index));
      types.push_back(RemoveReference(result.dtype()));
      shapes.push_back(result.shape());
    }
    spec.name = absl::StrCat(call.program.name(), "/shard_", shard);
    spec.op = "_TandemPull";
    spec.inputs = {route_->output(0)};
    for (const Output& value : call.arguments) spec.inputs.push_back(InWorker(value));
    spec.attrs = CallAttrs(shard, call);
    spec.attrs["Tout"] = std::move(types);
    spec.attrs["output_shapes"] = std::move(shapes);
    TANDEM_ASSIGN_OR_RETURN(Node * pull, AddToWorker(std::move(spec)));
    for (size_t i = 0; i < results.size(); ++i) {
      pulled_[results[i]] = pull->output(static_cast<int>(i) + 1);
    }
    for (Node* node : reads) pull_of_[node] = pull;
    first_pull_.emplace(shard, pull);
    pulls_.push_back(pull);
    GraphOf(shard).AddCall(std::move(call));
    return absl::OkStatus();
  }

  // Adds what stands in the worker's graph for the end of a node.
  void WaitFor(const Node& node, std::vector<Node*>& controls) const {
    Node* wanted = nullptr;
    switch (roles_.of(node).role) {
      case Role::kWorker:
        wanted = InWorker(node);
        break;
      case Role::kPull:
        if (const auto pull = pull_of_.find(&node); pull != pull_of_.end()) wanted = pull->second;
        break;
      case Role::kPush:
        if (const auto push = push_of_.find(roles_.of(node).shard); push != push_of_.end()) {
          wanted = push->second;
        }
        break;
      case Role::kHandle:
        return;
      case Role::kUnneeded:
        // A placeholder that is fed, or nothing.
        if (absl::c_any_of(roles_.feeds(),
                           [&](const Output& feed) { return feed.node == &node; })) {
          wanted = InWorker(node);
        }
        break;
    }
    if (wanted != nullptr && !absl::c_linear_search(controls, wanted)) controls.push_back(wanted);
  }

  // --- Pushes

  absl::Status AddPushes() {
    std::map<int, std::vector<Node*>> pushed;  // By shard.
    for (Node* node : roles_.order()) {
      if (roles_.Is(*node, Role::kPush)) pushed[roles_.of(*node).shard].push_back(node);
    }
    if (pushed.empty()) return absl::OkStatus();
    std::map<int, ShardSide::Call> calls;
    // No shard is changed before all that any of them gets is there, and nothing has failed.
    NodeSpec ready;
    ready.name = absl::StrCat(options_.name, "/ready");
    ready.op = "NoOp";
    ready.control_inputs = pulls_;
    for (const auto& [shard, nodes] : pushed) {
      TANDEM_ASSIGN_OR_RETURN(calls[shard], PushCall(shard, nodes));
      for (const Output& value : calls[shard].arguments) {
        Node* const source = InWorker(value).node;
        if (!absl::c_linear_search(ready.control_inputs, source)) {
          ready.control_inputs.push_back(source);
        }
      }
      for (const Node* node : nodes) {
        for (const Node* control : node->control_inputs()) {
          if (!roles_.IsPush(*control, shard)) WaitFor(*control, ready.control_inputs);
        }
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Node * all, AddToWorker(std::move(ready)));
    for (auto& [shard, call] : calls) {
      TANDEM_RETURN_IF_ERROR(AddPush(shard, std::move(call), all));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ShardSide::Call> PushCall(int shard, const std::vector<Node*>& nodes) {
    ShardSide::Call call;
    call.program.set_name(absl::StrCat(options_.name, "/push"));
    call.program.set_updates(true);
    for (const Node* node : nodes) {
      TANDEM_RETURN_IF_ERROR(GraphOf(shard).Add(
          *node, [&](const Output& value) { return IsHere(value, shard); }, call));
      if (IsUpdate(*node)) call.program.add_targets(node->name());
    }
    for (const Output& value : call.arguments) {
      TANDEM_ASSIGN_OR_RETURN(
          const Combination combination,
          CombinationFor(value, [&](const Node& node) { return roles_.IsPush(node, shard); }));
      call.program.add_combinations(combination);
    }
    return call;
  }

  absl::Status AddPush(int shard, ShardSide::Call call, Node* ready) {
    NodeSpec spec;
    Output version;
    if (const auto pull = first_pull_.find(shard); pull != first_pull_.end()) {
      version = pull->second->output(0);
    } else {
      NodeSpec nothing;
      nothing.name = absl::StrCat(call.program.name(), "/shard_", shard, "/nothing_pulled");
      nothing.op = "Const";
      nothing.attrs = {{"dtype", kInt64}, {"value", Tensor::Scalar<int64_t>(-1)}};
      TANDEM_ASSIGN_OR_RETURN(Node * constant, AddToWorker(std::move(nothing)));
      version = constant->output(0);
    }
    spec.name = absl::StrCat(call.program.name(), "/shard_", shard);
    spec.op = "_TandemPush";
    spec.inputs = {route_->output(0), version};
    for (const Output& value : call.arguments) spec.inputs.push_back(InWorker(value));
    spec.control_inputs = {ready};
    spec.attrs = CallAttrs(shard, call);
    TANDEM_ASSIGN_OR_RETURN(push_of_[shard], AddToWorker(std::move(spec)));
    GraphOf(shard).AddCall(std::move(call));
    return absl::OkStatus();
  }

  // --- The worker's graph

  // Removes what is not the worker's, and lets what remains look at the pulls and pushes.
  absl::Status TakeApart() {
    for (const Node* node : roles_.order()) {
      if (roles_.Is(*node, Role::kWorker)) TANDEM_RETURN_IF_ERROR(Reconnect(*node));
    }
    std::vector<Node*> leave;
    for (Node* node : worker_.nodes()) {
      if (static_cast<size_t>(node->id()) >= limit_) continue;
      if (!roles_.Is(*graph_.node(node->id()), Role::kWorker)) leave.push_back(node);
    }
    TANDEM_RETURN_IF_ERROR(KeepNames(leave));
    worker_.RemoveNodes(leave);
    for (Node* node : worker_.nodes()) {
      node->set_requested_device(WithoutServer(node->requested_device()));
    }
    return absl::OkStatus();
  }

  absl::Status Reconnect(const Node& node) {
    Node* const here = InWorker(node);
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!pulled_.contains(node.input(i)) || roles_.IsFed(node.input(i))) continue;
      TANDEM_RETURN_IF_ERROR(worker_.SetInput(here, i, InWorker(node.input(i))));
    }
    std::vector<Node*> controls;
    for (const Node* control : node.control_inputs()) {
      if (roles_.Is(*control, Role::kWorker)) continue;
      worker_.RemoveControlEdge(InWorker(*control), here);
      WaitFor(*control, controls);
    }
    for (Node* control : controls) worker_.AddControlEdge(control, here);
    return absl::OkStatus();
  }

  // What the signature names has to be there, although its node is not the worker's.
  absl::Status KeepNames(std::vector<Node*>& leave) {
    for (const Output& feed : roles_.feeds()) {
      if (roles_.Is(*feed.node, Role::kWorker)) continue;
      Node* const node = InWorker(*feed.node);
      if (node->Is("Placeholder") || node->Is("PlaceholderV2")) {
        const std::vector<Node*> controls(node->control_inputs().begin(),
                                          node->control_inputs().end());
        for (Node* control : controls) worker_.RemoveControlEdge(control, node);
        leave.erase(std::remove(leave.begin(), leave.end(), node), leave.end());
        continue;
      }
      if (feed.index != 0) {
        return errors::InvalidArgument("feed: '", feed.name(),
                                       "' is not the first output of its node, which nothing else "
                                       "needs or a parameter server runs");
      }
      NodeSpec spec;
      spec.op = "Placeholder";
      spec.attrs = {{"dtype", RemoveReference(feed.dtype())}, {"shape", feed.shape()}};
      TANDEM_ASSIGN_OR_RETURN(Node * placeholder, StandIn(*feed.node, std::move(spec)));
      for (const Node* consumer : roles_.order()) {
        if (!roles_.Is(*consumer, Role::kWorker)) continue;
        for (int i = 0; i < consumer->num_inputs(); ++i) {
          if (consumer->input(i) != feed) continue;
          TANDEM_RETURN_IF_ERROR(worker_.SetInput(InWorker(*consumer), i, placeholder->output(0)));
        }
      }
      TANDEM_RETURN_IF_ERROR(MoveArguments(feed, placeholder->output(0)));
    }
    for (const Output& fetch : roles_.fetches()) {
      if (!roles_.Is(*fetch.node, Role::kPull) || roles_.IsFed(fetch)) continue;
      if (fetch.index != 0) {
        return errors::InvalidArgument("fetch: '", fetch.name(),
                                       "' is not the first output of a read of a variable");
      }
      NodeSpec spec;
      spec.op = "Identity";
      spec.inputs = {InWorker(fetch)};
      TANDEM_RETURN_IF_ERROR(StandIn(*fetch.node, std::move(spec)).status());
    }
    for (const Node* target : roles_.targets()) {
      if (roles_.Is(*target, Role::kWorker)) continue;
      NodeSpec spec;
      spec.op = "NoOp";
      WaitFor(*target, spec.control_inputs);
      TANDEM_RETURN_IF_ERROR(StandIn(*target, std::move(spec)).status());
    }
    return absl::OkStatus();
  }

  // Adds a node that has the name of one that leaves. The same one when it is asked for again.
  absl::StatusOr<Node*> StandIn(const Node& node, NodeSpec spec) {
    Node*& stand_in = stand_ins_[&node];
    if (stand_in != nullptr) return stand_in;
    spec.name = absl::StrCat(node.name(), "/stand_in");
    TANDEM_ASSIGN_OR_RETURN(stand_in, AddToWorker(std::move(spec)));
    worker_.SwapNames(stand_in, InWorker(node));
    return stand_in;
  }

  // Of pulls and pushes, which took the value from a node that leaves.
  absl::Status MoveArguments(const Output& value, const Output& to) {
    const Output from(InWorker(*value.node), value.index);
    const auto consumers = from.node->consumers();
    const std::vector<Consumer> all(consumers.begin(), consumers.end());
    for (const Consumer& consumer : all) {
      if (static_cast<size_t>(consumer.node->id()) < limit_) continue;
      if (consumer.input == Consumer::kControl) {
        worker_.RemoveControlEdge(from.node, consumer.node);
        worker_.AddControlEdge(to.node, consumer.node);
      } else if (consumer.output == value.index) {
        TANDEM_RETURN_IF_ERROR(worker_.SetInput(consumer.node, consumer.input, to));
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const CutRoles& roles_;
  const CutOptions& options_;
  Graph worker_;
  const size_t limit_;  // New nodes of the worker's have higher ids.
  Node* route_ = nullptr;
  std::map<int, std::unique_ptr<ShardSide>> shards_;
  std::vector<Node*> pulls_;
  std::map<int, Node*> first_pull_;  // By shard.
  std::map<int, Node*> push_of_;     // By shard.
  // Looked up only.
  absl::flat_hash_map<const Node*, Node*> pull_of_;
  absl::flat_hash_map<Output, Output> pulled_;
  absl::flat_hash_map<const Node*, Node*> stand_ins_;
};

}  // namespace

absl::StatusOr<CutStep> CutGraph(const Graph& graph, const RunSignature& signature,
                                 const CutOptions& options) {
  if (options.name.empty()) return errors::InvalidArgument("a step that is cut needs a name");
  if (signature.fetches.empty() && signature.targets.empty()) {
    return errors::InvalidArgument("step '", options.name, "' fetches nothing and has no target");
  }
  if (signature.is_partial) {
    return errors::Unimplemented("step '", options.name,
                                 "': runs in several calls are not cut for parameter servers");
  }
  TANDEM_ASSIGN_OR_RETURN(const CutRoles roles, CutRoles::Find(graph, signature));
  if (options.shards_compute) return CutForShards(graph, roles, options);
  return Cutter(graph, roles, options).Run(signature);
}

}  // namespace tandem::parameter_server
