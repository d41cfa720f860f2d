// The C++ client against a server of one task and a cluster of two, by the interface of a session.
#include "runtime/rpc/remote_session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/rpc/accept_loop.h"
#include "runtime/rpc/listen_address.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

class RemoteSessionTest : public ::testing::Test {
 protected:
  RemoteSessionTest() : cluster_({{"worker", 1}, {"ps", 1}}) { cluster_.StartAll(); }

  std::string target() const { return absl::StrCat("grpc://", cluster_.address(kWorker)); }
  std::unique_ptr<Session> Connect(const Scope& scope) {
    EXPECT_TRUE(scope.ok()) << scope.status();
    auto session = ConnectSession(target(), *scope.graph(), TestSessionOptions());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  TestCluster cluster_;
};

Tensor Number(float value) { return Tensor::Scalar<float>(value); }

TEST_F(RemoteSessionTest, RunsLikeALocalOne) {
  Scope s = Scope::NewRoot();
  const Output x = Placeholder(s, "x");
  s.WithDevice("/job:ps").WithOpName("y").Call("Mul", {x, 2.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  // Fetches may repeat, and leave out the number of the output.
  auto results = session->Run({{"x", Number(4)}}, {"y", "x:0", "y"});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<float>(), 8);
  EXPECT_EQ((*results)[1].ScalarValue<float>(), 4);
  EXPECT_EQ((*results)[2].ScalarValue<float>(), 8);
  ASSERT_TRUE(session
                  ->Extend([](Graph& graph) {
                    Scope more = Scope::ForGraph(&graph);
                    more.WithOpName("z").Call("Neg", {Output(graph.FindNode("y"), 0)});
                    return more.status();
                  })
                  .ok());
  const auto callable = session->MakeCallable({{"x:0"}, {"z:0"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  results = (*callable)->Run({Number(3)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].ScalarValue<float>(), -6);
  RunMetadata metadata;
  RunOptions traced;
  traced.trace = true;
  ASSERT_TRUE(session->Run(traced, {{"x", Number(1)}}, {"z"}, {}, &metadata).ok());
  EXPECT_FALSE(metadata.events.empty());
}

TEST_F(RemoteSessionTest, ErrorsHaveTheServersCodesAndWords) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->Run({}, {"nobody"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(session->MakeCallable({{}, {"nobody:0"}, {}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Session::Create("grpc://nothing", *s.graph()).status().code(),
            absl::StatusCode::kInvalidArgument);
  RemoteSessionOptions options;
  options.start_timeout = absl::Milliseconds(100);
  const auto nobody = ConnectSession("127.0.0.1:1", *s.graph(), options);
  EXPECT_EQ(nobody.status().code(), absl::StatusCode::kDeadlineExceeded) << nobody.status();
  EXPECT_TRUE(absl::StrContains(nobody.status().message(), "127.0.0.1:1")) << nobody.status();
}

TEST_F(RemoteSessionTest, AStepThatWaitsEndsByItsLimitByItsCallerAndWithItsSession) {
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithDevice("/job:ps").WithOpName("queue").Call(
      "FIFOQueueV2", {}, {{"component_types", types}});
  s.WithDevice("/job:ps").WithOpName("taken").Call("QueueDequeueV2", {queue},
                                                   {{"component_types", types}});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  RunOptions limited;
  limited.timeout = absl::Milliseconds(50);
  const auto late = session->Run(limited, {}, {"taken"}, {}, nullptr);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << late.status();

  CancellationManager cancellation;
  RunOptions cancelled;
  cancelled.cancellation = &cancellation;
  std::thread caller([&] { cancellation.Cancel(absl::AbortedError("enough")); });
  EXPECT_EQ(session->Run(cancelled, {}, {"taken"}, {}, nullptr).status().message(), "enough");
  caller.join();

  std::thread closer([&] { session->Close(absl::UnavailableError("over")); });
  EXPECT_EQ(session->Run({}, {"taken"}).status().message(), "over");
  closer.join();
  EXPECT_EQ(session->Run({}, {"taken"}).status().message(), "over");
}

// What `start` gives its callback.
template <typename Start>
absl::StatusOr<std::vector<Tensor>> ResultsOf(Start start) {
  absl::StatusOr<std::vector<Tensor>> results = errors::Internal("not called");
  Event ended;
  start([&](absl::StatusOr<std::vector<Tensor>> values) {
    results = std::move(values);
    ended.Set();
  });
  ended.Wait();
  return results;
}

TEST_F(RemoteSessionTest, ARunThatIsStartedEndsWithoutAThreadThatWaits) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  s.WithOpName("taken").Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  const auto negate = session->MakeCallable({{"x:0"}, {"y:0"}, {}});
  ASSERT_TRUE(negate.ok()) << negate.status();
  for (int i = 0; i < 20; ++i) {
    const auto y = ResultsOf([&](Session::Callable::Done done) {
      (*negate)->Start({Number(static_cast<float>(i))}, {}, nullptr, std::move(done));
    });
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].ScalarValue<float>(), static_cast<float>(-i));
  }
  const auto take = session->MakeCallable({{}, {"taken:0"}, {}});
  ASSERT_TRUE(take.ok()) << take.status();
  CancellationManager cancellation;
  RunOptions options;
  options.cancellation = &cancellation;
  const auto cancelled = ResultsOf([&](Session::Callable::Done done) {
    (*take)->Start({}, options, nullptr, std::move(done));
    cancellation.Cancel(absl::AbortedError("enough"));
  });
  EXPECT_EQ(cancelled.status().message(), "enough");
  RunOptions limited;
  limited.timeout = absl::Seconds(1);
  EXPECT_EQ(ResultsOf([&](Session::Callable::Done done) {
              (*take)->Start({}, limited, nullptr, std::move(done));
            })
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RemoteSessionTest, ManyThreadsRunSteps) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const float value = static_cast<float>(100 * t + i);
        const auto y = session->Run({{"x", Number(value)}}, {"y"});
        ASSERT_TRUE(y.ok()) << y.status();
        ASSERT_EQ((*y)[0].ScalarValue<float>(), -value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RemoteSessionTest, AServerThatWasRestartedSaysWhatIsLost) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {1.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->Run({}, {"y"}).ok());
  const auto callable = session->MakeCallable({{}, {"y:0"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  cluster_.Start(kWorker);
  for (const absl::Status& lost :
       {session->Run({}, {"y"}).status(), (*callable)->Run({}).status()}) {
    EXPECT_EQ(lost.code(), absl::StatusCode::kAborted) << lost;
    EXPECT_TRUE(absl::StrContains(lost.message(), target())) << lost;
    EXPECT_TRUE(absl::StrContains(lost.message(), "initialize or restore")) << lost;
  }
}

// Hands on what comes in to a server, until it is told to drop all connections; then it goes on
// with new ones.
class Proxy {
 public:
  explicit Proxy(const std::string& server_address) {
    absl::StatusOr<OwnedFd> listener = ListenOn("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok()) << listener.status();
    target_ = absl::StrCat("grpc://127.0.0.1:", *PortOf(*listener));
    const std::vector<std::string> parts = absl::StrSplit(server_address, ':');
    loop_ = *AcceptLoop::Start(*std::move(listener), [this, parts](OwnedFd client) {
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      EXPECT_EQ(inet_pton(AF_INET, parts[0].c_str(), &address.sin_addr), 1);
      address.sin_port = htons(static_cast<uint16_t>(std::stoi(parts[1])));
      OwnedFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0) {
        return;
      }
      MutexLock lock(mu_);
      for (const auto& [from, to] :
           {std::pair(client.get(), server.get()), std::pair(server.get(), client.get())}) {
        threads_.emplace_back([from = from, to = to] { HandOn(from, to); });
      }
      connections_.push_back(std::move(client));
      connections_.push_back(std::move(server));
    });
  }
  ~Proxy() {
    loop_.reset();
    Drop();
    std::vector<std::thread> threads;
    {
      MutexLock lock(mu_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  const std::string& target() const { return target_; }
  void Drop() {
    MutexLock lock(mu_);
    for (const OwnedFd& connection : connections_) shutdown(connection.get(), SHUT_RDWR);
  }

 private:
  static void HandOn(int from, int to) {
    char bytes[4096];
    for (;;) {
      pollfd readable = {from, POLLIN, 0};
      (void)poll(&readable, 1, -1);
      const ssize_t count = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      ssize_t sent = 0;
      while (sent < count) {
        const ssize_t more =
            send(to, bytes + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
        if (more < 0 && errno == EAGAIN) {
          pollfd writable = {to, POLLOUT, 0};
          (void)poll(&writable, 1, -1);
          continue;
        }
        if (more <= 0) break;
        sent += more;
      }
      if (count <= 0 || sent < count) break;
    }
    shutdown(to, SHUT_RDWR);
  }

  std::string target_;
  Mutex mu_;
  std::vector<OwnedFd> connections_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<AcceptLoop> loop_;
};

TEST_F(RemoteSessionTest, AConnectionThatBlinksIsMadeAgain) {
  Proxy proxy(cluster_.address(kWorker));
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const auto session = ConnectSession(proxy.target(), *s.graph(), TestSessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 5; ++i) {
    const auto y = (*session)->Run({{"x", Number(3)}}, {"y"});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].ScalarValue<float>(), -3);
    proxy.Drop();
  }
}

TEST_F(RemoteSessionTest, ACallThatIsStartedIsMadeAgainWhenItsConnectionBlinks) {
  Proxy proxy(cluster_.address(kWorker));
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {Placeholder(s, "x")});
  const auto session = ConnectSession(proxy.target(), *s.graph(), TestSessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto callable = (*session)->MakeCallable({{"x:0"}, {"y:0"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (int i = 0; i < 5; ++i) {
    const auto y = ResultsOf([&](Session::Callable::Done done) {
      (*callable)->Start({Number(3)}, {}, nullptr, std::move(done));
    });
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].ScalarValue<float>(), -3);
    proxy.Drop();
  }
}

TEST_F(RemoteSessionTest, AStepWhoseAnswerIsLostIsNotRunASecondTime) {
  Proxy proxy(cluster_.address(kWorker));
  Scope s = Scope::NewRoot();
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call(
      "FIFOQueueV2", {}, {{"component_types", types}, {"capacity", 1}, {"shared_name", "q"}});
  Node* const put =
      s.WithOpName("put").AddNode("QueueEnqueueV2", {queue, 1.0f}, {{"Tcomponents", types}});
  s.WithControlDependencies({put}).WithOpName("more").AddNode("QueueEnqueueV2", {queue, 2.0f},
                                                              {{"Tcomponents", types}});
  s.WithOpName("size").Call("QueueSizeV2", {queue});
  const auto session = ConnectSession(proxy.target(), *s.graph(), TestSessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  // There is room for one; the step waits to put another.
  absl::Status status;
  std::thread waits([&] { status = (*session)->Run({}, {}, {"more"}).status(); });
  const std::unique_ptr<Session> other = Connect(s);
  ASSERT_NE(other, nullptr);
  int32_t size = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (size == 0 && absl::Now() < deadline) {
    const auto read = other->Run({}, {"size"});
    ASSERT_TRUE(read.ok()) << read.status();
    size = (*read)[0].ScalarValue<int32_t>();
  }
  EXPECT_EQ(size, 1);
  proxy.Drop();
  waits.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "its answer was lost")) << status;
  EXPECT_EQ((*other->Run({}, {"size"}))[0].ScalarValue<int32_t>(), 1);
}

TEST_F(RemoteSessionTest, AServerThatStaysAwayIsUnavailable) {
  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {1.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  cluster_.Stop(kWorker);
  const auto away = session->Run({}, {"y"});
  EXPECT_EQ(away.status().code(), absl::StatusCode::kUnavailable) << away.status();
  EXPECT_TRUE(absl::StrContains(away.status().message(), target())) << away.status();
}

TEST_F(RemoteSessionTest, LargeFeedsAndResultsComeBackAsTheyWere) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  s.WithOpName("y").Call("Identity", {x});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  const auto callable = session->MakeCallable({{"x:0"}, {"y:0"}, {}});
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (const int64_t size : {0, 1, 255, 256, 257, 1'000'000}) {
    Tensor value(kFloat32, Shape({size}));
    for (int64_t i = 0; i < size; ++i) {
      value.MutableElements<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 1000);
    }
    const auto run = session->Run({{"x", value}}, {"y"});
    const auto called = (*callable)->Run({value});
    for (const auto* results : {&run, &called}) {
      ASSERT_TRUE(results->ok()) << results->status();
      const Tensor& y = (**results)[0];
      ASSERT_EQ(y.shape(), value.shape());
      EXPECT_EQ(y.Elements<float>(), value.Elements<float>());
    }
  }
}

// sum = a + b on the other task; product = sum * c. "taken" waits for a queue that "put" fills.
Scope Computation() {
  Scope s = Scope::NewRoot();
  const Scope there = s.WithDevice("/job:ps/task:0");
  const Output sum =
      there.WithOpName("sum").Call("AddV2", {Placeholder(s, "a"), Placeholder(s, "b")});
  s.WithOpName("product").Call("Mul", {sum, Placeholder(s, "c")});
  const std::vector<DataType> types = {kFloat32};
  const Output queue = s.WithOpName("queue").Call("FIFOQueueV2", {}, {{"component_types", types}});
  s.WithOpName("put").AddNode("QueueEnqueueV2", {queue, Placeholder(s, "x")},
                              {{"Tcomponents", types}});
  const Output taken = s.Call("QueueDequeueV2", {queue}, {{"component_types", types}});
  s.WithOpName("taken").Call("Identity", {taken});
  s.WithOpName("size").Call("QueueSizeV2", {queue});
  return s;
}

TEST_F(RemoteSessionTest, PartialRunsTakeFeedsAndGiveResultsBitByBit) {
  const std::unique_ptr<Session> session = Connect(Computation());
  ASSERT_NE(session, nullptr);
  const auto run = session->SetUpPartialRun({{"a", "b:0", "c"}, {"sum", "product:0"}, {}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_FALSE((*run)->is_over());
  const auto sum = (*run)->Run({{"a", Number(2)}, {"b", Number(3)}}, {"sum"});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ((*sum)[0].ScalarValue<float>(), 5);
  // What the server does not take does not end the run.
  for (const absl::Status& wrong :
       {(*run)->Run({}, {"product"}).status(), (*run)->Run({}, {"sum"}).status(),
        (*run)->Run({{"a", Number(2)}}, {}).status(), (*run)->Run({}, {"nobody"}).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
  }
  EXPECT_FALSE((*run)->is_over());
  const auto product = ResultsOf([&](Session::Callable::Done done) {
    (*run)->Start({}, {{"c:0", Number(4)}}, {"product:0"}, nullptr, std::move(done));
  });
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ((*product)[0].ScalarValue<float>(), 20);
  EXPECT_TRUE((*run)->is_over());
  EXPECT_TRUE(absl::IsInvalidArgument((*run)->Run({}, {}).status()));
  EXPECT_EQ(session->SetUpPartialRun({{"nobody"}, {"sum"}, {}}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RemoteSessionTest, APartialRunEndsByItsLimitByItsCallerAndWithItsSession) {
  const std::unique_ptr<Session> session = Connect(Computation());
  ASSERT_NE(session, nullptr);
  const auto new_run = [&] {
    auto run = session->SetUpPartialRun({{"a"}, {"taken"}, {}});
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  };
  auto run = new_run();
  RunOptions limited;
  limited.timeout = absl::Milliseconds(50);
  const auto late = run->Run(limited, {}, {"taken"}, nullptr);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << late.status();
  EXPECT_TRUE(run->is_over());

  run = new_run();
  CancellationManager cancellation;
  RunOptions cancelled;
  cancelled.cancellation = &cancellation;
  std::thread caller([&] { cancellation.Cancel(absl::AbortedError("enough")); });
  EXPECT_EQ(run->Run(cancelled, {}, {"taken"}, nullptr).status().message(), "enough");
  caller.join();
  EXPECT_TRUE(run->is_over());

  run = new_run();
  Event ended;
  const auto given_up = ResultsOf([&](Session::Callable::Done done) {
    run->Start({}, {}, {"taken"}, nullptr, std::move(done));
    run->End(absl::AbortedError("given up"), [&ended] { ended.Set(); });
  });
  EXPECT_EQ(given_up.status().message(), "given up");
  ended.Wait();
  EXPECT_TRUE(run->is_over());

  run = new_run();
  std::thread closer([&] { session->Close(absl::UnavailableError("over")); });
  EXPECT_EQ(run->Run({}, {"taken"}).status().message(), "over");
  closer.join();
}

TEST_F(RemoteSessionTest, APartialRunThatIsGivenUpLeavesNothingOnTheServer) {
  const std::unique_ptr<Session> session = Connect(Computation());
  ASSERT_NE(session, nullptr);
  const auto size = [&] {
    const auto results = session->Run({}, {"size"});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? (*results)[0].ScalarValue<int32_t>() : -1;
  };
  // The step begins, and waits for an element.
  auto run = session->SetUpPartialRun({{"a", "b"}, {"taken", "sum"}, {}});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Run({{"a", Number(1)}}, {}).ok());
  run->reset();
  ASSERT_TRUE(session->Run({{"x", Number(1)}}, {}, {"put"}).ok());
  EXPECT_EQ(size(), 1) << "somebody still takes";
  // While one that goes on takes it.
  run = session->SetUpPartialRun({{"a", "b"}, {"taken", "sum"}, {}});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Run({{"a", Number(1)}}, {}).ok());
  const auto taken = (*run)->Run({}, {"taken"});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(size(), 0);
  // The session could not end while it went on.
  run->reset();
}

TEST_F(RemoteSessionTest, AnErrorEndsAPartialRunForBothEnds) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  // An argument of the kernel's that is none, in the words of one of the call's.
  s.WithOpName("y").Call("Reshape", {x, {2, 2}});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  const auto run = session->SetUpPartialRun({{"x"}, {"y"}, {}});
  ASSERT_TRUE(run.ok()) << run.status();
  const auto failed = (*run)->Run({{"x", Tensor::Zeros(kFloat32, Shape({3}))}}, {"y"});
  EXPECT_TRUE(absl::IsInvalidArgument(failed.status())) << failed.status();
  EXPECT_TRUE((*run)->is_over());
}

TEST_F(RemoteSessionTest, AServerTellsItsDevicesAndForgetsOnRequest) {
  const auto server = RemoteServer::Create(target());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto own = server->OwnDevices(absl::Seconds(60));
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(own->size(), 1u);
  EXPECT_EQ((*own)[0].name, "/job:worker/replica:0/task:0/device:CPU:0");
  const auto all = server->ListDevices(absl::Seconds(60));
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[1].name, "/job:ps/replica:0/task:0/device:CPU:0");

  Scope s = Scope::NewRoot();
  s.WithOpName("y").Call("Neg", {1.0f});
  const std::unique_ptr<Session> session = Connect(s);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->Run({}, {"y"}).ok());
  ASSERT_TRUE(server->Reset({}, {}, absl::Seconds(60)).ok());
  EXPECT_EQ(session->Run({}, {"y"}).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace tandem
