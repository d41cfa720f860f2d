// What passes have to know of some ops beyond their OpDef.
#ifndef TANDEM_CORE_PASSES_NODE_KINDS_H_
#define TANDEM_CORE_PASSES_NODE_KINDS_H_

#include "core/graph/graph.h"

namespace tandem {

// The ops of TensorFlow 1's loops and conditionals. They make, pass or take dead values, and change
// the frame.
bool IsControlFlow(const Node& node);

// True when two runs of the node on the same inputs give the same outputs and have no effect: it
// may run once instead of twice, or before the step. Its inputs and outputs are plain values, and
// it calls no functions.
bool IsPure(const Node& node);

// A constant that waits for nothing, or a copy of one for a device: its value is there before a
// step begins, in every task and in every frame that uses it.
bool IsFreeConstant(const Node& node);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_NODE_KINDS_H_
