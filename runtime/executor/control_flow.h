// The shape of TensorFlow 1's control flow in a graph: which frame each node belongs to.
#ifndef TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_
#define TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "runtime/executor/frame_layout.h"

namespace tandem {

struct FrameAssignment {
  struct Frame {
    std::string name;
    int parent = -1;
    int num_enters = 0;
    int parallel_iterations = 10;
  };
  std::vector<Frame> frames;  // 0 is the outermost.
  // By node id. They differ for Enter and Exit.
  std::vector<int> input_frame;
  std::vector<int> output_frame;
};

// InvalidArgument: inputs of a node come from different frames, an Exit outside a loop, a loop
// within itself. `order` is the graph's topological order.
absl::StatusOr<FrameAssignment> AssignFrames(const std::vector<Node*>& order);

FrameLayout::Role RoleOf(const Node& node);
// True for nodes that a plan without frames cannot run: they make, pass or take dead values.
bool NeedsFrames(const Node& node);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_
