// SpreadLoops: makes a placed graph ready to be cut where its loops of TensorFlow 1 span tasks.
//
// Such a loop runs in every task that takes part in it, round for round. A task that does not
// decide whether the loop goes on gets a small loop of its own for that,
//
//     Enter ──> Merge ──> Switch ──> NextIteration
//                 ^          ^            │
//                 │       LoopCond        │
//                 └───────────────────────┘
//
// which carries a value that means nothing, and asks the LoopCond of the task that decides. Its
// Merge runs once in every round, so what a task receives in a round waits for it. In a loop within
// a loop it begins with the Merge of the outer one, so that it runs whenever the outer one has a
// round; if nothing enters the inner loop then, what decides is dead, and it ends at once. (The
// scheme is that of "Dynamic Control Flow in Large-Scale Machine Learning", Yu et al., 2018.)
//
// A value can go from task to task only if it comes, dead or alive, in every round. What an Enter
// lets in and what a NextIteration passes on does not, so each task gets Enters of its own, and a
// NextIteration goes to the task of its Merge. An Exit goes to the task of what it lets out, so
// that only the last round's value travels.
#ifndef TANDEM_CORE_PASSES_SPREAD_LOOPS_H_
#define TANDEM_CORE_PASSES_SPREAD_LOOPS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/passes/assign_frames.h"

namespace tandem {

struct SpreadLoopsResult {
  FrameAssignment frames;  // Of the graph as it is now.
  // What runs once in each round of a frame in a task, by frame and the task's name; for those in
  // which something is received.
  std::map<std::pair<int, std::string>, Node*> rounds;
};

// REQUIRES: every node has a full device name. InvalidArgument: what AssignFrames refuses, a cycle,
// a loop that spans tasks and has not exactly one LoopCond. Unimplemented: a value that crosses
// between tasks in some rounds only. After an error the graph is unspecified.
absl::StatusOr<SpreadLoopsResult> SpreadLoops(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_SPREAD_LOOPS_H_
