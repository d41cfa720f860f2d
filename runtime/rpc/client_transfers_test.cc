// Values that a client and its server of one host hand each other through shared memory. That steps
// are the same whichever way values go is shown by remote_session_test, which is run with each.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/tensor/tensor_proto.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/host_transfer.grpc.pb.h"
#include "proto/step_extras.pb.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/step_messages.h"
#include "runtime/rpc/test_certificates.h"
#include "runtime/rpc/test_cluster.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};
constexpr int64_t kLarge = 100'000;  // Elements.

// Counts the lines of the log that tell of values that came through shared memory.
class SharedMemoryLines {
 public:
  SharedMemoryLines()
      : before_(SetLogSink([this](LogSeverity, absl::string_view text) {
          if (!absl::StrContains(text, "come through shared memory")) return;
          MutexLock lock(mu_);
          ++count_;
        })) {
    SetLogLevel(LogSeverity::kInfo);
  }
  ~SharedMemoryLines() { SetLogSink(before_); }

  int count() const {
    MutexLock lock(mu_);
    return count_;
  }

 private:
  mutable Mutex mu_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  const LogSink before_;
};

Tensor Numbered(int64_t size, float first) {
  Tensor value(kFloat32, Shape({size}));
  std::iota(value.MutableElements<float>().begin(), value.MutableElements<float>().end(), first);
  return value;
}

void ExpectNumbered(const Tensor& value, int64_t size, float first) {
  ASSERT_EQ(value.shape(), Shape({size}));
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_EQ(value.Elements<float>()[static_cast<size_t>(i)], first + static_cast<float>(i));
  }
}

// "y" is x + 1; "keep" has the variable keep x, and "kept" reads it.
Scope Keeper() {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  const Output v = s.WithOpName("v").Call(
      "VarHandleOp", {},
      {{"dtype", kFloat32}, {"shape", PartialShape({-1})}, {"shared_name", std::string("v")}});
  s.WithOpName("keep").AddNode("AssignVariableOp", {v, x});
  s.WithOpName("add").AddNode("AssignAddVariableOp", {v, x});
  s.WithOpName("kept").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  return s;
}

class ClientTransfersTest : public ::testing::Test {
 protected:
  // Of one task, which has no other to hand values to.
  ClientTransfersTest() : cluster_({{"worker", 1}}) {}

  std::string target() const { return absl::StrCat("grpc://", cluster_.address(kWorker)); }

  // A session whose values go through shared memory from the first step on, if they can.
  std::unique_ptr<Session> Connect(RemoteSessionOptions options = {}) {
    const Scope s = Keeper();
    EXPECT_TRUE(s.ok()) << s.status();
    options.start_timeout = absl::Seconds(60);
    if (options.host_transfer_wait == absl::ZeroDuration()) {
      options.host_transfer_wait = absl::Seconds(60);
    }
    auto session = ConnectSession(target(), *s.graph(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  static absl::StatusOr<Tensor> Fetch(Session& session, const std::string& name,
                                      const Session::Feeds& feeds = {}) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session.Run(feeds, {name}));
    return results[0];
  }
  static void Step(Session& session, int64_t size, float first) {
    const auto y = Fetch(session, "y", {{"x", Numbered(size, first)}});
    ASSERT_TRUE(y.ok()) << y.status();
    ExpectNumbered(*y, size, first + 1);
  }

  TestCluster cluster_;
};

TEST_F(ClientTransfersTest, LargeValuesGoThroughSharedMemoryAndSmallOnesDoNot) {
  const SharedMemoryLines lines;
  cluster_.Start(kWorker);
  const auto session = Connect();
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 20; ++i) Step(*session, 1000, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 0);
  Step(*session, kLarge, 3);
  EXPECT_EQ(lines.count(), 1);
  for (int i = 0; i < 20; ++i) Step(*session, 10'000 + 1000 * i, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 1);
}

TEST_F(ClientTransfersTest, WithoutAskingForItTheyDoSoonAfterTheFirst) {
  const SharedMemoryLines lines;
  cluster_.Start(kWorker);
  RemoteSessionOptions options;
  options.host_transfer_wait = -absl::Seconds(1);  // Does not wait.
  for (const bool feeds : {true, false}) {
    const int before = lines.count();
    const auto session = Connect(options);
    ASSERT_NE(session, nullptr);
    const Tensor value = Numbered(kLarge, 3);
    ASSERT_TRUE(session->Run({{"x", value}}, {}, {"keep"}).ok());
    const auto other = Connect(options);
    ASSERT_NE(other, nullptr);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (lines.count() == before && absl::Now() < deadline) {
      if (feeds) {
        ASSERT_TRUE(session->Run({{"x", value}}, {}, {"keep"}).ok());
      } else {
        const auto kept = Fetch(*other, "kept");
        ASSERT_TRUE(kept.ok()) << kept.status();
        ExpectNumbered(*kept, kLarge, 3);
      }
    }
    EXPECT_EQ(lines.count(), before + 1);
  }
}

TEST_F(ClientTransfersTest, NothingIsLentWhereOneEndDoesNotWantTo) {
  const SharedMemoryLines lines;
  cluster_.options().host_transfers = HostTransfers::kOff;
  cluster_.Start(kWorker);
  auto session = Connect();
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 10; ++i) Step(*session, kLarge, static_cast<float>(i));
  session.reset();
  cluster_.options().host_transfers = HostTransfers::kAuto;
  cluster_.Start(kWorker);
  RemoteSessionOptions options;
  options.host_transfers = HostTransfers::kOff;
  session = Connect(options);
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 10; ++i) Step(*session, kLarge, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 0);
}

