// For tests of partition: a graph over three tasks, cut, and run as its tasks would run it.
#ifndef TANDEM_CORE_PASSES_PARTITION_TEST_UTIL_H_
#define TANDEM_CORE_PASSES_PARTITION_TEST_UTIL_H_

#include <map>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "core/passes/partition.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem::testing {

// "/job:worker/replica:0/task:1", and the device of that task.
std::string TaskName(int task);
std::string CpuOf(int task);

// Tasks have the incarnations 0xaa, 0xbb and 0xcc.
PartitionOptions Incarnations();

class PartitionTest : public ::testing::Test {
 protected:
  static constexpr int kNumTasks = 3;

  // The scope of a task.
  Scope On(int task) { return root_.WithDevice(TaskName(task)); }

  // Places the graph of `root_` and cuts it.
  absl::StatusOr<std::vector<Partition>> TryCut();
  // A failure is one of the test; the result is then empty.
  std::vector<Partition> Cut();

  static std::vector<Node*> OfType(const Graph& graph, absl::string_view type);

  Scope root_ = Scope::NewRoot();
};

class PartitionRunTest : public PartitionTest {
 protected:
  using Results = std::map<std::string, Tensor>;

  // Runs all nodes of a partition in a session of its own; `results` gets the fetches that lie in
  // it. Feeds of other partitions are left out.
  static absl::Status RunPartition(const Partition& partition, const Session::Feeds& feeds,
                                   const std::vector<std::string>& fetches, RunOptions options,
                                   Results* results);

  // Runs the partitions at the same time, over one rendezvous. A failure is one of the test.
  static Results RunTogether(const std::vector<Partition>& partitions, const Session::Feeds& feeds,
                             const std::vector<std::string>& fetches);
  // The error of the first one that fails.
  static absl::Status TryRunTogether(const std::vector<Partition>& partitions,
                                     const Session::Feeds& feeds,
                                     const std::vector<std::string>& fetches, Results* results);
};

}  // namespace tandem::testing

#endif  // TANDEM_CORE_PASSES_PARTITION_TEST_UTIL_H_
