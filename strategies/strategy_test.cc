// Which strategy an environment makes, and which wishes are refused.
#include "strategies/strategy.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

class FromEnvironment : public ::testing::Test {
 protected:
  FromEnvironment() { Clear(); }
  ~FromEnvironment() override { Clear(); }

  static void Set(const char* name, const char* value) { setenv(name, value, /*overwrite=*/1); }

  // The name of the strategy and where its replicas' variables live, or the error.
  static std::string Made() {
    const auto strategy = Strategy::FromEnvironment();
    if (!strategy.ok()) return strategy.status().ToString();
    const auto builder = (*strategy)->NewBuilder();
    if (!builder.ok()) return builder.status().ToString();
    std::string text = absl::StrCat((*strategy)->name(), " of ", (*builder)->num_replicas(), " on");
    for (int copy = 0; copy < (*builder)->num_copies(); ++copy) {
      const std::string device = (*builder)->device_of_copy(copy);
      absl::StrAppend(&text, " ", device.substr(device.rfind('/') + 1));
    }
    return text;
  }

 private:
  static void Clear() {
    for (const char* name :
         {"TANDEM_STRATEGY", "TANDEM_DEVICES", "TF_CONFIG", "TANDEM_WORKERS", "TANDEM_RENDEZVOUS",
          "TANDEM_SHARED_FOLDER", "RANK", "WORLD_SIZE", "MASTER_ADDR", "LOCAL_WORLD_SIZE"}) {
      unsetenv(name);
    }
  }
};

constexpr char kOneTask[] =
    R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})";
constexpr char kTwoTasks[] =
    R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})";
constexpr char kEvaluator[] =
    R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})";
constexpr char kServers[] = R"({"cluster": {"worker": ["a:1", "c:1"], "ps": ["b:1"]}})";
constexpr char kServersChief[] =
    R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"], "chief": ["c:1"]},
        "task": {"type": "chief", "index": 0}})";
constexpr char kServersWorker[] =
    R"({"cluster": {"worker": ["none.invalid:1"], "ps": ["b:1"]},
        "task": {"type": "worker", "index": 0}})";

TEST_F(FromEnvironment, IsMirroredOverAllDevicesWhenItSaysNothing) {
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
  Set("TANDEM_DEVICES", "CPU:2");
  EXPECT_EQ(Made(), "mirrored of 2 on device:CPU:0 device:CPU:1");
}

TEST_F(FromEnvironment, TakesTheStrategyThatIsNamed) {
  Set("TANDEM_DEVICES", "CPU:2");
  Set("TANDEM_STRATEGY", "one_device");
  EXPECT_EQ(Made(), "one_device of 1 on device:CPU:0");
  Set("TANDEM_STRATEGY", "mirrored");
  EXPECT_EQ(Made(), "mirrored of 2 on device:CPU:0 device:CPU:1");
  Set("TANDEM_STRATEGY", "central_storage");
  EXPECT_EQ(Made(), "central_storage of 2 on device:CPU:0");
}

TEST_F(FromEnvironment, PrefersDevicesToThoseThatOnlyImitateThem) {
  Set("TANDEM_DEVICES", "CPU:1,SIM:2");
  for (const char* name : {"one_device", "mirrored", "central_storage"}) {
    Set("TANDEM_STRATEGY", name);
    EXPECT_EQ(Made(), absl::StrCat(name, " of 1 on device:CPU:0"));
  }
}

TEST_F(FromEnvironment, RefusesANameThatIsNone) {
  Set("TANDEM_STRATEGY", "parameter_servers");
  const absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'parameter_servers'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "central_storage")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "or parameter_server")) << status;
}

TEST_F(FromEnvironment, TrainsAloneInAClusterOfOneTaskOnly) {
  Set("TF_CONFIG", kOneTask);
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
  Set("TF_CONFIG", kTwoTasks);
  EXPECT_EQ(Made(), "multi_worker_mirrored of 1 on device:CPU:0");
  Set("TANDEM_DEVICES", "CPU:2");
  EXPECT_EQ(Made(), "multi_worker_mirrored of 2 on device:CPU:0 device:CPU:1");
  Set("TF_CONFIG", "{");
  const absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "TF_CONFIG")) << status;
}

TEST_F(FromEnvironment, AJobThatMayGrowHasSeveralWorkers) {
  Set("TF_CONFIG", kOneTask);
  Set("TANDEM_WORKERS", "1:4");
  Set("TANDEM_RENDEZVOUS", "a:2");
  EXPECT_EQ(Made(), "multi_worker_mirrored of 1 on device:CPU:0");
  Set("TANDEM_WORKERS", "1:1");
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
}

TEST_F(FromEnvironment, KnowsWhatLaunchersSay) {
  Set("RANK", "1");
  Set("WORLD_SIZE", "2");
  const auto strategy = Strategy::FromEnvironment();
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  EXPECT_EQ((*strategy)->name(), "multi_worker_mirrored");
  ASSERT_NE((*strategy)->workers(), nullptr);
  EXPECT_EQ((*strategy)->workers()->rank(), 1);
  EXPECT_EQ((*strategy)->workers()->size(), 2);
  EXPECT_FALSE((*strategy)->is_chief());
  Set("RANK", "2");
  const absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "RANK")) << status;
}

