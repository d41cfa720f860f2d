#include "runtime/parameter_server/service_client.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

// Counts how often it was asked for each job; answers when it may.
class CountingService final : public ParameterService::Service {
 public:
  grpc::Status GetNote(grpc::ServerContext* context, const GetNoteRequest* request,
                       GetNoteResponse* response) override {
    const std::string job = request->shard().job();
    {
      MutexLock lock(mu_);
      ++counts_[job];
      changed_.NotifyAll();
    }
    if (job == "refused") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no such shard");
    }
    if (job == "busy" && count("busy") < 3) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not yet");
    }
    while (job == "silent" && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(2));
    response->set_note(absl::StrCat("note of ", job));
    return grpc::Status::OK;
  }

  int count(const std::string& job) {
    MutexLock lock(mu_);
    return counts_[job];
  }
  void WaitForCall(const std::string& job) {
    MutexLock lock(mu_);
    while (counts_[job] == 0) changed_.Wait(mu_);
  }
  int total() {
    MutexLock lock(mu_);
    int total = 0;
    for (const auto& [job, count] : counts_) total += count;
    return total;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mu_);
};

class ServiceClientTest : public ::testing::Test {
 protected:
  // On the port that it had before, if it had one.
  void Serve() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void StopServing() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  std::shared_ptr<ServiceClient> Client(const std::string& faults = "") {
    std::shared_ptr<CallFaults> parsed;
    if (!faults.empty()) {
      auto read = CallFaults::Parse(faults);
      EXPECT_TRUE(read.ok()) << read.status();
      parsed = *read;
    }
    auto client = ServiceClient::Create(absl::StrCat("127.0.0.1:", port_), Security(), parsed);
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }
  static ServiceCallOptions Within(absl::Duration time) {
    ServiceCallOptions options;
    options.deadline = absl::Now() + time;
    return options;
  }
  static absl::StatusOr<std::string> Ask(ServiceClient& client, const std::string& job,
                                         const ServiceCallOptions& options) {
    GetNoteRequest request;
    *request.mutable_shard() = KeyOf(job, 0);
    GetNoteResponse response;
    TANDEM_RETURN_IF_ERROR(client.CallAndWait("GetNote", request, options, &response));
    return response.note();
  }

  int port_ = 0;
  CountingService service_;
  std::unique_ptr<grpc::Server> server_;
};

constexpr absl::Duration kLong = absl::Seconds(60);

TEST_F(ServiceClientTest, AServerThatComesLaterAnswers) {
  Serve();
  StopServing();
  const auto client = Client();
  std::thread asks([&] {
    const auto note = Ask(*client, "a", Within(kLong));
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_EQ(*note, "note of a");
  });
  // It has failed at least once by then, or has not begun: both must end well.
  absl::SleepFor(absl::Milliseconds(20));
  Serve();
  asks.join();
  EXPECT_EQ(service_.count("a"), 1);
  // And again after it was away.
  StopServing();
  Serve();
  EXPECT_TRUE(Ask(*client, "a", Within(kLong)).ok());
}

TEST_F(ServiceClientTest, UnavailableIsAskedAgain) {
  Serve();
  const auto client = Client();
  const auto note = Ask(*client, "busy", Within(kLong));
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(service_.count("busy"), 3);
}

TEST_F(ServiceClientTest, OtherErrorsAreNot) {
  Serve();
  const auto client = Client();
  const absl::Status status = Ask(*client, "refused", Within(kLong)).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), client->address())) << status;
  EXPECT_EQ(service_.count("refused"), 1);
}

TEST_F(ServiceClientTest, WhoCannotBeReachedIsNamed) {
  Serve();
  StopServing();
  const auto client = Client();
  for (const bool once : {false, true}) {
    ServiceCallOptions options = Within(once ? kLong : absl::Milliseconds(1500));
    options.once = once;
    const absl::Status status = Ask(*client, "a", options).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), client->address())) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "GetNote")) << status;
  }
}

TEST_F(ServiceClientTest, WhoDoesNotAnswerIsNamed) {
  Serve();
  const auto client = Client();
  const absl::Status status = Ask(*client, "silent", Within(absl::Milliseconds(300))).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), client->address())) << status;
  StopServing();
}