TEST_F(ClientTransfersTest, WithTlsValuesGoInMessages) {
  const SharedMemoryLines lines;
  const TestAuthority authority;
  const TestAuthority::Identity identity = authority.Issue(TestCluster::Host());
  const Security security = {identity.certificate, identity.key, authority.certificate(), ""};
  cluster_.options().security = security;
  cluster_.Start(kWorker);
  RemoteSessionOptions options;
  options.security = security;
  const auto session = Connect(options);
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 10; ++i) Step(*session, kLarge, static_cast<float>(i));
  EXPECT_EQ(lines.count(), 0);
  // Nor does the server tell anybody how.
  host_transfers::IntroduceResponse response;
  const grpc::Status status =
      host_transfers::HostTransferService::NewStub(
          ConnectToServer(cluster_.address(kWorker), security))
          ->Introduce(TestContext().get(), host_transfers::IntroduceRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

TEST_F(ClientTransfersTest, AResultThatIsKeptIsNotWrittenOver) {
  const SharedMemoryLines lines;
  cluster_.Start(kWorker);
  auto session = Connect();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->Run({{"x", Numbered(kLarge, 5)}}, {}, {"keep"}).ok());
  std::vector<Tensor> kept;
  for (int i = 0; i < 4; ++i) {
    auto value = Fetch(*session, "kept");
    ASSERT_TRUE(value.ok()) << value.status();
    kept.push_back(*std::move(value));
    ASSERT_TRUE(session->Run({{"x", Numbered(kLarge, 0)}}, {}, {"add"}).ok());
  }
  EXPECT_EQ(lines.count(), 1);
  // The variable has gone on; the client may write to what it has.
  kept[1].MutableElements<float>()[0] = -1;
  session.reset();
  cluster_.Stop(kWorker);
  ExpectNumbered(kept[0], kLarge, 5);
  for (int i = 1; i < 4; ++i) {
    const auto elements = kept[static_cast<size_t>(i)].Elements<float>();
    EXPECT_EQ(elements[0], i == 1 ? -1 : 5);
    EXPECT_EQ(elements[kLarge - 1], static_cast<float>((i + 1) * (kLarge - 1) + 5));
  }
}

TEST_F(ClientTransfersTest, AFeedThatAVariableKeepsIsNotWrittenOver) {
  const SharedMemoryLines lines;
  cluster_.Start(kWorker);
  auto session = Connect();
  ASSERT_NE(session, nullptr);
  // The variable takes the memory that was lent, for as long as it wants.
  ASSERT_TRUE(session->Run({{"x", Numbered(kLarge, 5)}}, {}, {"keep"}).ok());
  EXPECT_EQ(lines.count(), 1);
  for (int i = 0; i < 10; ++i) Step(*session, kLarge, static_cast<float>(i));
  auto kept = Fetch(*session, "kept");
  ASSERT_TRUE(kept.ok()) << kept.status();
  ExpectNumbered(*kept, kLarge, 5);
  // Also when the client that lent it is gone.
  session.reset();
  session = Connect();
  ASSERT_NE(session, nullptr);
  for (int i = 0; i < 10; ++i) Step(*session, kLarge, static_cast<float>(i));
  kept = Fetch(*session, "kept");
  ASSERT_TRUE(kept.ok()) << kept.status();
  ExpectNumbered(*kept, kLarge, 5);
}

