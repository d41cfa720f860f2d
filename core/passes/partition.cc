#include "core/passes/partition.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/passes/node_kinds.h"
#include "core/passes/spread_loops.h"

namespace tandem {
namespace {

// A value, or with the index Consumer::kControl the end of a node, that one task sends another.
struct Transfer {
  int number = 0;  // Makes names and keys unique.
  int source = 0;  // The node's id.
  int output = 0;
  std::string source_task;
  std::string task;
  std::string device;        // Of the first consumer.
  Node* received = nullptr;  // In the receiver's graph: gives the value, or stands for the node.
};

class Partitioner {
 public:
  Partitioner(const PartitionOptions& options, const Graph& graph)
      : options_(options), graph_(graph.Clone()) {}

  absl::StatusOr<std::vector<Partition>> Run() {
    TANDEM_RETURN_IF_ERROR(CheckDevices());
    TANDEM_ASSIGN_OR_RETURN(loops_, SpreadLoops(graph_));
    FindTasks();
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    FindWhatMayBeDead(order);
    TANDEM_RETURN_IF_ERROR(FindTransfers());
    std::vector<Partition> partitions;
    for (const std::string& task : tasks_) partitions.push_back({task, graph_.Clone()});
    for (Transfer& transfer : transfers_) {
      TANDEM_RETURN_IF_ERROR(AddSend(transfer, GraphOf(transfer.source_task, partitions)));
      TANDEM_RETURN_IF_ERROR(AddRecv(transfer, GraphOf(transfer.task, partitions)));
    }
    for (Partition& partition : partitions) TANDEM_RETURN_IF_ERROR(CutOut(partition));
    return partitions;
  }

 private:
  const std::string& TaskOf(const Node& node) const {
    return task_of_[static_cast<size_t>(node.id())];
  }

  static Graph& GraphOf(const std::string& task, std::vector<Partition>& partitions) {
    return std::find_if(partitions.begin(), partitions.end(),
                        [&](const Partition& partition) { return partition.task == task; })
        ->graph;
  }

  absl::Status CheckDevices() {
    for (const Node* node : graph_.nodes()) {
      const absl::StatusOr<DeviceName> device = DeviceName::Parse(node->device());
      if (!device.ok()) return WithNode(device.status(), *node);
      if (!device->IsComplete()) {
        return errors::InvalidArgument("node '", node->name(), "' is placed on '", node->device(),
                                       "', which is no full device name");
      }
    }
    return absl::OkStatus();
  }

  void FindTasks() {
    task_of_.resize(static_cast<size_t>(graph_.id_limit()));
    for (const Node* node : graph_.nodes()) {
      std::string task = DeviceName::Parse(node->device())->TaskName();
      task_of_[static_cast<size_t>(node->id())] = task;
      tasks_.push_back(std::move(task));
    }
    std::sort(tasks_.begin(), tasks_.end());
    tasks_.erase(std::unique(tasks_.begin(), tasks_.end()), tasks_.end());
  }

  void FindWhatMayBeDead(const std::vector<Node*>& order) {
    may_be_dead_.resize(static_cast<size_t>(graph_.id_limit()), false);
    for (const Node* node : order) {
      bool may_be_dead = IsControlFlow(*node) || node->Is("_Recv") || node->Is("_HostRecv");
      const auto consume = [&](const Node* source) {
        may_be_dead |= may_be_dead_[static_cast<size_t>(source->id())];
      };
      for (const Output& input : node->inputs()) consume(input.node);
      for (const Node* control : node->control_inputs()) consume(control);
      may_be_dead_[static_cast<size_t>(node->id())] = may_be_dead;
    }
  }

  absl::Status FindTransfers() {
    for (const Node* node : graph_.nodes()) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output input = node->input(i);
        if (!IsTransfer(*input.node, *node)) continue;
        TANDEM_RETURN_IF_ERROR(CheckType(input, *node, i));
        AddTransfer(*input.node, input.index, *node);
      }
      for (const Node* control : node->control_inputs()) {
        if (!IsTransfer(*control, *node)) continue;
        AddTransfer(*control, Consumer::kControl, *node);
      }
    }
    return absl::OkStatus();
  }

