// What the nodes of TensorFlow 1's control flow are to the executor.
#ifndef TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_
#define TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_

#include "core/graph/graph.h"
#include "core/passes/assign_frames.h"
#include "runtime/executor/frame_layout.h"

namespace tandem {

FrameLayout::Role RoleOf(const Node& node);
// True for nodes that a plan without frames cannot run: they make, pass or take dead values.
bool NeedsFrames(const Node& node);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_CONTROL_FLOW_H_
