// Which strategy an environment makes, and which wishes are refused.
#include "strategies/strategy.h"

#include <cstdlib>

#include "absl/strings/match.h"
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
    for (const char* name : {"TANDEM_STRATEGY", "TANDEM_DEVICES", "TF_CONFIG"}) unsetenv(name);
  }
};

constexpr char kOneTask[] =
    R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})";
constexpr char kTwoTasks[] =
    R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})";
constexpr char kEvaluator[] =
    R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})";

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
  Set("TANDEM_STRATEGY", "parameter_server");
  const absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "'parameter_server'")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "central_storage")) << status;
}

TEST_F(FromEnvironment, TrainsAloneInAClusterOfOneTaskOnly) {
  Set("TF_CONFIG", kOneTask);
  EXPECT_EQ(Made(), "mirrored of 1 on device:CPU:0");
  for (const char* several : {kTwoTasks, kEvaluator}) {
    Set("TF_CONFIG", several);
    const absl::Status status = Strategy::FromEnvironment().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "2 tasks")) << status;
  }
  Set("TF_CONFIG", "{");
  const absl::Status status = Strategy::FromEnvironment().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "TF_CONFIG")) << status;
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
