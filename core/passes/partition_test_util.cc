#include "core/passes/partition_test_util.h"

#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/passes/place.h"
#include "runtime/rendezvous/local_rendezvous.h"

namespace tandem::testing {

std::string TaskName(int task) { return absl::StrCat("/job:worker/replica:0/task:", task); }

std::string CpuOf(int task) { return TaskName(task) + "/device:CPU:0"; }

PartitionOptions Incarnations() {
  return {[](absl::string_view device) -> absl::StatusOr<uint64_t> {
    if (device == CpuOf(0)) return 0xaau;
    return device == CpuOf(1) ? 0xbbu : 0xccu;
  }};
}

absl::StatusOr<std::vector<Partition>> PartitionTest::TryCut() {
  EXPECT_TRUE(root_.ok()) << root_.status();
  PlaceOptions place;
  for (int task = 0; task < kNumTasks; ++task) place.devices.push_back(CpuOf(task));
  TANDEM_RETURN_IF_ERROR(Place(place, *root_.graph()));
  return PartitionGraph(Incarnations(), *root_.graph());
}

std::vector<Partition> PartitionTest::Cut() {
  absl::StatusOr<std::vector<Partition>> partitions = TryCut();
  EXPECT_TRUE(partitions.ok()) << partitions.status();
  return partitions.ok() ? *std::move(partitions) : std::vector<Partition>();
}

std::vector<Node*> PartitionTest::OfType(const Graph& graph, absl::string_view type) {
  std::vector<Node*> found;
  for (Node* node : graph.nodes()) {
    if (node->Is(type)) found.push_back(node);
  }
  return found;
}

absl::Status PartitionRunTest::RunPartition(const Partition& partition, const Session::Feeds& feeds,
                                            const std::vector<std::string>& fetches,
                                            RunOptions options, Results* results) {
  SessionOptions session_options;
  TANDEM_ASSIGN_OR_RETURN(session_options.devices, DeviceSet::Create({{kCpu, 1}}, partition.task));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Create(partition.graph, session_options));
  const auto is_here = [&](const std::string& name) {
    return partition.graph.FindNode(name) != nullptr;
  };
  Session::Feeds own_feeds;
  std::set<std::string> fed;
  for (const auto& feed : feeds) {
    if (!is_here(feed.first)) continue;
    own_feeds.push_back(feed);
    fed.insert(feed.first);
  }
  std::vector<std::string> own_fetches;
  for (const std::string& fetch : fetches) {
    if (is_here(fetch)) own_fetches.push_back(fetch);
  }
  std::vector<std::string> targets;
  for (const Node* node : partition.graph.nodes()) {
    if (fed.count(node->name()) == 0) targets.push_back(node->name());
  }
  options.timeout = absl::Seconds(120);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                          session->Run(options, own_feeds, own_fetches, targets, nullptr));
  for (size_t i = 0; i < values.size(); ++i) results->emplace(own_fetches[i], values[i]);
  return absl::OkStatus();
}

absl::Status PartitionRunTest::TryRunTogether(const std::vector<Partition>& partitions,
                                              const Session::Feeds& feeds,
                                              const std::vector<std::string>& fetches,
                                              Results* results) {
  LocalRendezvous rendezvous;
  Mutex mu;
  absl::Status first;
  std::vector<Results> parts(partitions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < partitions.size(); ++i) {
    threads.emplace_back([&, i] {
      RunOptions options;
      options.rendezvous = &rendezvous;
      const absl::Status status = RunPartition(partitions[i], feeds, fetches, options, &parts[i]);
      if (status.ok()) return;
      {
        MutexLock lock(mu);
        if (first.ok()) first = WithContext(status, partitions[i].task);
      }
      rendezvous.Abort(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Results& part : parts) results->merge(part);
  return first;
}

PartitionRunTest::Results PartitionRunTest::RunTogether(const std::vector<Partition>& partitions,
                                                        const Session::Feeds& feeds,
                                                        const std::vector<std::string>& fetches) {
  Results results;
  const absl::Status status = TryRunTogether(partitions, feeds, fetches, &results);
  EXPECT_TRUE(status.ok()) << status;
  return results;
}

}  // namespace tandem::testing
