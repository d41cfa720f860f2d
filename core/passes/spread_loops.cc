#include "core/passes/spread_loops.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "core/passes/node_kinds.h"
#include "core/tensor/tensor.h"

namespace tandem {
namespace {

class Spreader {
 public:
  explicit Spreader(Graph& graph) : graph_(graph) {}

  absl::StatusOr<SpreadLoopsResult> Run() {
    if (absl::c_any_of(graph_.nodes(), [](const Node* node) { return IsEnter(*node); })) {
      TANDEM_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.TopologicalOrder());
      for (Node* node : order) {
        if (IsExit(*node)) Move(node, *node->input(0).node);
        if (IsNextIteration(*node)) TANDEM_RETURN_IF_ERROR(MoveToMerge(node));
      }
      // From the inside out: what enters an inner loop may come from an Enter of the outer one.
      absl::c_reverse(order);
      for (Node* node : order) {
        if (node->Is("Enter")) TANDEM_RETURN_IF_ERROR(GiveToConsumers(node));
      }
    }
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    TANDEM_ASSIGN_OR_RETURN(result_.frames, AssignFrames(order));
    if (num_frames() == 1) return std::move(result_);
    FindTasks();
    if (absl::c_none_of(tasks_, [](const auto& tasks) { return tasks.size() > 1; })) {
      return std::move(result_);
    }
    TANDEM_RETURN_IF_ERROR(CheckRounds(order));
    TANDEM_RETURN_IF_ERROR(FindConditions());
    FindNeeds();
    for (size_t frame = 1; frame < num_frames(); ++frame) {
      for (const std::string& task : needs_[frame]) {
        TANDEM_RETURN_IF_ERROR(AddRounds(static_cast<int>(frame), task));
      }
    }
    return std::move(result_);
  }

 private:
  const std::string& TaskOf(const Node& node) {
    const auto [found, is_new] = task_of_device_.try_emplace(node.device());
    if (is_new) found->second = DeviceName::Parse(node.device())->TaskName();
    return found->second;
  }

  size_t num_frames() const { return result_.frames.frames.size(); }
  int InputFrame(const Node& node) const {
    return result_.frames.input_frame[static_cast<size_t>(node.id())];
  }
  int OutputFrame(const Node& node) const {
    return result_.frames.output_frame[static_cast<size_t>(node.id())];
  }

  // Puts `node` on the device of another one unless they are in one task.
  void Move(Node* node, const Node& to) {
    if (TaskOf(*node) == TaskOf(to)) return;
    node->set_device(to.device());
    node->set_requested_device(to.device());
  }

  absl::Status MoveToMerge(Node* node) {
    const Node* merge = nullptr;
    for (const Consumer& consumer : node->consumers()) {
      if (consumer.input == Consumer::kControl || !IsBackEdge(*node, *consumer.node)) continue;
      if (merge != nullptr && TaskOf(*merge) != TaskOf(*consumer.node)) {
        return errors::Unimplemented("node '", node->name(), "' (", node->type(), ") feeds '",
                                     merge->name(), "' in ", TaskOf(*merge), " and '",
                                     consumer.node->name(), "' in ", TaskOf(*consumer.node),
                                     "; give each of them a NextIteration of its own");
      }
      merge = consumer.node;
    }
    if (merge != nullptr) Move(node, *merge);
    return absl::OkStatus();
  }

  // Gives every task that consumes an Enter its own.
  absl::Status GiveToConsumers(Node* enter) {
    const std::vector<Consumer> consumers(enter->consumers().begin(), enter->consumers().end());
    std::map<std::string, Node*> in_task;
    const std::string own = TaskOf(*enter);
    if (absl::c_any_of(consumers, [&](const Consumer& c) { return TaskOf(*c.node) == own; })) {
      in_task.emplace(own, enter);
    }
    for (const Consumer& consumer : consumers) {
      const auto [found, is_new] = in_task.try_emplace(TaskOf(*consumer.node), nullptr);
      if (is_new && in_task.size() == 1) {
        Move(enter, *consumer.node);  // Nobody wants it where it is.
        found->second = enter;
      } else if (is_new) {
        NodeSpec copy;
        copy.name = enter->name();
        copy.op = enter->type();
        copy.inputs.assign(enter->inputs().begin(), enter->inputs().end());
        copy.control_inputs.assign(enter->control_inputs().begin(), enter->control_inputs().end());
        copy.attrs = enter->attrs();
        TANDEM_ASSIGN_OR_RETURN(found->second, Add(std::move(copy), consumer.node->device()));
      }
      if (found->second == enter) continue;
      if (consumer.input == Consumer::kControl) {
        graph_.RemoveControlEdge(enter, consumer.node);
        graph_.AddControlEdge(found->second, consumer.node);
      } else {
        TANDEM_RETURN_IF_ERROR(
            graph_.SetInput(consumer.node, consumer.input, found->second->output(0)));
      }
    }
    return absl::OkStatus();
  }

