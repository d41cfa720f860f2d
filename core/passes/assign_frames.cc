#include "core/passes/assign_frames.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/passes/node_kinds.h"

namespace tandem {

bool IsEnter(const Node& node) { return node.Is("Enter") || node.Is("RefEnter"); }

bool IsConstantEnter(const Node& node) { return IsEnter(node) && *node.Attr<bool>("is_constant"); }

bool IsExit(const Node& node) { return node.Is("Exit") || node.Is("RefExit"); }

bool IsNextIteration(const Node& node) {
  return node.Is("NextIteration") || node.Is("RefNextIteration");
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
    if (IsEnter(*node)) {
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
    } else if (IsExit(*node)) {
      if (frame == 0) {
        return errors::InvalidArgument("node '", node->name(), "' (Exit) is in no loop");
      }
      output_frame = result.frames[static_cast<size_t>(frame)].parent;
    } else if (IsNextIteration(*node) && frame == 0) {
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
