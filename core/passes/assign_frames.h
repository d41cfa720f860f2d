// The frames of a graph: which loop of TensorFlow 1 each node belongs to.
//
// A frame is what lies between the Enters and the Exits of a loop. All that a node consumes lies in
// one frame; constants that wait for nothing belong to every frame.
#ifndef TANDEM_CORE_PASSES_ASSIGN_FRAMES_H_
#define TANDEM_CORE_PASSES_ASSIGN_FRAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace tandem {

// These, and no others, have outputs in another frame or iteration than their inputs. The forms for
// references count as well.
bool IsEnter(const Node& node);
bool IsConstantEnter(const Node& node);  // Its value is seen by all iterations.
bool IsExit(const Node& node);
bool IsNextIteration(const Node& node);

struct FrameAssignment {
  struct Frame {
    std::string name;
    int parent = -1;
    int num_enters = 0;
    int parallel_iterations = 10;
  };
  std::vector<Frame> frames;  // 0 is the outermost; every other comes after its parent.
  // By node id. They differ for Enter and Exit.
  std::vector<int> input_frame;
  std::vector<int> output_frame;
};

// InvalidArgument: inputs of a node come from different frames, an Exit outside a loop, a back edge
// that leaves its frame. `order` is the graph's topological order.
absl::StatusOr<FrameAssignment> AssignFrames(const std::vector<Node*>& order);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_ASSIGN_FRAMES_H_
