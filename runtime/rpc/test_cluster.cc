#include "runtime/rpc/test_cluster.h"

#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/graph/export.h"
#include "core/tensor/tensor_proto.h"
#include "gtest/gtest.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/status_on_wire.h"

namespace tandem {

std::unique_ptr<grpc::ClientContext> TestContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120)));
  return context;
}

namespace {

// The same tests are to hold whichever way values go: "auto", "all" or "off".
absl::string_view WantedTransfers() {
  const char* const transfers = std::getenv("TANDEM_TEST_HOST_TRANSFERS");
  return transfers == nullptr ? "auto" : transfers;
}

}  // namespace

RemoteSessionOptions TestSessionOptions() {
  RemoteSessionOptions options;
  if (WantedTransfers() == "off") options.host_transfers = HostTransfers::kOff;
  if (WantedTransfers() == "all") {
    options.least_host_transfer_bytes = 1;
    options.host_transfer_wait = absl::Seconds(60);
  }
  return options;
}

const std::string& TestCluster::Host() {
  // Chosen at random, since the numbers of processes are small ones in a sandbox; and other ports
  // for each cluster of a process.
  static const std::string host = [] {
    std::random_device random;
    return absl::StrCat("127.", 16 + random() % 200, ".", random() % 256, ".", 1 + random() % 254);
  }();
  return host;
}

TestCluster::TestCluster(const std::map<std::string, int>& jobs) {
  // A server that a test binds to all interfaces takes its port from the clusters of all other
  // processes, too. Below the ports that the system gives to clients.
  static int next_port = [] {
    std::random_device random;
    return 20'000 + static_cast<int>(random() % 10'000);
  }();
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) {
      config_.jobs[job][i] = absl::StrCat(Host(), ":", next_port++);
    }
  }
  if (WantedTransfers() == "off") options_.host_transfers = HostTransfers::kOff;
  if (WantedTransfers() == "all") options_.least_host_transfer_bytes = 1;
}

void TestCluster::Start(const TaskId& task, absl::Duration start_timeout) {
  Stop(task);
  ServerOptions options = options_;
  options.config = config_;
  options.task = task;
  options.devices = "CPU:1";
  options.start_timeout = start_timeout;
  auto server = Server::Create(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status started = (*server)->Start();
  ASSERT_TRUE(started.ok()) << started;
  servers_[task.ToString()] = *std::move(server);
}

void TestCluster::StartAll() {
  for (const auto& [job, tasks] : config_.jobs) {
    for (const auto& [index, address] : tasks) Start({job, index});
  }
}

void TestCluster::Stop(const TaskId& task) { servers_.erase(task.ToString()); }

TestClient::TestClient(const std::string& address)
    : stub_(tensorflow::MasterService::NewStub(ConnectToServer(address))) {}

grpc::Status TestClient::Create(const Scope& scope, const tensorflow::ConfigProto& config) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  const absl::StatusOr<tensorflow::GraphDef> def = ExportGraphDef(*scope.graph());
  EXPECT_TRUE(def.ok()) << def.status();
  tensorflow::CreateSessionRequest request;
  *request.mutable_graph_def() = *def;
  *request.mutable_config() = config;
  tensorflow::CreateSessionResponse response;
  const grpc::Status status = stub_->CreateSession(TestContext().get(), request, &response);
  handle_ = response.session_handle();
  return status;
}

tensorflow::RunStepRequest TestClient::Step(const std::vector<std::string>& fetches,
                                            const std::vector<std::string>& targets) const {
  tensorflow::RunStepRequest request;
  request.set_session_handle(handle_);
  request.set_store_errors_in_response_body(true);
  for (const std::string& fetch : fetches) request.add_fetch(fetch);
  for (const std::string& target : targets) request.add_target(target);
  return request;
}

absl::Status TestClient::Run(const tensorflow::RunStepRequest& request,
                             tensorflow::RunStepResponse* response, grpc::ClientContext* context) {
  const grpc::Status status = stub_->RunStep(context, request, response);
  if (!status.ok()) return FromGrpc(status);
  return absl::Status(static_cast<absl::StatusCode>(response->status_code()),
                      response->status_error_message());
}

namespace {

void AddFeeds(const std::vector<std::pair<std::string, Tensor>>& feeds,
              tensorflow::RunStepRequest* request) {
  for (const auto& [name, value] : feeds) {
    auto* const feed = request->add_feed();
    feed->set_name(name);
    EXPECT_TRUE(TensorToProto(value, feed->mutable_tensor(), TensorProtoForm::kContent).ok());
  }
}

}  // namespace

absl::StatusOr<Tensor> TestClient::Fetch(const std::string& name,
                                         const std::vector<std::pair<std::string, Tensor>>& feeds) {
  tensorflow::RunStepRequest request = Step({name});
  AddFeeds(feeds, &request);
  tensorflow::RunStepResponse response;
  const absl::Status status = Run(request, &response);
  if (!status.ok()) return status;
  EXPECT_EQ(response.tensor_size(), 1);
  return TensorFromProto(response.tensor(0).tensor());
}

absl::Status TestClient::RunTarget(const std::string& name,
                                   const std::vector<std::pair<std::string, Tensor>>& feeds) {
  tensorflow::RunStepRequest request = Step({}, {name});
  AddFeeds(feeds, &request);
  tensorflow::RunStepResponse response;
  return Run(request, &response);
}

void TestClient::Close() {
  tensorflow::CloseSessionRequest request;
  request.set_session_handle(handle_);
  tensorflow::CloseSessionResponse response;
  const grpc::Status status = stub_->CloseSession(TestContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace tandem