TEST_F(ServiceClientTest, ACancelledCallEndsWithTheReason) {
  Serve();
  const auto client = Client();
  for (int i = 0; i < 20; ++i) {
    CancellationManager cancellation;
    ServiceCallOptions options = Within(kLong);
    options.cancellation = &cancellation;
    std::thread cancels([&] {
      if (i % 2 == 0) service_.WaitForCall("silent");
      cancellation.Cancel(errors::Aborted("enough"));
    });
    EXPECT_EQ(Ask(*client, "silent", options).status(), absl::AbortedError("enough"));
    cancels.join();
  }
  // In the pauses, too.
  StopServing();
  for (int i = 0; i < 20; ++i) {
    CancellationManager cancellation;
    ServiceCallOptions options = Within(kLong);
    options.cancellation = &cancellation;
    std::thread cancels([&] {
      absl::SleepFor(absl::Milliseconds(i));
      cancellation.Cancel(errors::Aborted("enough"));
    });
    EXPECT_EQ(Ask(*client, "a", options).status(), absl::AbortedError("enough"));
    cancels.join();
  }
}

TEST_F(ServiceClientTest, ItEndsItsCallsWhenItGoes) {
  Serve();
  for (const bool reaches : {true, false}) {
    if (!reaches) StopServing();
    auto client = Client();
    Event ended;
    GetNoteRequest request;
    *request.mutable_shard() = KeyOf("silent", 0);
    client->Call("GetNote", WholeMessage(request), Within(kLong),
                 [&](const absl::StatusOr<grpc::ByteBuffer>& answer) {
                   EXPECT_FALSE(answer.ok());
                   ended.Set();
                 });
    client.reset();
    EXPECT_TRUE(ended.IsSet());
  }
}

TEST_F(ServiceClientTest, LostAndDoubledCallsAllGetTheirAnswers) {
  Serve();
  const auto client = Client("lose=0.4,double=0.4,seed=7");
  constexpr int kThreads = 4;
  constexpr int kCalls = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string job = absl::StrCat("job-", t, "-", i);
        const auto note = Ask(*client, job, Within(kLong));
        ASSERT_TRUE(note.ok()) << note.status();
        EXPECT_EQ(*note, absl::StrCat("note of ", job));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_GE(service_.count(absl::StrCat("job-", t, "-", i)), 1);
    }
  }
  // Answers that were lost, and calls that came twice.
  EXPECT_GT(service_.total(), kThreads * kCalls);
}

TEST_F(ServiceClientTest, FaultsAreThoseThatTheTextSays) {
  const auto never = *CallFaults::Parse("seed=3");
  const auto always = *CallFaults::Parse("lose=1,method=Call");
  const auto twice = *CallFaults::Parse("double=1");
  int requests = 0;
  for (int i = 0; i < 100; ++i) {
    const CallFaults::Decision none = never->Next("Call");
    EXPECT_FALSE(none.loses_request || none.loses_answer || none.comes_twice);
    const CallFaults::Decision lost = always->Next("Call");
    EXPECT_NE(lost.loses_request, lost.loses_answer);
    requests += lost.loses_request;
    const CallFaults::Decision other = always->Next("Define");
    EXPECT_FALSE(other.loses_request || other.loses_answer || other.comes_twice);
    EXPECT_TRUE(twice->Next("Read").comes_twice);
  }
  EXPECT_GT(requests, 20);
  EXPECT_LT(requests, 80);
  EXPECT_EQ(always->count(), 100);
  for (const char* wrong :
       {"lose", "lose=2", "lose=-1", "double=x", "seed=y", "loose=0.1", "method=", "lose=nan"}) {
    const absl::Status status = CallFaults::Parse(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong << ": " << status;
  }
}

TEST_F(ServiceClientTest, AnAddressIsAHostAndAPort) {
  for (const char* wrong : {"", "host", "host:", ":1", "host:70000"}) {
    const absl::Status status = ServiceClient::Create(wrong, Security(), nullptr).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong << ": " << status;
  }
}

}  // namespace
}  // namespace tandem::parameter_server
