#include "runtime/cluster/cluster_config.h"

#include "absl/strings/match.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/server.pb.h"

namespace tandem {
namespace {

TEST(ClusterConfig, ReadsAWholeTfConfig) {
  const auto config = ParseClusterConfig(R"({
    "cluster": {"chief": ["c:1"], "worker": ["a:2222", "b:2222"], "ps": {"3": "p:2222"}},
    "task": {"type": "worker", "index": "1"}, "environment": "cloud"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->num_tasks(), 4);
  ASSERT_TRUE(config->task.has_value());
  EXPECT_EQ(config->task->job, "worker");
  EXPECT_EQ(config->task->index, 1);
  EXPECT_EQ(*config->Address({"ps", 3}), "p:2222");
  EXPECT_EQ(config->Address({"ps", 0}), nullptr);
}

TEST(ClusterConfig, ReadsABareMapOfJobs) {
  const auto config = ParseClusterConfig(R"({"my_job": ["[::1]:0"]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->task.has_value());
  const auto address = ParseHostPort(*config->Address({"my_job", 0}));
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "::1");
  EXPECT_EQ(address->port, 0);
}

TEST(ClusterConfig, ReadsMessagesInTextAndBinary) {
  const std::string text = R"(
      cluster { job { name: "worker" tasks { key: 0 value: "a:1" } tasks { key: 2 value: "b:1" } } }
      job_name: "worker" task_index: 2)";
  tensorflow::ServerDef def;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
  for (const std::string& document : {text, def.SerializeAsString()}) {
    const auto config = ParseClusterConfig(document);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->num_tasks(), 2);
    ASSERT_TRUE(config->task.has_value());
    EXPECT_EQ(config->task->index, 2);
    EXPECT_EQ(ToServerDef(*config, *config->task).cluster().job(0).tasks().at(2), "b:1");
  }
  std::string cluster_text;
  google::protobuf::TextFormat::PrintToString(def.cluster(), &cluster_text);
  for (const std::string& document : {cluster_text, def.cluster().SerializeAsString()}) {
    const auto config = ParseClusterConfig(document);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->num_tasks(), 2);
    EXPECT_FALSE(config->task.has_value());
  }
}

TEST(ClusterConfig, AnEvaluatorNeedNotBePartOfTheCluster) {
  const auto config = ParseClusterConfig(
      R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})");
  EXPECT_TRUE(config.ok()) << config.status();
}

// Each document, and what the message has to name: the place, and what was found or is allowed.
TEST(ClusterConfig, ErrorsNameThePlaceAndWhatIsAllowed) {
  const struct {
    const char* document;
    std::vector<const char*> named;
  } cases[] = {
      {"", {"empty"}},
      {"hello", {"neither JSON"}},
      {R"({"cluster": )", {"JSON"}},
      {R"({"cluster": []})", {"cluster", "[]", "map from jobs"}},
      {R"({"cluster": {"wor ker": ["a:1"]}})", {"cluster.wor ker", "letter"}},
      {R"({"cluster": {"worker": "a:1"}})", {"cluster.worker", "list of addresses"}},
      {R"({"cluster": {"worker": [7]}})", {"cluster.worker[0]", "7", "host:port"}},
      {R"({"cluster": {"worker": ["a"]}})", {"cluster.worker[0]", "'a'", "port"}},
      {R"({"cluster": {"worker": ["a:70000"]}})", {"cluster.worker[0]", "70000", "65535"}},
      {R"({"cluster": {"worker": ["a:-1"]}})", {"cluster.worker[0]", "-1"}},
      {R"({"cluster": {"worker": [":1"]}})", {"cluster.worker[0]", "host"}},
      {R"({"cluster": {"worker": ["::1:1"]}})", {"cluster.worker[0]", "brackets"}},
      {R"({"cluster": {"worker": ["a:1", "a:1"]}})",
       {"cluster.worker[1]", "cluster.worker[0]", "a:1"}},
      {R"({"cluster": {"worker": {"x": "a:1"}}})", {"cluster.worker.x", "index"}},
      {R"({"cluster": {"worker": {"01": "a:1"}}})", {"cluster.worker.01", "index"}},
      {R"({"cluster": {"chief": ["a:1", "b:1"]}})", {"cluster.chief", "one"}},
      {R"({"cluster": {"evaluator": ["a:1", "b:1"]}})", {"cluster.evaluator", "one"}},
      {R"({"cluster": {"chief": ["a:1"], "master": ["b:1"]}})", {"chief", "master"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": 3})", {"task", "3"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})", {"task.index"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"index": 0}})", {"task.type"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1.5}})",
       {"task.index", "1.5"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
       {"task.index", "worker", "0"}},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
       {"task.type", "ps", "worker"}},
  };
  for (const auto& bad : cases) {
    const auto config = ParseClusterConfig(bad.document);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << bad.document;
    for (const char* name : bad.named) {
      EXPECT_TRUE(absl::StrContains(config.status().message(), name))
          << bad.document << ": " << config.status() << " should name " << name;
    }
  }
}

}  // namespace
}  // namespace tandem
