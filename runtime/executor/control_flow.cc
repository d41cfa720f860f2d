#include "runtime/executor/control_flow.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/passes/node_kinds.h"

namespace tandem {

FrameLayout::Role RoleOf(const Node& node) {
  using Role = FrameLayout::Role;
  if (node.Is("Merge") || node.Is("RefMerge")) return Role::kMerge;
  if (node.Is("Switch") || node.Is("RefSwitch") || node.Is("_SwitchN")) return Role::kSwitch;
  if (node.Is("Enter") || node.Is("RefEnter")) {
    return *node.Attr<bool>("is_constant") ? Role::kConstantEnter : Role::kEnter;
  }
  if (node.Is("Exit") || node.Is("RefExit")) return Role::kExit;
  if (node.Is("NextIteration") || node.Is("RefNextIteration")) return Role::kNextIteration;
  if (node.Is("LoopCond")) return Role::kLoopCond;
  if (node.Is("ControlTrigger")) return Role::kControlTrigger;
  if (node.Is("_Send") || node.Is("_HostSend")) return Role::kSend;
  return Role::kNormal;
}

bool NeedsFrames(const Node& node) {
  using Role = FrameLayout::Role;
  const Role role = RoleOf(node);
  // A ControlTrigger and a send make nothing dead themselves; what is received may be dead.
  if (node.Is("_Recv") || node.Is("_HostRecv")) {
    const bool* const alive = node.Attr<bool>("_alive");  // See core/passes/partition.h.
    return alive == nullptr || !*alive;
  }
  return role != Role::kNormal && role != Role::kControlTrigger && role != Role::kSend;
}

absl::StatusOr<FrameAssignment> AssignFrames(const std::vector<Node*>& order) {
  FrameAssignment result;
  result.frames.push_back({});
  size_t limit = 0;
  for (const Node* node : order) limit = std::max(limit, static_cast<size_t>(node->id()) + 1);
  result.input_frame.assign(limit, 0);
  result.output_frame.assign(limit, 0);
  std::map<std::pair<int, std::string>, int> by_name;

  for (const Node* node : order) {
    // All that a node consumes lies in one frame. (Of a back edge the end is not known yet; it lies
    // in the frame of its NextIteration, which is checked there.)
    int frame = -1;
    const Node* witness = nullptr;
    absl::Status mismatch;
    const auto consume = [&](const Node* source) {
      if (source == nullptr || IsFreeConstant(*source) || IsBackEdge(*source, *node)) return;
      const int theirs = result.output_frame[static_cast<size_t>(source->id())];
      if (frame >= 0 && theirs != frame && mismatch.ok()) {
        mismatch = errors::InvalidArgument(
            "node '", node->name(), "' (", node->type(), ") consumes '", witness->name(),
            "' of frame '", result.frames[static_cast<size_t>(frame)].name, "' and '",
            source->name(), "' of frame '", result.frames[static_cast<size_t>(theirs)].name,
            "'; a value enters a frame through Enter and leaves it through Exit");
      }
      frame = theirs;
      witness = source;
    };
    for (const Output& input : node->inputs()) consume(input.node);
    for (const Node* control : node->control_inputs()) consume(control);
    TANDEM_RETURN_IF_ERROR(mismatch);
    frame = std::max(frame, 0);
    int output_frame = frame;
    const FrameLayout::Role role = RoleOf(*node);
    if (role == FrameLayout::Role::kEnter || role == FrameLayout::Role::kConstantEnter) {
      const std::string& name = *node->Attr<std::string>("frame_name");
      if (name.empty()) {
        return errors::InvalidArgument("node '", node->name(), "' (Enter) has no frame_name");
      }
      const auto [entry, added] =
          by_name.emplace(std::make_pair(frame, name), static_cast<int>(result.frames.size()));
      output_frame = entry->second;
      if (added) {
        const int64_t window = *node->Attr<int64_t>("parallel_iterations");
        result.frames.push_back(
            {name, frame, 0, static_cast<int>(std::clamp<int64_t>(window, 1, 1024))});
      }
      ++result.frames[static_cast<size_t>(output_frame)].num_enters;
    } else if (role == FrameLayout::Role::kExit) {
      if (frame == 0) {
        return errors::InvalidArgument("node '", node->name(), "' (Exit) is in no loop");
      }
      output_frame = result.frames[static_cast<size_t>(frame)].parent;
    } else if (role == FrameLayout::Role::kNextIteration && frame == 0) {
      return errors::InvalidArgument("node '", node->name(), "' (NextIteration) is in no loop");
    }
    result.input_frame[static_cast<size_t>(node->id())] = frame;
    result.output_frame[static_cast<size_t>(node->id())] = output_frame;
  }
  // Back edges stay within a frame.
  for (const Node* node : order) {
    for (const Output& input : node->inputs()) {
      if (input.valid() && IsBackEdge(*input.node, *node) &&
          result.output_frame[static_cast<size_t>(input.node->id())] !=
              result.input_frame[static_cast<size_t>(node->id())]) {
        return errors::InvalidArgument("the back edge from '", input.node->name(), "' to '",
                                       node->name(), "' leaves its frame");
      }
    }
  }
  return result;
}

}  // namespace tandem
