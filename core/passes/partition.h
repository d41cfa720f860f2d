// Partition: cuts a placed graph into one graph for each task.
//
// Where a value goes from one task to another, the sender's graph gets a _Send and the receiver's a
// _Recv of the same key (core/kernel/rendezvous_key.h), once for each value and receiving task. A
// control edge travels as a small constant that runs after the sender; an Identity behind the _Recv
// stands for the sender. Constants that wait for nothing are not sent: each task gets its own.
// What is dead is sent as dead, so that conditionals may span tasks. A _Recv with the attribute
// _alive gets nothing dead, since no conditional is before it.
//
// A loop of TensorFlow 1 whose nodes lie in several tasks runs in all of them, round for round
// (core/passes/spread_loops.h); what is sent in a round is received in the same one.
#ifndef TANDEM_CORE_PASSES_PARTITION_H_
#define TANDEM_CORE_PASSES_PARTITION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace tandem {

struct PartitionOptions {
  // The incarnation of a device, by its full name: part of the keys, so that a task that was
  // restarted is not taken for the one before.
  std::function<absl::StatusOr<uint64_t>(absl::string_view device)> incarnation;
};

struct Partition {
  std::string task;  // "/job:worker/replica:0/task:1"
  Graph graph;       // Nodes keep their names; the device of each is what it asks for, too.
};

// The partitions, ordered by task. One alone is a copy of `graph`.
//
// REQUIRES: every node has a full device name. Unimplemented: a resource handle that leaves its
// task. InvalidArgument: a reference that would leave its task, a cycle. Errors of SpreadLoops and
// of `options.incarnation` pass through.
absl::StatusOr<std::vector<Partition>> PartitionGraph(const PartitionOptions& options,
                                                      const Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_PARTITION_H_
