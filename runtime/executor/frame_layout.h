// FrameLayout: the static part of TensorFlow 1's control flow in a plan.
//
// A frame is the body of a loop: the nodes between Enter and Exit that carry one frame name. Frames
// nest. Each time a loop begins, an instance of its frame is made, and each round of the loop is an
// iteration of that instance with slots and pending counts of its own.
#ifndef TANDEM_RUNTIME_EXECUTOR_FRAME_LAYOUT_H_
#define TANDEM_RUNTIME_EXECUTOR_FRAME_LAYOUT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace tandem {

struct FrameLayout {
  enum class Role : uint8_t {
    kNormal,
    kMerge,
    kSwitch,  // Two or more outputs, one of them alive.
    kEnter,
    kConstantEnter,  // Its value is seen by all iterations.
    kExit,
    kNextIteration,
    kLoopCond,
    kControlTrigger,  // Runs also after dead nodes.
    kSend,  // Runs also when it is dead, with a dead input: the receiver must learn of it.
  };

  struct Frame {
    std::string name;
    int parent = -1;
    int num_enters = 0;
    int parallel_iterations = 10;
    // How many consumers each slot has (inputs of nodes in this frame, and fetches).
    std::vector<int32_t> slot_uses;
    int num_dereferences = 0;
    // By local number of the node: what a new iteration begins with (see Pending).
    std::vector<int32_t> pending;
    // Constants that nodes of this frame consume; every iteration begins with them.
    std::vector<std::pair<int32_t, Tensor>> constants;
  };

  // What a node has beyond its PlanNode. In a plan with frames, PlanNode::first_slot is a slot of
  // `output_frame`, and the slots of its inputs are slots of `frame`.
  struct NodeInfo {
    Role role = Role::kNormal;
    int frame = 0;         // Where its inputs lie.
    int local = 0;         // Its number in that frame.
    int output_frame = 0;  // Where its outputs lie: another one for Enter and Exit.
    int num_data_inputs = 0;
  };

  // One edge out of a node (several edges between two nodes are several).
  struct Edge {
    int32_t node = 0;     // The consumer.
    int32_t output = -1;  // -1: control.
    int32_t input = -1;   // Which input of the consumer; -1: control.
  };

  std::vector<Frame> frames;    // 0 is the outermost.
  std::vector<NodeInfo> nodes;  // Parallel to Plan::nodes.
  std::vector<Edge> edges;      // Those of node n: [first_edge[n], first_edge[n + 1]).
  std::vector<int32_t> first_edge;
  // Merges of the outermost frame that begin with a value, an argument or a constant.
  std::vector<int32_t> fed_merges;
};

// The state of a node in an iteration, in one number.
//
// A node other than Merge waits for all its edges: the low half counts those that are missing, the
// high half those that came dead. A Merge waits for its control edges and for one live value, or
// for all values to be dead: the low half counts missing control edges, the high half dead values,
// and kDecided says that a value came, or that all are dead.
struct Pending {
  static constexpr int32_t kDeadUnit = 1 << 15;
  static constexpr int32_t kDecided = 1 << 30;
  static int32_t Missing(int32_t state) { return state & (kDeadUnit - 1); }
  static int32_t Dead(int32_t state) { return (state & ~kDecided) / kDeadUnit; }
  // More edges into one node than this cannot be counted.
  static constexpr int32_t kMaxEdges = kDeadUnit - 1;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_FRAME_LAYOUT_H_