  bool IsTransfer(const Node& from, const Node& to) const {
    return TaskOf(from) != TaskOf(to) && !IsFreeConstant(from);
  }

  absl::Status CheckType(const Output& input, const Node& node, int i) const {
    if (IsReference(node.input_dtype(i))) {
      return errors::InvalidArgument("node '", node.name(), "' in ", TaskOf(node),
                                     " wants a reference to '", input.name(), "' in ",
                                     TaskOf(*input.node), "; a reference cannot leave its task");
    }
    if (input.dtype() == kResource) {
      return errors::Unimplemented(
          "node '", node.name(), "' (", node.type(), ") in ", TaskOf(node), " uses the handle '",
          input.name(), "' of ", TaskOf(*input.node),
          "; place it in the task of the resource, and send its results instead");
    }
    return absl::OkStatus();
  }

  void AddTransfer(const Node& source, int output, const Node& consumer) {
    const auto [found, is_new] = transfer_of_.emplace(
        std::make_pair(std::make_pair(source.id(), output), TaskOf(consumer)), transfers_.size());
    if (!is_new) return;
    Transfer transfer;
    transfer.number = static_cast<int>(transfers_.size());
    transfer.source = source.id();
    transfer.output = output;
    transfer.source_task = TaskOf(source);
    transfer.task = TaskOf(consumer);
    transfer.device = consumer.device();
    transfers_.push_back(std::move(transfer));
  }

  // What the two ends have in common.
  absl::StatusOr<AttrMap> EdgeAttrs(const Transfer& transfer) const {
    const Node& source = *graph_.node(transfer.source);
    TANDEM_ASSIGN_OR_RETURN(const uint64_t incarnation, options_.incarnation(source.device()));
    return AttrMap{
        {"tensor_name", absl::StrCat("edge_", transfer.number, "_", source.name())},
        {"send_device", source.device()},
        {"send_device_incarnation", static_cast<int64_t>(incarnation)},
        {"recv_device", transfer.device},
        {"client_terminated", false},
    };
  }

  static std::string EndName(const Graph& graph, const Transfer& transfer) {
    return absl::StrCat(graph.node(transfer.source)->name(), "_S", transfer.number);
  }

