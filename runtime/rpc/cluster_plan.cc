#include "runtime/rpc/cluster_plan.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/graph/export.h"
#include "core/graph/function_library.h"
#include "core/op/attr_value.h"
#include "core/passes/inline_call.h"
#include "core/passes/partition.h"
#include "core/passes/place.h"
#include "core/passes/symbolic_gradient.h"
#include "proto/function.pb.h"
#include "runtime/rpc/session_config.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {
namespace {

// A task compiles what it registers: longer than other control calls.
constexpr absl::Duration kRegisterTimeout = absl::Seconds(120);

// Finds calls of functions that span tasks: that have nodes in another task than the caller's, or
// are given a handle of another task's resource.
class SpanningCalls {
 public:
  explicit SpanningCalls(const Graph& graph) : graph_(graph) {}

  // REQUIRES: the graph is placed. Unimplemented: a call that spans and cannot become a part of the
  // graph.
  absl::StatusOr<std::vector<Node*>> Find() {
    std::vector<Node*> calls;
    for (Node* node : graph_.nodes()) {
      std::vector<std::string> functions;
      for (const auto& [name, value] : node->attrs()) {
        if (const auto* function = value.Get<FunctionRef>()) functions.push_back(function->name);
        if (const auto* list = value.Get<std::vector<FunctionRef>>()) {
          for (const FunctionRef& each : *list) functions.push_back(each.name);
        }
      }
      if (functions.empty()) continue;
      TANDEM_ASSIGN_OR_RETURN(const DeviceName place, DeviceName::Parse(node->device()));
      const bool takes_foreign_handle = absl::c_any_of(node->inputs(), [&](const Output& input) {
        const absl::StatusOr<DeviceName> from = DeviceName::Parse(input.node->device());
        return input.dtype() == kResource && from.ok() && !IsSameTask(*from, place);
      });
      DeviceName task = place;
      task.type.reset();
      task.id.reset();
      std::string reason;
      for (const std::string& function : functions) {
        if (reason.empty()) reason = ForeignNode(function, task);
      }
      if (reason.empty() && !takes_foreign_handle) continue;
      if (CanInlineCall(*node)) {
        calls.push_back(node);
      } else if (!reason.empty()) {
        return errors::Unimplemented(
            "node '", node->name(), "' (", node->type(), ") runs in ", task.ToString(), ", and ",
            reason,
            "; of what spans tasks, only calls, conditionals and loops are supported. Place the "
            "whole of it in one task");
      }
    }
    return calls;
  }

 private:
  // "its function 'f' has the node …" when the function, or one that it calls, has a node in
  // another task; else empty.
  std::string ForeignNode(const std::string& name, const DeviceName& task) {
    if (!asked_.emplace(task.ToString(), name).second) return found_[{task.ToString(), name}];
    const std::shared_ptr<const tensorflow::FunctionDef> function = graph_.functions().Find(name);
    if (function == nullptr) return "";
    std::string reason;
    for (const tensorflow::NodeDef& node : function->node_def()) {
      const absl::StatusOr<DeviceName> wish = DeviceName::Parse(node.device());
      if (wish.ok() && !AreCompatible(*wish, task)) {
        reason = absl::StrCat("its function '", name, "' has the node '", node.name(), "' (",
                              node.op(), ") on '", node.device(), "'");
      }
      for (const auto& [attr, value] : node.attr()) {
        if (reason.empty() && value.has_func()) reason = ForeignNode(value.func().name(), task);
        for (const tensorflow::NameAttrList& each : value.list().func()) {
          if (reason.empty()) reason = ForeignNode(each.name(), task);
        }
      }
      if (!reason.empty()) break;
    }
    found_[{task.ToString(), name}] = reason;
    return reason;
  }

  const Graph& graph_;
  // By task and function.
  std::set<std::pair<std::string, std::string>> asked_;
  std::map<std::pair<std::string, std::string>, std::string> found_;
};

// Places the graph, with the bodies of calls that span tasks in the place of the calls.
absl::Status PlaceAcrossTasks(const PlaceOptions& place, Graph& graph) {
  constexpr int kMostRounds = 100;  // Calls within calls.
  for (int round = 0; round < kMostRounds; ++round) {
    TANDEM_RETURN_IF_ERROR(Place(place, graph));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> calls, SpanningCalls(graph).Find());
    if (calls.empty()) return absl::OkStatus();
    for (Node* call : calls) {
      TANDEM_ASSIGN_OR_RETURN(DeviceName task, DeviceName::Parse(call->device()));
      task.type.reset();
      task.id.reset();
      const std::string name = call->name();
      const absl::Status status = InlineCall(call, task.ToString(), graph);
      if (!status.ok()) return WithContext(status, absl::StrCat("node '", name, "'"));
    }
  }
  return errors::ResourceExhausted("functions that span tasks call each other more than ",
                                   kMostRounds, " deep; does their recursion end?");
}

