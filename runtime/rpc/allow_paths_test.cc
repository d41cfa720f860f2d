// Which files the graphs of a server's clients may touch.
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

using absl::StatusCode;

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

class AllowPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/allow_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_EQ(mkdir(absl::StrCat(folder_, "/in").c_str(), 0700), 0);
    ASSERT_EQ(symlink("..", absl::StrCat(folder_, "/in/up").c_str()), 0);
  }

  void Serve(absl::optional<std::vector<std::string>> allow_paths, const std::string& bind = "") {
    cluster_.options().allow_paths = std::move(allow_paths);
    cluster_.options().bind = bind;
    cluster_.options().insecure = !bind.empty();
    cluster_.StartAll();
  }

  // Saves a value under a prefix in the folder, and restores it, in the task `device` names.
  absl::Status SaveAndRestore(const std::string& prefix, const std::string& device = "",
                              bool is_isolated = false) {
    Scope s = Scope::NewRoot().WithDevice(device);
    const Tensor file = Tensor::Scalar<std::string>(absl::StrCat(folder_, "/", prefix));
    const Tensor names = Tensor::Vector<std::string>({"x"});
    const Tensor slices = Tensor::Vector<std::string>({""});
    const std::vector<DataType> types = {kFloat32};
    s.WithOpName("save").AddNode("SaveV2", {file, names, slices, 5.0f}, {{"dtypes", types}});
    s.WithOpName("restore").Call("RestoreV2", {file, names, slices}, {{"dtypes", types}});
    TestClient client(cluster_.address(kWorker));
    tensorflow::ConfigProto config;
    config.set_isolate_session_state(is_isolated);
    const grpc::Status created = client.Create(s, config);
    EXPECT_TRUE(created.ok()) << created.error_message();
    const absl::Status saved = client.RunTarget("save");
    const absl::StatusOr<Tensor> restored = client.Fetch("restore:0");
    if (!saved.ok()) {
      EXPECT_FALSE(restored.ok());
      return saved;
    }
    if (restored.ok()) {
      EXPECT_EQ(restored->ScalarValue<float>(), 5);
    }
    return restored.status();
  }

  TestCluster cluster_{{{"worker", 1}, {"ps", 1}}};
  std::string folder_;
};

TEST_F(AllowPathsTest, OnLoopbackEveryFileOfTheUserIs) {
  Serve(absl::nullopt);
  const absl::Status status = SaveAndRestore("model");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(AllowPathsTest, WhereOthersReachTheServerNoneIs) {
  Serve(absl::nullopt, "0.0.0.0");
  for (const bool is_isolated : {false, true}) {
    const absl::Status status = SaveAndRestore("model", "", is_isolated);
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "--allow_paths")) << status;
  }
  EXPECT_EQ(SaveAndRestore("model", "/job:ps").code(), StatusCode::kPermissionDenied);
}

TEST_F(AllowPathsTest, FoldersThatAreNamedAreAllowedAndLinksDoNotLeadOut) {
  for (const char* bind : {"", "0.0.0.0"}) {
    Serve(std::vector<std::string>{absl::StrCat(folder_, "/in")}, bind);
    for (const char* device : {"", "/job:ps"}) {
      const absl::Status status = SaveAndRestore("in/model", device);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(SaveAndRestore("model", device).code(), StatusCode::kPermissionDenied);
      EXPECT_EQ(SaveAndRestore("in/../model", device).code(), StatusCode::kPermissionDenied);
      EXPECT_EQ(SaveAndRestore("in/up/model", device).code(), StatusCode::kPermissionDenied);
    }
  }
}

TEST(AllowPaths, AFolderThatIsNotThereIsAnError) {
  ServerOptions options;
  options.config = *ParseClusterConfig(R"({"worker": ["localhost:0"]})");
  options.task = kWorker;
  options.devices = "CPU:1";
  options.allow_paths = {{"/nowhere/at/all"}};
  const absl::Status status = Server::Create(options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "--allow_paths")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "/nowhere/at/all")) << status;
}

}  // namespace
}  // namespace tandem
