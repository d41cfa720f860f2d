// A few faults of each kind, to real processes. The rest is all_faults_test.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/parameter_server/process_faults.h"

namespace tandem::testing {
namespace {

using Mode = Strategy::ParameterServerMode;

TEST(Faults, AWorkerKilledInStepsCostsNothing) {
  for (const Mode mode : {Mode::kAsynchronous, Mode::kSynchronous}) {
    FaultyJob job(2, 2);
    job.options().mode = mode;
    job.Begin();
    job.Schedule(100, 2);
    job.cluster().process({"worker", 1}).Kill();
    job.Schedule(20, 2);
    job.WaitForWorkers(1);
    job.cluster().Start({"worker", 1});
    job.WaitForWorkers(2);
    job.Schedule(100, 2);
    job.cluster().process({"worker", 0}).Kill();
    job.Schedule(20, 2);
    job.ExpectAllCountedOnce();
    EXPECT_EQ(job.Losses("/job:worker/task:0"), 1);
    EXPECT_EQ(job.Losses("/job:worker/task:1"), 1);
  }
}

TEST(Faults, AServerKilledInTrainingComesBackFromItsReplica) {
  FaultyJob job(2, 2);
  job.options().replication = "synchronous";
  job.Begin();
  job.Schedule(40);
  job.Replace({"ps", 1});
  job.Schedule(40);
  job.ExpectAllCountedOnce();
  EXPECT_EQ(ToldLoss(job.Events(), "/job:ps/task:1"), 0);
}

// The files of a snapshot that is being written have names that those of a whole one have not.
TEST(Faults, AServerKilledInASnapshotComesBackFromTheOneBefore) {
  const std::string folder = ::testing::TempDir() + "/faults_test_snapshots";
  std::filesystem::remove_all(folder);
  FaultyJob job(1, 2);
  job.options().snapshot_dir = folder;
  job.options().snapshot_every = absl::Milliseconds(10);
  job.Begin();
  for (int round = 0; round < 4; ++round) {
    job.Schedule(20);
    ASSERT_TRUE(job.Join().ok());
    job.WaitForShards(IsInSnapshot);
    const int64_t kept = job.Counters()[0];
    const auto files = [&] {
      std::set<std::string> names;
      std::error_code error;
      for (std::filesystem::recursive_directory_iterator it(folder, error), end;
           !error && it != end; it.increment(error)) {
        names.insert(it->path().string());
      }
      return names;
    };
    const std::set<std::string> before = files();
    // The next one has begun as soon as there is a file that was not there.
    job.Schedule(1);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (bool has_begun = false; !has_begun;) {
      for (const std::string& name : files()) has_begun = has_begun || before.count(name) == 0;
      ASSERT_LT(absl::Now(), deadline);
    }
    job.Replace({"ps", 0});
    ASSERT_TRUE(job.Join().ok());
    job.Schedule(5);
    ASSERT_TRUE(job.Join().ok());
    const int64_t counted = job.Counters()[0];
    EXPECT_GE(counted, kept + 5) << "round " << round;
    EXPECT_LE(counted, kept + 6) << "round " << round;
  }
}

// "began counter_0=17 counter_1=17"
std::map<std::string, int64_t> CountersIn(const std::string& line) {
  std::map<std::string, int64_t> counters;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const std::pair<absl::string_view, absl::string_view> entry = absl::StrSplit(word, '=');
    int64_t value = 0;
    if (absl::SimpleAtoi(entry.second, &value)) counters[std::string(entry.first)] = value;
  }
  return counters;
}

std::string LineWith(ServerProcess& process, absl::string_view words) {
  if (!process.WaitForLine(words)) return "";
  for (const ServerProcess::Line& line : process.LinesFrom(0)) {
    if (absl::StrContains(line.text, words)) return line.text;
  }
  return "";
}

TEST(Faults, ACoordinatorThatIsKilledGoesOnWithTheServersState) {
  ProcessCluster cluster({{"chief", 1}, {"ps", 2}, {"worker", 2}});
  for (int i = 0; i < 2; ++i) {
    cluster.Start({"ps", i});
    cluster.Start({"worker", i});
  }
  const auto address = [&](const std::string& job, int index) {
    return absl::StrCat("\"", cluster.target({job, index}).substr(std::strlen("grpc://")), "\"");
  };
  const std::map<std::string, std::string> environment = {
      {"TF_CONFIG", absl::StrCat(R"({"cluster": {"chief": [)", address("chief", 0), R"(], "ps": [)",
                                 address("ps", 0), ", ", address("ps", 1), R"(], "worker": [)",
                                 address("worker", 0), ", ", address("worker", 1),
                                 R"(]}, "task": {"type": "chief", "index": 0}})")}};
  const std::vector<std::string> command = {"tests/parameter_server/counting_job"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> all = command;
    all.push_back(flag);
    return all;
  };
  int64_t acknowledged = 0;
  {
    ServerProcess first(with("--steps=1000000"), environment);
    ASSERT_EQ(CountersIn(LineWith(first, "began")),
              (std::map<std::string, int64_t>{{"counter_0", 0}, {"counter_1", 0}}));
    ASSERT_TRUE(first.WaitForLine("ended 50"));
    // While it lives there is no other one.
    ServerProcess another(with("--steps=5"), environment);
    EXPECT_TRUE(another.WaitForLine("has another coordinator: process "));
    ASSERT_TRUE(another.WaitForEnd(absl::Now() + absl::Seconds(60)).has_value());
    const int before = first.CountLines("ended ");
    ASSERT_TRUE(first.WaitForLine(absl::StrCat("ended ", before + 20)));
    first.Kill();
    acknowledged = first.CountLines("ended ");
  }
  ASSERT_GE(acknowledged, 50);
  ServerProcess second(with("--steps=30"), environment);
  const std::map<std::string, int64_t> began = CountersIn(LineWith(second, "began"));
  const std::map<std::string, int64_t> counted = CountersIn(LineWith(second, "counted"));
  ASSERT_EQ(began.size(), 2u);
  ASSERT_EQ(counted.size(), 2u);
  // Two steps at each worker were on their way, of which nobody was told any more; the last line
  // may have been cut off.
  constexpr int64_t kOnTheirWay = 2 * 2 + 1;
  for (const auto& [name, value] : counted) {
    EXPECT_GE(began.at(name), acknowledged);
    EXPECT_LE(began.at(name), acknowledged + kOnTheirWay);
    EXPECT_GE(value, began.at(name) + 30);
    EXPECT_LE(value, acknowledged + kOnTheirWay + 30);
  }
  ASSERT_TRUE(second.WaitForEnd(absl::Now() + absl::Seconds(60)).has_value());
  // A job that has ended in order leaves nothing: the next one begins anew.
  ServerProcess third(with("--steps=5"), environment);
  EXPECT_EQ(CountersIn(LineWith(third, "counted")),
            (std::map<std::string, int64_t>{{"counter_0", 5}, {"counter_1", 5}}));
}

}  // namespace
}  // namespace tandem::testing