TEST_F(FromEnvironment, AnEvaluatorWorksAlone) {
  Set("TF_CONFIG", kEvaluator);
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
}

TEST_F(FromEnvironment, TrainsWithTheParameterServersThatAClusterHas) {
  for (const char* config : {kServersChief, kServers}) {
    Set("TF_CONFIG", config);
    const auto strategy = Strategy::FromEnvironment();
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    EXPECT_EQ((*strategy)->name(), "parameter_server");
    EXPECT_TRUE((*strategy)->is_chief());
    EXPECT_EQ((*strategy)->workers(), nullptr);
  }
  // A worker serves, but not at an address that is none of this machine's.
  Set("TF_CONFIG", kServersWorker);
  absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_FALSE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "none.invalid")) << status;
  // By name, without any.
  Set("TF_CONFIG", kOneTask);
  Set("TANDEM_STRATEGY", "parameter_server");
  status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(FromEnvironment, SeveralWorkersAreAJob) {
  Set("TANDEM_STRATEGY", "multi_worker_mirrored");
  absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "tandem launch")) << status;
  // If it is asked for, one worker is a job, too.
  Set("TF_CONFIG", kOneTask);
  EXPECT_EQ(Made(), "multi_worker_mirrored of 1 on device:CPU:0");
  Set("TANDEM_SHARED_FOLDER", "maybe");
  status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "TANDEM_SHARED_FOLDER=maybe")) << status;
}

TEST_F(FromEnvironment, AStrategyThatIsNamedDoesNotLookAtTheCluster) {
  Set("TF_CONFIG", kTwoTasks);
  Set("TANDEM_STRATEGY", "mirrored");
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
}

TEST_F(FromEnvironment, OneDeviceIsADeviceThatThereIs) {
  EXPECT_TRUE(Strategy::OneDevice({}).ok());
  EXPECT_TRUE(Strategy::OneDevice({.device = "/cpu:0"}).ok());
  for (const char* none : {"/device:CPU:77", "/device:GPU:0", "/job:worker/device:CPU:0"}) {
    const absl::Status status = Strategy::OneDevice({.device = none}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), none)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "device:CPU:0")) << status;
  }
  EXPECT_EQ(Strategy::OneDevice({.device = "nonsense"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReplicaOptions, BucketsAreAsLargeAsWished) {
  for (const int64_t bytes : {4, 8}) {
    const auto strategy = Strategy::Mirrored({.replicas = 2, .bucket_bytes = bytes});
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    const auto builder = (*strategy)->NewBuilder();
    ASSERT_TRUE(builder.ok()) << builder.status();
    const Gradient gradient((*builder)->host_scope().Constant(1.0f));
    ASSERT_TRUE((*builder)->ReduceGradients({{gradient, gradient}, {gradient, gradient}}).ok());
    EXPECT_NE((*builder)->graph()->FindNode("reduce/bucket_0/replica_0"), nullptr);
    EXPECT_EQ((*builder)->graph()->FindNode("reduce/bucket_1/replica_0") == nullptr, bytes == 8);
  }
}

TEST(ReplicaOptions, RefusesWhatIsNotPositive) {
  EXPECT_EQ(Strategy::Mirrored({.bucket_bytes = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Strategy::Mirrored({.collective_timeout = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MultiWorkerOptions, RefusesWhatMakesNoSense) {
  const auto refuse = [](auto edit, const char* words) {
    Strategy::MultiWorkerOptions options;
    options.job.emplace();
    options.job->source = "a test";
    options.job->config.jobs["worker"] = {{0, "a:1"}, {1, "b:1"}};
    options.job->config.task = TaskId{"worker", 0};
    options.job->min_workers = options.job->max_workers = 2;
    edit(options);
    const absl::Status status = Strategy::MultiWorkerMirrored(options).status();
    EXPECT_FALSE(status.ok()) << words;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  };
  using Options = Strategy::MultiWorkerOptions;
  refuse([](Options& o) { o.bucket_bytes = 0; }, "buckets of 0 bytes");
  refuse([](Options& o) { o.first_bucket_bytes = -1; }, "the first of -1");
  refuse([](Options& o) { o.transport = "pigeon"; }, "'pigeon'");
  refuse([](Options& o) { o.replicas = -1; }, "-1 replicas");
  refuse([](Options& o) { o.virtual_replicas = 1; }, "virtual_replicas");
  refuse([](Options& o) { o.collective_timeout = absl::ZeroDuration(); }, "collective");
}

TEST(Runner, IsForABuilderOfItsOwnStrategy) {
  const auto mirrored = Strategy::Mirrored({.replicas = 2});
  const auto other = Strategy::Mirrored({.replicas = 3});
  ASSERT_TRUE(mirrored.ok() && other.ok());
  const auto builder = (*mirrored)->NewBuilder();
  ASSERT_TRUE(builder.ok()) << builder.status();
  EXPECT_TRUE((*mirrored)->NewRunner(**builder).ok());
  const absl::Status status = (*other)->NewRunner(**builder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "another strategy")) << status;
}

}  // namespace
}  // namespace tandem