  // Which tasks take part in each frame.
  void FindTasks() {
    tasks_.resize(num_frames());
    for (const Node* node : graph_.nodes()) {
      tasks_[static_cast<size_t>(InputFrame(*node))].insert(TaskOf(*node));
      if (IsEnter(*node) && !node->consumers().empty()) {
        tasks_[static_cast<size_t>(OutputFrame(*node))].insert(TaskOf(*node));
      }
    }
    tasks_[0].clear();
    for (size_t frame = num_frames() - 1; frame > 0; --frame) {
      const int parent = result_.frames.frames[frame].parent;
      if (parent == 0) continue;
      tasks_[static_cast<size_t>(parent)].insert(tasks_[frame].begin(), tasks_[frame].end());
    }
  }

  // Calls `visit(source)` for all that a node of a loop consumes but constants of all frames.
  template <typename Visit>
  static void ForEachSource(const Node& node, const Visit& visit) {
    for (const Output& input : node.inputs()) {
      if (!IsFreeConstant(*input.node)) visit(*input.node);
    }
    for (const Node* control : node.control_inputs()) {
      if (!IsFreeConstant(*control)) visit(*control);
    }
  }

  // What crosses between tasks in a loop must come in every round.
  absl::Status CheckRounds(const std::vector<Node*>& order) {
    std::vector<bool> in_some(static_cast<size_t>(graph_.id_limit()), false);
    for (const Node* node : order) {
      bool some = false;
      if (node->Is("Merge") || node->Is("RefMerge")) {
        // Of a loop: the first round's value, or one of the other rounds.
        bool first = false;
        bool later = false;
        some = true;
        for (const Output& input : node->inputs()) {
          first |= IsEnter(*input.node);
          later |= IsNextIteration(*input.node);
          some &= IsBackEdge(*input.node, *node) || in_some[static_cast<size_t>(input.node->id())];
        }
        some &= !(first && later);
      } else if (!IsExit(*node)) {
        ForEachSource(
            *node, [&](const Node& source) { some |= in_some[static_cast<size_t>(source.id())]; });
        some |= IsNextIteration(*node) || (IsEnter(*node) && !IsConstantEnter(*node));
      }
      in_some[static_cast<size_t>(node->id())] = some;
    }
    absl::Status error;
    for (const Node* node : order) {
      ForEachSource(*node, [&](const Node& source) {
        if (!error.ok() || !in_some[static_cast<size_t>(source.id())] ||
            TaskOf(source) == TaskOf(*node)) {
          return;
        }
        error = errors::Unimplemented(
            "'", source.name(), "' in ", TaskOf(source), " and '", node->name(), "' in ",
            TaskOf(*node), " are parts of one loop, and '", source.name(),
            "' runs in some of its rounds only (it comes from an Enter or a NextIteration without "
            "a Merge between them); place the two in one task");
      });
    }
    return error;
  }

  absl::Status FindConditions() {
    conditions_.resize(num_frames());
    std::vector<std::vector<std::string>> names(num_frames());
    for (Node* node : graph_.nodes()) {
      if (!node->Is("LoopCond")) continue;
      const size_t frame = static_cast<size_t>(InputFrame(*node));
      conditions_[frame] = node;
      names[frame].push_back(node->name());
    }
    for (size_t frame = 1; frame < num_frames(); ++frame) {
      if (tasks_[frame].size() < 2 || names[frame].size() == 1) continue;
      return errors::InvalidArgument(
          "the loop '", result_.frames.frames[frame].name, "' spans ",
          absl::StrJoin(tasks_[frame], " and "), " and has ",
          names[frame].empty() ? "no LoopCond"
                               : absl::StrCat("the LoopConds ", absl::StrJoin(names[frame], ", ")),
          "; one that tells all tasks whether it goes on is wanted");
    }
    return absl::OkStatus();
  }