  absl::StatusOr<Node*> Add(Graph& graph, NodeSpec spec, const std::string& device) {
    spec.name = graph.UniqueName(spec.name);
    TANDEM_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(spec)));
    node->set_device(device);
    node->set_requested_device(device);
    return node;
  }

  absl::Status AddSend(const Transfer& transfer, Graph& graph) {
    Node* const source = graph.node(transfer.source);
    Output value(source, transfer.output);
    if (transfer.output == Consumer::kControl) {
      NodeSpec signal;
      signal.name = absl::StrCat(EndName(graph, transfer), "/signal");
      signal.op = "Const";
      signal.attrs = {{"dtype", kFloat32}, {"value", Tensor(kFloat32, Shape({0}))}};
      signal.control_inputs = {source};
      TANDEM_ASSIGN_OR_RETURN(Node * node, Add(graph, std::move(signal), source->device()));
      value = Output(node, 0);
    }
    NodeSpec send;
    send.name = absl::StrCat(EndName(graph, transfer), "/send");
    send.op = "_Send";
    send.inputs = {value};
    TANDEM_ASSIGN_OR_RETURN(send.attrs, EdgeAttrs(transfer));
    send.attrs["T"] = RemoveReference(value.dtype());
    return Add(graph, std::move(send), source->device()).status();
  }

  absl::Status AddRecv(Transfer& transfer, Graph& graph) {
    const bool is_signal = transfer.output == Consumer::kControl;
    NodeSpec recv;
    recv.name = absl::StrCat(EndName(graph, transfer), "/recv");
    recv.op = "_Recv";
    TANDEM_ASSIGN_OR_RETURN(recv.attrs, EdgeAttrs(transfer));
    recv.attrs["tensor_type"] =
        is_signal
            ? kFloat32
            : RemoveReference(graph.node(transfer.source)->output_info(transfer.output).dtype);
    const int frame = loops_.frames.output_frame[static_cast<size_t>(transfer.source)];
    if (frame > 0) {
      const Node* const round = loops_.rounds.at({frame, transfer.task});
      recv.control_inputs = {graph.node(round->id())};
    }
    // Lets the receiver's plan do without what dead values need.
    if (!may_be_dead_[static_cast<size_t>(transfer.source)]) recv.attrs["_alive"] = true;
    TANDEM_ASSIGN_OR_RETURN(transfer.received, Add(graph, std::move(recv), transfer.device));
    if (!is_signal) return absl::OkStatus();
    // A _Recv that got something dead has ended alive; what consumes its value is dead.
    NodeSpec stand_in;
    stand_in.name = absl::StrCat(EndName(graph, transfer), "/arrived");
    stand_in.op = "Identity";
    stand_in.inputs = {Output(transfer.received, 0)};
    TANDEM_ASSIGN_OR_RETURN(transfer.received, Add(graph, std::move(stand_in), transfer.device));
    return absl::OkStatus();
  }

  Node* Received(const Node& source, int output, const std::string& task) const {
    const auto found = transfer_of_.find(std::make_pair(std::make_pair(source.id(), output), task));
    return transfers_[found->second].received;
  }

  // Removes all that belongs to other tasks.
  absl::Status CutOut(Partition& partition) {
    Graph& graph = partition.graph;
    const size_t limit = static_cast<size_t>(graph_.id_limit());
    std::vector<bool> stays(limit, false);
    for (Node* node : graph.nodes()) {
      if (static_cast<size_t>(node->id()) >= limit || TaskOf(*node) != partition.task) continue;
      stays[static_cast<size_t>(node->id())] = true;
      node->set_requested_device(node->device());
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output input = node->input(i);
        if (static_cast<size_t>(input.node->id()) >= limit) continue;
        if (TaskOf(*input.node) == partition.task) continue;
        if (IsFreeConstant(*input.node)) {
          // A copy of its own, in the place of the first consumer.
          if (!stays[static_cast<size_t>(input.node->id())]) {
            stays[static_cast<size_t>(input.node->id())] = true;
            input.node->set_device(node->device());
            input.node->set_requested_device(node->device());
          }
          continue;
        }
        Node* const received = Received(*input.node, input.index, partition.task);
        TANDEM_RETURN_IF_ERROR(graph.SetInput(node, i, received->output(0)));
      }
      const std::vector<Node*> controls(node->control_inputs().begin(),
                                        node->control_inputs().end());
      for (Node* control : controls) {
        if (static_cast<size_t>(control->id()) >= limit) continue;
        if (TaskOf(*control) == partition.task) continue;
        graph.RemoveControlEdge(control, node);
        if (IsFreeConstant(*control)) continue;  // Nothing to wait for.
        graph.AddControlEdge(Received(*control, Consumer::kControl, partition.task), node);
      }
    }
    std::vector<Node*> others;
    for (Node* node : graph.nodes()) {
      const size_t id = static_cast<size_t>(node->id());
      if (id < limit && !stays[id]) others.push_back(node);
    }
    graph.RemoveNodes(others);
    return absl::OkStatus();
  }

  const PartitionOptions& options_;
  Graph graph_;
  SpreadLoopsResult loops_;
  std::vector<std::string> tasks_;    // Ordered.
  std::vector<std::string> task_of_;  // By node id, as the next.
  std::vector<bool> may_be_dead_;
  std::vector<Transfer> transfers_;
  // By source and output, and receiving task.
  std::map<std::pair<std::pair<int, int>, std::string>, size_t> transfer_of_;
};

}  // namespace

absl::StatusOr<std::vector<Partition>> PartitionGraph(const PartitionOptions& options,
                                                      const Graph& graph) {
  return Partitioner(options, graph).Run();
}

}  // namespace tandem
