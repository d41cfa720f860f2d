// Bytes that no client would send: whatever comes, the server answers, and goes on.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/graph/export.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};

class HostileRequestsTest : public ::testing::Test {
 protected:
  HostileRequestsTest() : cluster_({{"worker", 1}}) {
    cluster_.Start(kWorker);
    channel_ = ConnectToServer(cluster_.address(kWorker));
  }

  grpc::Status Call(const std::string& path, const std::string& bytes) {
    grpc::ClientContext context;
    // Some wait, rightly, for what never comes.
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(300)));
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    Event done;
    grpc::GenericStub(channel_).UnaryCall(&context, path, grpc::StubOptions(), &request, &response,
                                          [&](const grpc::Status& ended) {
                                            status = ended;
                                            done.Set();
                                          });
    done.Wait();
    return status;
  }

  void ExpectAlive() {
    tensorflow::GetStatusResponse response;
    const grpc::Status status =
        tensorflow::WorkerService::NewStub(channel_)->GetStatus(TestContext().get(), {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  TestCluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Always the same; others with --gtest_random_seed.
uint32_t Seed() {
  return 17 + static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
}

// One change: a byte, a piece less, or a piece twice.
std::string Mutated(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  const size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, 1 + random() % 8);
      break;
    default:
      bytes.insert(at, bytes.substr(at, 1 + random() % 32));
      break;
  }
  return bytes;
}

TEST_F(HostileRequestsTest, AnyBytesForAnyMethodAreAnswered) {
  std::mt19937 random(Seed());
  for (const char* service : {"MasterService", "WorkerService"}) {
    const auto* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            absl::StrCat("tensorflow.", service));
    ASSERT_NE(descriptor, nullptr);
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const std::string path =
          absl::StrCat("/tensorflow.", service, "/", descriptor->method(i)->name());
      for (int round = 0; round < 6; ++round) {
        std::string bytes(random() % 200, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random());
        const grpc::Status status = Call(path, bytes);
        EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << path;
      }
    }
  }
  ExpectAlive();
}

TEST_F(HostileRequestsTest, GraphsThatWereTamperedWithAreRefusedOrRun) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1, 3})}});
  const Output y = s.WithOpName("y").Call("MatMul", {x, s.Call("Fill", {{3, 4}, 0.5f})});
  s.WithOpName("z").Call("Reshape", {y, {-1}});
  ASSERT_TRUE(s.ok()) << s.status();
  tensorflow::RegisterGraphRequest graph;
  ASSERT_TRUE(ExportGraphDef(*s.graph(), {}, graph.mutable_graph_def()).ok());
  tensorflow::CreateSessionRequest create;
  *create.mutable_graph_def() = graph.graph_def();
  TestClient client(cluster_.address(kWorker));
  ASSERT_TRUE(client.Create(s).ok());
  tensorflow::RunStepRequest run = client.Step({"z:0"});
  auto* const feed = run.add_feed();
  feed->set_name("x:0");
  feed->mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  feed->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(2);
  feed->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(3);
  feed->mutable_tensor()->set_tensor_content(std::string(24, '\1'));
  std::mt19937 random(Seed());
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"/tensorflow.WorkerService/RegisterGraph", graph.SerializeAsString()},
      {"/tensorflow.MasterService/CreateSession", create.SerializeAsString()},
      {"/tensorflow.MasterService/RunStep", run.SerializeAsString()},
  };
  for (const auto& [path, bytes] : messages) {
    for (int round = 0; round < 150; ++round) {
      std::string tampered = bytes;
      for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        tampered = Mutated(tampered, random);
      }
      const grpc::Status status = Call(path, tampered);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << path;
    }
  }
  ExpectAlive();
}

}  // namespace
}  // namespace tandem