TEST_F(ClientTransfersTest, AServerThatComesBackLendsAgain) {
  const SharedMemoryLines lines;
  for (int lives = 0; lives < 3; ++lives) {
    cluster_.Start(kWorker);
    const auto session = Connect();
    ASSERT_NE(session, nullptr);
    Step(*session, kLarge, 1);
    EXPECT_EQ(lines.count(), lives + 1);
    cluster_.Stop(kWorker);
    // Not as if the values were missing.
    const auto lost = Fetch(*session, "y", {{"x", Numbered(kLarge, 1)}});
    EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnavailable) << lost.status();
  }
}

TEST_F(ClientTransfersTest, ManyThreadsAndSessionsBorrowAtOnce) {
  cluster_.Start(kWorker);
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&, c] {
      const auto session = Connect();
      ASSERT_NE(session, nullptr);
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < 20; ++i) {
            Step(*session, 9'000 + 500 * i, static_cast<float>(10 * c + t));
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(ClientTransfersTest, WhatComesThroughSharedMemoryCountsForTheLimits) {
  cluster_.options().limits.request_tensor_bytes = 1'000'000;
  cluster_.Start(kWorker);
  const auto session = Connect();
  ASSERT_NE(session, nullptr);
  Step(*session, 200'000, 1);
  const auto refused = Fetch(*session, "y", {{"x", Numbered(300'000, 1)}});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "--max_request_tensor_bytes"))
      << refused.status();
  Step(*session, 200'000, 1);
}

// Speaks the protocol as a client that may say what it likes.
class BareClient : public ClientTransfersTest {
 protected:
  void SetUp() override {
    cluster_.Start(kWorker);
    channel_ = ConnectToServer(cluster_.address(kWorker));
    client_ = std::make_unique<TestClient>(cluster_.address(kWorker));
    ASSERT_TRUE(client_->Create(Keeper()).ok());
    host_transfers::IntroduceResponse server;
    ASSERT_TRUE(host_transfers::HostTransferService::NewStub(channel_)
                    ->Introduce(TestContext().get(), host_transfers::IntroduceRequest(), &server)
                    .ok());
    EXPECT_TRUE(server.serves_clients());
    auto endpoint = SharedMemoryEndpoint::Create();
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
    lender_ = *endpoint_->ConnectToOffer(server.socket_name(), server.secret());
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!lender_->takes_offers() && absl::Now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(lender_->takes_offers());
  }

  static absl::Span<const char> BytesOf(const Tensor& value) {
    return {static_cast<const char*>(value.data()), value.num_bytes()};
  }
  std::string Name() const { return std::string(shared_memory::View(lender_->connection())); }

  struct Answer {
    absl::Status status;
    tensorflow::RunStepResponse rest;
    step_extras::Response extras;
    std::vector<ReadTensor> results;
  };
  // A step that fetches y with the tensor as x, of which the message has the type and shape.
  Answer Run(const Tensor& x, const step_extras::Request& extras, bool is_lent = true) {
    absl::StatusOr<grpc::ByteBuffer> request = EncodeStepMessage(
        client_->Step({"y:0"}), kRunStepFeeds, "feed", {{"x:0", x, is_lent}}, &extras);
    Answer answer;
    if (!request.ok()) {
      answer.status = request.status();
      return answer;
    }
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto context = TestContext();
    Event done;
    grpc::GenericStub(channel_).UnaryCall(context.get(), "/tensorflow.MasterService/RunStep",
                                          grpc::StubOptions(), &*request, &response,
                                          [&](const grpc::Status& ended) {
                                            status = ended;
                                            done.Set();
                                          });
    done.Wait();
    if (!status.ok()) {
      answer.status =
          absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
      return answer;
    }
    auto results = DecodeStepMessage(&response, kRunStepResults, size_t{1} << 30, &answer.rest,
                                     &answer.extras);
    EXPECT_TRUE(results.ok()) << results.status();
    answer.results = *std::move(results);
    answer.status = absl::Status(static_cast<absl::StatusCode>(answer.rest.status_code()),
                                 answer.rest.status_error_message());
    return answer;
  }

  step_extras::Request Offering(const SegmentLender::Offered& offered, const Tensor& x) const {
    step_extras::Request extras;
    extras.set_offers(Name());
    step_extras::LentTensor* const feed = extras.add_feed();
    feed->set_row(offered.ticket().row);
    feed->set_number(offered.ticket().number);
    feed->set_segment(offered.segment());
    feed->set_bytes(x.num_bytes());
    return extras;
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<TestClient> client_;
  std::unique_ptr<SharedMemoryEndpoint> endpoint_;
  std::shared_ptr<SegmentLender> lender_;
};

TEST_F(BareClient, AFeedThatIsNotThereIsAskedForAgain) {
  const Tensor x = Numbered(kLarge, 1);
  absl::optional<SegmentLender::Offered> offered = lender_->Offer(BytesOf(x));
  ASSERT_TRUE(offered.has_value());
  step_extras::Request extras = Offering(*offered, x);
  // By another name.
  extras.set_offers(std::string(shared_memory::kSecretBytes, 'n'));
  Answer answer = Run(x, extras);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_TRUE(answer.extras.wants_feeds_again());
  EXPECT_TRUE(answer.results.empty());
  // As it should be: the feed is taken. The result is in the message, since nothing else was asked.
  extras.set_offers(Name());
  answer = Run(x, extras);
  EXPECT_FALSE(answer.extras.wants_feeds_again());
  ASSERT_EQ(answer.results.size(), 1u) << answer.status;
  ExpectNumbered(answer.results[0].value, kLarge, 2);
  // Twice.
  answer = Run(x, extras);
  EXPECT_TRUE(answer.extras.wants_feeds_again()) << answer.status;
  // When it was withdrawn.
  offered = lender_->Offer(BytesOf(x));
  ASSERT_TRUE(offered.has_value());
  extras = Offering(*offered, x);
  offered.reset();
  answer = Run(x, extras);
  EXPECT_TRUE(answer.extras.wants_feeds_again()) << answer.status;
}

TEST_F(BareClient, OffersThatCannotBeTrueAreRefused) {
  const Tensor x = Numbered(kLarge, 1);
  const auto refused = [&](auto change, const Tensor& said, bool is_lent = true) {
    const absl::optional<SegmentLender::Offered> offered = lender_->Offer(BytesOf(x));
    EXPECT_TRUE(offered.has_value());
    step_extras::Request extras = Offering(*offered, x);
    change(extras);
    const Answer answer = Run(said, extras, is_lent);
    EXPECT_FALSE(answer.extras.wants_feeds_again());
    return absl::IsInvalidArgument(answer.status);
  };
  const auto nothing = [](step_extras::Request&) {};
  EXPECT_FALSE(refused(nothing, x));
  EXPECT_TRUE(refused([](auto& extras) { extras.mutable_feed(0)->set_index(1); }, x));
  EXPECT_TRUE(refused([](auto& extras) { extras.mutable_feed(0)->set_index(~0u); }, x));
  EXPECT_TRUE(refused([](auto& extras) { extras.mutable_feed(0)->set_bytes(4); }, x));
  EXPECT_TRUE(refused([](auto& extras) { *extras.add_feed() = extras.feed(0); }, x));
  EXPECT_TRUE(refused(nothing, Numbered(kLarge, 1), /*is_lent=*/false));
  EXPECT_TRUE(refused(nothing, Tensor(kString, Shape({kLarge}))));
  EXPECT_TRUE(refused(nothing, Tensor(kBool, Shape({kLarge * 4}))));
  EXPECT_TRUE(refused(nothing, Numbered(kLarge + 1, 1)));
  // And all is as before.
  EXPECT_FALSE(refused(nothing, x));
}

TEST_F(BareClient, MoreThanWasOfferedEndsTheConnectionAlone) {
  const Tensor x = Numbered(1 << 20, 1);
  const absl::optional<SegmentLender::Offered> offered = lender_->Offer(BytesOf(Numbered(100, 1)));
  ASSERT_TRUE(offered.has_value());
  EXPECT_TRUE(Run(x, Offering(*offered, x)).extras.wants_feeds_again());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (lender_->takes_offers() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(lender_->takes_offers());
  const Answer answer = Run(x, {}, /*is_lent=*/false);
  ASSERT_EQ(answer.results.size(), 1u) << answer.status;
  ExpectNumbered(answer.results[0].value, 1 << 20, 2);
}

TEST_F(BareClient, ResultsAreLentToWhoHasAConnectionAlone) {
  const Tensor x = Numbered(kLarge, 1);
  step_extras::Request extras;
  extras.set_borrows(std::string(shared_memory::kSecretBytes, 'n'));
  for (uint32_t i = 0; i < 3; ++i) {
    extras.add_row(i == 2 ? ~0u : i);
    extras.add_number(1);
  }
  const Answer answer = Run(x, extras, /*is_lent=*/false);
  EXPECT_TRUE(answer.extras.result().empty());
  ASSERT_EQ(answer.results.size(), 1u) << answer.status;
  ExpectNumbered(answer.results[0].value, kLarge, 2);
}

// How much of this process's memory is shared with others as values.
int64_t ValueBytesMapped() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  std::string line;
  while (std::getline(maps, line)) {
    if (!absl::StrContains(line, "memfd:tandem-value")) continue;
    char* end = nullptr;
    const unsigned long long from = std::strtoull(line.c_str(), &end, 16);
    bytes += static_cast<int64_t>(std::strtoull(end + 1, nullptr, 16) - from);
  }
  return bytes;
}

constexpr char kTargetVariable[] = "TANDEM_TEST_TARGET";

// The client of the next test, in a process of its own: keeps what it was lent until it dies.
TEST_F(ClientTransfersTest, DISABLED_AClientThatKeepsResults) {
  const char* const target = std::getenv(kTargetVariable);
  ASSERT_NE(target, nullptr);
  const SharedMemoryLines lines;
  RemoteSessionOptions options;
  options.host_transfer_wait = absl::Seconds(60);
  const Scope s = Keeper();
  const auto session = ConnectSession(target, *s.graph(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor x = Numbered(1 << 20, 7);
  ASSERT_TRUE((*session)->Run({{"x", x}}, {}, {"keep"}).ok());
  std::vector<Tensor> kept;
  for (int i = 0; i < 4; ++i) {
    const auto value = Fetch(**session, "kept");
    ASSERT_TRUE(value.ok()) << value.status();
    kept.push_back(*value);
  }
  ASSERT_EQ(lines.count(), 1);
  ASSERT_EQ(write(STDOUT_FILENO, "kept\n", 5), 5);
  for (;;) pause();
}

TEST_F(ClientTransfersTest, AClientThatIsKilledKeepsNothing) {
  ASSERT_EQ(setenv(kTargetVariable, target().c_str(), 1), 0);
  cluster_.Start(kWorker);
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(pipe_fds[1], STDOUT_FILENO);
    execl("/proc/self/exe", "client", "--gtest_also_run_disabled_tests",
          "--gtest_filter=ClientTransfersTest.DISABLED_AClientThatKeepsResults", nullptr);
    _exit(127);
  }
  close(pipe_fds[1]);
  std::string said;
  char bytes[256];
  for (ssize_t count = 1; count > 0 && !absl::StrContains(said, "kept\n");) {
    count = read(pipe_fds[0], bytes, sizeof(bytes));
    if (count > 0) said.append(bytes, static_cast<size_t>(count));
  }
  close(pipe_fds[0]);
  EXPECT_TRUE(absl::StrContains(said, "kept\n")) << said;
  // Four results that the client has, and the variable's value, which is the client's memory.
  EXPECT_GE(ValueBytesMapped(), 5 * (4 << 20));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  // The server learns of it at once. The value stays, as long as the variable has it.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ValueBytesMapped() >= 2 * (4 << 20) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_LT(ValueBytesMapped(), 2 * (4 << 20));
  const auto session = Connect();
  ASSERT_NE(session, nullptr);
  const auto kept = Fetch(*session, "kept");
  ASSERT_TRUE(kept.ok()) << kept.status();
  ExpectNumbered(*kept, 1 << 20, 7);
}

}  // namespace
}  // namespace tandem