  // Which tasks need rounds of their own in a frame: those that do not decide about it, and those
  // that receive something in it.
  void FindNeeds() {
    needs_.resize(num_frames());
    for (size_t frame = 1; frame < num_frames(); ++frame) {
      if (tasks_[frame].size() < 2) continue;
      for (const std::string& task : tasks_[frame]) {
        if (task != TaskOf(*conditions_[frame])) needs_[frame].insert(task);
      }
    }
    for (const Node* node : graph_.nodes()) {
      ForEachSource(*node, [&](const Node& source) {
        const size_t frame = static_cast<size_t>(OutputFrame(source));
        if (frame > 0 && TaskOf(source) != TaskOf(*node)) needs_[frame].insert(TaskOf(*node));
      });
    }
    for (size_t frame = num_frames() - 1; frame > 0; --frame) {
      const int parent = result_.frames.frames[frame].parent;
      if (parent == 0) continue;
      needs_[static_cast<size_t>(parent)].insert(needs_[frame].begin(), needs_[frame].end());
    }
  }

  absl::Status AddRounds(int frame, const std::string& task) {
    const FrameAssignment::Frame& loop = result_.frames.frames[static_cast<size_t>(frame)];
    Node* const condition = conditions_[static_cast<size_t>(frame)];
    const std::string device = absl::StrCat(task, "/device:CPU:0");
    const std::string prefix = absl::StrCat(condition->name(), "/rounds/");
    const auto add = [&](const std::string& op, std::vector<Output> inputs,
                         AttrMap attrs) -> absl::StatusOr<Node*> {
      NodeSpec spec;
      spec.name = absl::StrCat(prefix, op);
      spec.op = op;
      if (op == "Merge") spec.first_missing_input = 1;
      spec.inputs = std::move(inputs);
      spec.attrs = std::move(attrs);
      TANDEM_ASSIGN_OR_RETURN(Node * node, Add(std::move(spec), device));
      result_.frames.input_frame.resize(static_cast<size_t>(graph_.id_limit()), 0);
      result_.frames.output_frame.resize(static_cast<size_t>(graph_.id_limit()), 0);
      if (op == "Const") return node;
      result_.frames.input_frame[static_cast<size_t>(node->id())] =
          op == "Enter" ? loop.parent : frame;
      result_.frames.output_frame[static_cast<size_t>(node->id())] = frame;
      return node;
    };
    Node* begin = nullptr;
    if (loop.parent == 0) {
      TANDEM_ASSIGN_OR_RETURN(
          begin, add("Const", {}, {{"dtype", kInt32}, {"value", Tensor::Scalar<int32_t>(0)}}));
    } else {
      begin = result_.rounds.at({loop.parent, task});
    }
    TANDEM_ASSIGN_OR_RETURN(
        Node * enter,
        add("Enter", {begin->output(0)},
            {{"frame_name", loop.name},
             {"parallel_iterations", static_cast<int64_t>(loop.parallel_iterations)}}));
    TANDEM_ASSIGN_OR_RETURN(Node * merge,
                            add("Merge", {enter->output(0)}, {{"T", kInt32}, {"N", int64_t{2}}}));
    TANDEM_ASSIGN_OR_RETURN(Node * goes_on,
                            add("Switch", {merge->output(0), condition->output(0)}, {}));
    TANDEM_ASSIGN_OR_RETURN(Node * next, add("NextIteration", {goes_on->output(1)}, {}));
    TANDEM_RETURN_IF_ERROR(graph_.SetInput(merge, 1, next->output(0)));
    result_.rounds[{frame, task}] = merge;
    return absl::OkStatus();
  }

  absl::StatusOr<Node*> Add(NodeSpec spec, const std::string& device) {
    spec.name = graph_.UniqueName(spec.name);
    TANDEM_ASSIGN_OR_RETURN(Node * node, graph_.AddNode(std::move(spec)));
    node->set_device(device);
    node->set_requested_device(device);
    return node;
  }

  Graph& graph_;
  SpreadLoopsResult result_;
  std::map<std::string, std::string> task_of_device_;
  // By frame. Ordered, so that every run makes the same graph.
  std::vector<std::set<std::string>> tasks_;
  std::vector<Node*> conditions_;
  std::vector<std::set<std::string>> needs_;
};

}  // namespace

absl::StatusOr<SpreadLoopsResult> SpreadLoops(Graph& graph) { return Spreader(graph).Run(); }

}  // namespace tandem
