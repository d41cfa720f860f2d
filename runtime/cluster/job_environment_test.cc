#include "runtime/cluster/job_environment.h"

#include <map>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

absl::StatusOr<absl::optional<JobEnvironment>> Read(
    const std::map<std::string, std::string>& variables) {
  return ReadJobEnvironment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(JobEnvironment, IsNoneWhereNobodySaysAnything) {
  const auto job = Read({{"HOME", "/root"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_FALSE(job->has_value());
}

TEST(JobEnvironment, TfConfigWinsAndTheLauncherAddsToIt) {
  const auto job = Read({{"TF_CONFIG",
                          R"({"cluster": {"worker": ["a:1", "b:1", "c:1"], "ps": ["p:1"]},
            "task": {"type": "worker", "index": 2}})"},
                         {"TANDEM_RENDEZVOUS", "127.0.0.1:4000"},
                         {"TANDEM_WORKERS", "2:3"},
                         {"RANK", "0"},
                         {"WORLD_SIZE", "7"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->source, "TF_CONFIG");
  EXPECT_EQ((*job)->min_workers, 2);
  EXPECT_EQ((*job)->max_workers, 3);
  EXPECT_EQ((*job)->rendezvous, "127.0.0.1:4000");
  EXPECT_FALSE((*job)->serves_rendezvous);
  EXPECT_EQ((*job)->config.task->index, 2);
}

TEST(JobEnvironment, TorchrunOnOneHostGivesAllAddresses) {
  const auto job = Read({{"RANK", "1"},
                         {"WORLD_SIZE", "3"},
                         {"LOCAL_WORLD_SIZE", "3"},
                         {"MASTER_ADDR", "somewhere"},
                         {"MASTER_PORT", "4000"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->config.num_tasks(), 3);
  EXPECT_EQ(*(*job)->config.Address({"worker", 2}), "127.0.0.1:4003");
  EXPECT_EQ((*job)->config.task->index, 1);
  EXPECT_TRUE((*job)->rendezvous.empty());
}

TEST(JobEnvironment, TorchrunOnSeveralHostsMeetsAtRankZero) {
  std::map<std::string, std::string> variables = {
      {"RANK", "0"},          {"WORLD_SIZE", "4"},     {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "one"}, {"MASTER_PORT", "4000"}, {"HOSTNAME", "two"}};
  const auto first = Read(variables);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->rendezvous, "one:4001");
  EXPECT_TRUE((*first)->serves_rendezvous);
  variables["RANK"] = "3";
  const auto last = Read(variables);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ((*last)->rendezvous, "one:4001");
  EXPECT_FALSE((*last)->serves_rendezvous);
  EXPECT_EQ(*(*last)->config.Address({"worker", 3}), "two:0");
  EXPECT_EQ((*last)->max_workers, 4);
}

TEST(JobEnvironment, OpenMpiOnOneHostNeedsNothingElse) {
  const auto job = Read({{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->source, "Open MPI");
  EXPECT_EQ(*(*job)->config.Address({"worker", 1}), "127.0.0.1:29502");
}

TEST(JobEnvironment, SlurmTellsAllHosts) {
  const auto job = Read({{"SLURM_PROCID", "4"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_JOB_NODELIST", "gpu[08-09],login"},
                         {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                         {"TANDEM_PORT", "9000"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->config.num_tasks(), 5);
  EXPECT_EQ(*(*job)->config.Address({"worker", 0}), "gpu08:9000");
  EXPECT_EQ(*(*job)->config.Address({"worker", 3}), "gpu09:9001");
  EXPECT_EQ(*(*job)->config.Address({"worker", 4}), "login:9000");
}

TEST(JobEnvironment, HostListsAreExpandedAsSlurmMeansThem) {
  const auto hosts = ExpandHostList("a,b[1,3-4]x,node-7,n[098-101]");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(*hosts, (std::vector<std::string>{"a", "b1x", "b3x", "b4x", "node-7", "n098", "n099",
                                              "n100", "n101"}));
  for (const char* bad : {"", ",", "a,", "a[", "a[1", "a[2-1]", "a[x]", "a[0-4294967295]",
                          "a[1]b[2]", "a[1-2],", "a[-1]", "a[]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandHostList(bad).status())) << bad;
  }
}

TEST(JobEnvironment, TaskCountsAreExpanded) {
  EXPECT_EQ(*ExpandTaskCounts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* bad : {"", "x", "2(x", "2(x0)", "0", "2(x999999999)", "-1", "1,"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandTaskCounts(bad).status())) << bad;
  }
}

TEST(JobEnvironment, ErrorsNameTheVariable) {
  const struct {
    std::map<std::string, std::string> variables;
    const char* named;
  } cases[] = {
      {{{"TF_CONFIG", "{"}}, "TF_CONFIG"},
      {{{"TF_CONFIG", R"({"worker": ["a:1"]})"}, {"TANDEM_WORKERS", "3:2"}}, "TANDEM_WORKERS"},
      {{{"TF_CONFIG", R"({"worker": ["a:1"]})"}, {"TANDEM_RENDEZVOUS", "x"}}, "TANDEM_RENDEZVOUS"},
      {{{"RANK", "3"}, {"WORLD_SIZE", "3"}}, "RANK"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "no"}}, "WORLD_SIZE"},
      {{{"OMPI_COMM_WORLD_RANK", "0"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "MASTER_ADDR"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "SLURM_JOB_NODELIST"},
      {{{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_NODELIST", "a,b"},
        {"SLURM_TASKS_PER_NODE", "1"}},
       "SLURM_TASKS_PER_NODE"},
      {{{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_NODELIST", "a,b"},
        {"SLURM_TASKS_PER_NODE", "1(x2)"},
        {"SLURM_DISTRIBUTION", "cyclic"}},
       "SLURM_DISTRIBUTION"},
  };
  for (const auto& bad : cases) {
    const auto job = Read(bad.variables);
    EXPECT_TRUE(absl::IsInvalidArgument(job.status())) << bad.named;
    EXPECT_TRUE(absl::StrContains(job.status().message(), bad.named)) << job.status();
  }
}

}  // namespace
}  // namespace tandem