absl::Status CheckConnected(const Graph& graph) {
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (node->input(i).valid()) continue;
      return errors::InvalidArgument("node '", node->name(), "' (", node->type(), "): input ", i,
                                     " is not connected");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Partition>> PlaceAndCut(const ClusterPlanContext& context,
                                                   Graph& graph) {
  TANDEM_RETURN_IF_ERROR(CheckConnected(graph));
  TANDEM_RETURN_IF_ERROR(ExpandSymbolicGradients(graph));
  PlaceOptions place;
  std::map<std::string, uint64_t, std::less<>> incarnations;
  for (const tensorflow::DeviceAttributes& device : context.devices) {
    place.devices.push_back(device.name());
    incarnations.emplace(device.name(), device.incarnation());
  }
  place.soft = context.config.allow_soft_placement();
  TANDEM_RETURN_IF_ERROR(PlaceAcrossTasks(place, graph));
  PartitionOptions options;
  options.incarnation = [&](absl::string_view device) -> absl::StatusOr<uint64_t> {
    const auto found = incarnations.find(device);
    if (found == incarnations.end()) {
      return errors::Internal("a node is placed on '", device, "', which the session has not");
    }
    return found->second;
  };
  return PartitionGraph(options, graph);
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClusterPlan>> ClusterPlan::Create(const ClusterPlanContext& context,
                                                                 const RunSignature& signature,
                                                                 Graph graph) {
  auto plan = std::make_shared<ClusterPlan>();
  plan->session_handle_ = context.session_handle;
  plan->own_task_ = context.own_task;
  plan->signature_ = signature;
  for (const std::string& feed : signature.feeds) {
    const absl::StatusOr<Output> output = graph.GetOutput(feed);
    const bool has_value = output.ok() && output->index >= 0 && output->node->num_outputs() > 0;
    plan->feed_shapes_.push_back(has_value ? output->shape() : PartialShape::Unknown());
    plan->feed_types_.push_back(has_value ? RemoveReference(output->dtype()) : DataType::kInvalid);
  }
  // Feeds and results belong to the master's own task.
  TANDEM_RETURN_IF_ERROR(PruneToSignature(signature, context.devices.front().name(), graph));
  TANDEM_ASSIGN_OR_RETURN(std::vector<Partition> partitions, PlaceAndCut(context, graph));
  for (Partition& partition : partitions) {
    if (partition.task == context.own_task) {
      TANDEM_ASSIGN_OR_RETURN(
          plan->own_, context.own->Compile(partition.graph,
                                           OptimizeOptionsOf(context.config.graph_options())));
      continue;
    }
    const auto client = context.others.find(partition.task);
    if (client == context.others.end()) {
      return errors::Internal("a node is placed in ", partition.task,
                              ", which is no task of the session");
    }
    tensorflow::RegisterGraphRequest request;
    request.set_session_handle(context.session_handle);
    request.set_create_worker_session_called(true);
    request.set_collective_graph_key(1);
    *request.mutable_config_proto() = context.config;
    *request.mutable_graph_options() = context.config.graph_options();
    ExportOptions placed;
    placed.placed_devices = true;
    TANDEM_RETURN_IF_ERROR(ExportGraphDef(partition.graph, placed, request.mutable_graph_def()));
    plan->parts_.push_back({client->second, ""});
    plan->requests_.push_back(std::move(request));
  }
  return plan;
}

absl::Status ClusterPlan::CheckFeeds(const std::vector<Tensor>& feeds) const {
  if (feeds.size() != signature_.feeds.size()) {
    return errors::InvalidArgument("the signature has ", signature_.feeds.size(), " feeds; ",
                                   feeds.size(), " tensors were given");
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feed_types_[i] != DataType::kInvalid && feeds[i].dtype() != feed_types_[i]) {
      return errors::InvalidArgument("feed '", signature_.feeds[i], "' is ",
                                     DataTypeName(feeds[i].dtype()), "; ",
                                     DataTypeName(feed_types_[i]), " is wanted");
    }
    if (!feeds[i].is_valid() || !feed_shapes_[i].IsCompatibleWith(PartialShape(feeds[i].shape()))) {
      return errors::InvalidArgument("feed '", signature_.feeds[i], "' has the shape ",
                                     feeds[i].shape().DebugString(), "; ",
                                     feed_shapes_[i].DebugString(), " is wanted");
    }
  }
  return absl::OkStatus();
}

void ClusterPlan::Register(Done done) {
  std::vector<size_t> missing;
  {
    MutexLock lock(mu_);
    if (state_ != State::kRegistered) {
      for (size_t i = 0; i < parts_.size() && state_ == State::kUnregistered; ++i) {
        if (parts_[i].graph_handle.empty()) missing.push_back(i);
      }
      if (missing.empty() && state_ == State::kUnregistered) {
        state_ = State::kRegistered;
      } else {
        waiting_.push_back(std::move(done));
        if (state_ == State::kRegistering) return;
        state_ = State::kRegistering;
        pending_ = missing.size();
        error_ = absl::OkStatus();
      }
    }
  }
  if (missing.empty()) {
    done(absl::OkStatus());
    return;
  }
  CallOptions options;
  options.deadline = absl::Now() + kRegisterTimeout;
  for (const size_t i : missing) {
    parts_[i].client->RegisterGraph(
        requests_[i], options,
        [self = shared_from_this(), i](absl::StatusOr<tensorflow::RegisterGraphResponse> response) {
          self->PartRegistered(i, std::move(response));
        });
  }
}

void ClusterPlan::PartRegistered(size_t i,
                                 absl::StatusOr<tensorflow::RegisterGraphResponse> response) {
  std::vector<Done> waiting;
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (response.ok()) {
      parts_[i].graph_handle = response->graph_handle();
    } else if (error_.ok()) {
      error_ = FromTask(response.status(), parts_[i].client->task());
    }
    if (--pending_ > 0) return;
    status = error_;
    state_ = status.ok() ? State::kRegistered : State::kUnregistered;
    if (status.ok()) requests_.clear();
    waiting.swap(waiting_);
  }
  for (Done& done : waiting) done(status);
}

}  // namespace tandem
