// Every transport answers the same questions; a new one adds a line at the foot. The meshes'
// members are threads of this process (processes that are killed:
// runtime/collective/processes_test.cc).
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/transport/handshake.h"
#include "runtime/transport/inprocess/inprocess.h"
#include "runtime/transport/mesh.h"
#include "runtime/transport/shm/shm.h"
#include "runtime/transport/tcp/tcp.h"

namespace tandem::transport {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

class NotedObserver : public Observer {
 public:
  void OnArrival(int peer, const Tag& tag, const Label& theirs) override {
    MutexLock lock(mu_);
    arrivals_.push_back({peer, tag, theirs});
    event_.store(true);
  }
  void OnAbort(int peer, const OperationKey& operation, const absl::Status& why) override {
    MutexLock lock(mu_);
    aborts_.push_back(why);
    event_.store(true);
  }
  void OnBroken(const absl::Status& why) override {
    MutexLock lock(mu_);
    broken_ = why;
    event_.store(true);
  }
  void OnTick() override {}

  std::vector<Unclaimed> arrivals() {
    MutexLock lock(mu_);
    return arrivals_;
  }
  std::vector<absl::Status> aborts() {
    MutexLock lock(mu_);
    return aborts_;
  }
  absl::Status broken() {
    MutexLock lock(mu_);
    return broken_;
  }
  std::atomic<bool>& event() { return event_; }

 private:
  Mutex mu_;
  std::vector<Unclaimed> arrivals_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Status> aborts_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> event_{false};
};

// Waits for a number of messages; adds up what it is given piece by piece.
class Count : public Listener {
 public:
  explicit Count(int messages) : left_(messages) {}
  void OnMessage(uint32_t index) override {
    {
      MutexLock lock(mu_);
      order_.push_back(index);
    }
    if (left_.fetch_sub(1) == 1) done_.store(true);
  }
  void Consume(uint32_t, uint64_t offset, absl::Span<const char> bytes) override {
    if (bytes_.size() < offset + bytes.size()) bytes_.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  const std::atomic<bool>& done() const { return done_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::atomic<int> left_;
  std::atomic<bool> done_{false};
  std::string bytes_;
  Mutex mu_;
  std::vector<uint32_t> order_ ABSL_GUARDED_BY(mu_);
};

std::string Pattern(size_t bytes) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

Tag TagOf(int64_t instance, uint32_t part = 0) { return Tag{{instance, 1, 0}, part}; }

Label LabelOf(uint8_t value) {
  Label label;
  label.bytes[0] = value;
  return label;
}

// Connects one member; runs on a thread of its own.
using Connector = std::function<absl::StatusOr<std::unique_ptr<Transport>>(int rank)>;
struct Medium {
  const char* name;
  Connector (*make)(int size);
};

Identity IdentityOf(int rank, int size) {
  Identity identity;
  identity.group = "conformance";
  identity.generation = 3;
  identity.nonce = std::string(kNonceBytes, 'n');
  identity.rank = rank;
  for (int i = 0; i < size; ++i) identity.members.push_back({absl::StrCat("worker:", i), "here"});
  return identity;
}

Connector InProcess(int size) {
  auto hub = std::make_shared<InProcessHub>(size);
  return [hub](int rank) -> absl::StatusOr<std::unique_ptr<Transport>> {
    return std::make_unique<InProcessTransport>(hub, rank);
  };
}

Connector SharedMemory(int size) {
  auto listeners = std::make_shared<std::vector<std::unique_ptr<ShmListener>>>();
  auto addresses = std::make_shared<std::vector<ShmAddress>>();
  for (int i = 0; i < size; ++i) {
    listeners->push_back(*ShmListener::Create(size));
    addresses->push_back({i, listeners->back()->name()});
  }
  return [=](int rank) {
    const Identity identity = IdentityOf(rank, size);
    return ConnectShm(std::move((*listeners)[static_cast<size_t>(rank)]), identity, *addresses,
                      absl::Now() + kLimit);
  };
}

Connector Tcp(int size) {
  auto listeners = std::make_shared<std::vector<std::unique_ptr<TcpListener>>>();
  auto addresses = std::make_shared<std::vector<TcpAddress>>();
  for (int i = 0; i < size; ++i) {
    listeners->push_back(*TcpListener::Create({}));
    addresses->push_back({i, listeners->back()->address()});
  }
  return [=](int rank) {
    const Identity identity = IdentityOf(rank, size);
    std::vector<TcpAddress> others;
    for (const TcpAddress& address : *addresses) {
      if (address.rank != rank) others.push_back(address);
    }
    return ConnectTcp(std::move((*listeners)[static_cast<size_t>(rank)]), identity, others,
                      absl::Now() + kLimit);
  };
}

class TransportConformance : public ::testing::TestWithParam<Medium> {
 protected:
  void Connect(int size) {
    const Connector connect = GetParam().make(size);
    std::vector<std::unique_ptr<Transport>> transports(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto transport = connect(rank);
        ASSERT_TRUE(transport.ok()) << transport.status();
        transports[static_cast<size_t>(rank)] = *std::move(transport);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < size; ++rank) {
      observers_.push_back(std::make_unique<NotedObserver>());
      MeshOptions options;
      options.members = IdentityOf(rank, size).members;
      options.rank = rank;
      options.generation = 3;
      options.lost_after = kLimit;  // A busy machine is not a failure.
      std::vector<std::unique_ptr<Transport>> own;
      own.push_back(std::move(transports[static_cast<size_t>(rank)]));
      meshes_.push_back(std::make_unique<Mesh>(options, std::move(own),
                                               std::vector<int>(static_cast<size_t>(size), 0),
                                               observers_.back().get()));
    }
  }
  ~TransportConformance() override {
    std::vector<std::thread> threads;
    for (auto& mesh : meshes_) threads.emplace_back([&mesh] { mesh.reset(); });
    for (std::thread& thread : threads) thread.join();
  }

  // Drives all members until `done`.
  bool Drive(const std::atomic<bool>& done) {
    const absl::Time deadline = absl::Now() + kLimit;
    while (!done.load()) {
      if (absl::Now() > deadline) return false;
      bool moved = false;
      for (auto& mesh : meshes_) moved = (mesh != nullptr && mesh->Poll()) || moved;
      if (!moved) std::this_thread::yield();
    }
    return true;
  }

  std::vector<std::unique_ptr<NotedObserver>> observers_;
  std::vector<std::unique_ptr<Mesh>> meshes_;
};

TEST_P(TransportConformance, MessagesOfAllSizesArriveWhoeverIsFirst) {
  Connect(2);
  int64_t instance = 0;
  for (const size_t bytes : {0, 1, 100, 4096, 65536, 65537, 300000, 5000000}) {
    for (const bool receive_first : {false, true}) {
      SCOPED_TRACE(absl::StrCat(bytes, " bytes, ", receive_first));
      const std::string sent = Pattern(bytes);
      std::string got(bytes, 0);
      auto sender = std::make_shared<Count>(1);
      auto receiver = std::make_shared<Count>(1);
      const auto receive = [&] {
        meshes_[1]->Receive(0, TagOf(instance), LabelOf(1), {bytes == 0 ? nullptr : &got[0], bytes},
                            receiver, 0);
      };
      if (receive_first) receive();
      meshes_[0]->Send(1, TagOf(instance), LabelOf(1), sent, sender, 0);
      if (!receive_first) receive();
      ASSERT_TRUE(Drive(receiver->done()));
      ASSERT_TRUE(Drive(sender->done()));
      EXPECT_EQ(got, sent);
      ++instance;
    }
  }
}

TEST_P(TransportConformance, PayloadsCanBeTakenPieceByPiece) {
  Connect(2);
  int64_t instance = 0;
  for (const size_t bytes : {0, 8, 50000, 3000000}) {
    const std::string sent = Pattern(bytes);
    auto receiver = std::make_shared<Count>(1);
    auto sender = std::make_shared<Count>(1);
    meshes_[1]->Send(0, TagOf(instance), LabelOf(1), sent, sender, 0);
    meshes_[0]->Receive(1, TagOf(instance), LabelOf(1), {nullptr, bytes}, receiver, 0);
    ASSERT_TRUE(Drive(receiver->done()));
    EXPECT_EQ(receiver->bytes(), sent);
    ASSERT_TRUE(Drive(sender->done()));
    ++instance;
  }
}

TEST_P(TransportConformance, MessagesMeetByTagAndNotByOrder) {
  Connect(3);
  constexpr int kMessages = 50;
  auto all = std::make_shared<Count>(4 * kMessages);
  std::vector<std::string> sent;
  std::vector<std::string> got(2 * kMessages);
  sent.reserve(2 * kMessages);
  for (int i = 0; i < 2 * kMessages; ++i) {
    sent.push_back(Pattern(static_cast<size_t>(i % 10 == 0 ? 200000 + i : 10 + i)));
    got[static_cast<size_t>(i)].resize(sent.back().size());
  }
  for (int i = 0; i < kMessages; ++i) {
    for (int from = 1; from <= 2; ++from) {
      const size_t k = static_cast<size_t>(2 * i + from - 1);
      meshes_[static_cast<size_t>(from)]->Send(0, TagOf(i), LabelOf(1), sent[k], all, 0);
    }
  }
  for (int i = kMessages - 1; i >= 0; --i) {
    for (int from = 1; from <= 2; ++from) {
      const size_t k = static_cast<size_t>(2 * i + from - 1);
      meshes_[0]->Receive(from, TagOf(i), LabelOf(1), {&got[k][0], got[k].size()}, all, 0);
    }
  }
  ASSERT_TRUE(Drive(all->done()));
  EXPECT_EQ(got, sent);
}

TEST_P(TransportConformance, BothDirectionsAtOnceAndWaitingCallers) {
  Connect(2);
  const std::string sent = Pattern(8 << 20);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Mesh& mesh = *meshes_[static_cast<size_t>(rank)];
      for (int64_t i = 0; i < 3; ++i) {
        std::string got(sent.size(), 0);
        auto count = std::make_shared<Count>(2);
        mesh.Receive(1 - rank, TagOf(i), LabelOf(1), {&got[0], got.size()}, count, 0);
        mesh.Send(1 - rank, TagOf(i), LabelOf(1), sent, count, 1);
        ASSERT_TRUE(mesh.DriveUntil(count->done(), absl::Now() + kLimit));
        ASSERT_EQ(got, sent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportConformance, TheOwnThreadMovesWhatNobodyWaitsFor) {
  Connect(2);
  const std::string sent = Pattern(1 << 20);
  std::string got(sent.size(), 0);
  auto count = std::make_shared<Count>(2);
  meshes_[0]->AddHold();
  meshes_[1]->AddHold();
  meshes_[0]->Receive(1, TagOf(1), LabelOf(1), {&got[0], got.size()}, count, 0);
  meshes_[1]->Send(0, TagOf(1), LabelOf(1), sent, count, 1);
  const absl::Time deadline = absl::Now() + kLimit;
  while (!count->done().load() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(got, sent);
  meshes_[0]->ReleaseHold();
  meshes_[1]->ReleaseHold();
}

TEST_P(TransportConformance, AnotherLabelIsReportedAndNothingIsWritten) {
  Connect(2);
  int64_t instance = 0;
  for (const size_t bytes : {100, 300000}) {
    for (const bool receive_first : {false, true}) {
      const std::string sent = Pattern(bytes);
      std::string got(bytes, 'x');
      auto count = std::make_shared<Count>(1);
      observers_[0]->event().store(false);
      const size_t before = observers_[0]->arrivals().size();
      const auto receive = [&] {
        meshes_[0]->Receive(1, TagOf(instance), LabelOf(2), {&got[0], bytes}, count, 0);
      };
      if (receive_first) receive();
      meshes_[1]->Send(0, TagOf(instance), LabelOf(1), sent, std::make_shared<Count>(1), 0);
      if (!receive_first) receive();
      // The receiver of an eager message hears of it, and the sender of a large one.
      NotedObserver& observer = *observers_[bytes <= kEagerBytes ? 0 : 1];
      if (bytes > kEagerBytes) {
        ASSERT_TRUE(Drive(observer.event()));
        EXPECT_EQ(observer.arrivals().back().label.bytes[0], 2);
      } else {
        ASSERT_TRUE(Drive(observer.event()));
        EXPECT_GT(observer.arrivals().size(), before);
        EXPECT_EQ(observer.arrivals().back().label.bytes[0], 1);
      }
      observer.event().store(false);
      EXPECT_EQ(got, std::string(bytes, 'x'));
      EXPECT_FALSE(count->done().load());
      meshes_[0]->Forget(TagOf(instance).operation);
      meshes_[1]->Forget(TagOf(instance).operation);
      ++instance;
    }
  }
}

// Memory that faults when it is touched.
TEST_P(TransportConformance, ForgottenMemoryIsNotTouched) {
  Connect(2);
  constexpr size_t kBytes = 4 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto forgotten = std::make_shared<Count>(2);
  meshes_[1]->Receive(0, TagOf(1), LabelOf(1), {static_cast<char*>(memory), kBytes}, forgotten, 0);
  const std::string sent = Pattern(kBytes);
  meshes_[0]->Send(1, TagOf(1), LabelOf(1), sent, forgotten, 1);
  for (int i = 0; i < 2; ++i) {
    meshes_[0]->Poll();
    meshes_[1]->Poll();
  }
  meshes_[1]->Forget(TagOf(1).operation);
  munmap(memory, kBytes);
  meshes_[0]->Forget(TagOf(1).operation);
  // The connection is none the worse.
  std::string got(1000, 0);
  const std::string other = Pattern(1000);
  auto count = std::make_shared<Count>(2);
  meshes_[1]->Receive(0, TagOf(2), LabelOf(1), {&got[0], got.size()}, count, 0);
  meshes_[0]->Send(1, TagOf(2), LabelOf(1), other, count, 1);
  ASSERT_TRUE(Drive(count->done()));
  EXPECT_EQ(got, other);
}

TEST_P(TransportConformance, AnAbortReachesThePeersWithItsText) {
  Connect(3);
  meshes_[1]->SendAbort(TagOf(5).operation, errors::InvalidArgument("shapes differ"));
  for (const int peer : {0, 2}) {
    NotedObserver& observer = *observers_[static_cast<size_t>(peer)];
    ASSERT_TRUE(Drive(observer.event()));
    ASSERT_EQ(observer.aborts().size(), 1u);
    EXPECT_EQ(observer.aborts()[0], errors::InvalidArgument("shapes differ"));
  }
}

TEST_P(TransportConformance, ABrokenMeshBreaksAtAllMembers) {
  Connect(3);
  meshes_[1]->Break(errors::Unavailable("worker:9 is lost"));
  for (const int peer : {0, 2}) {
    ASSERT_TRUE(Drive(observers_[static_cast<size_t>(peer)]->event()));
    const absl::Status status = observers_[static_cast<size_t>(peer)]->broken();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "worker:9 is lost")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "worker:1 on here")) << status;
    EXPECT_EQ(meshes_[static_cast<size_t>(peer)]->status(), status);
  }
}

TEST_P(TransportConformance, WhoeverLeavesIsNamedToThoseWhoWaitForIt) {
  Connect(3);
  std::string got(10, 0);
  meshes_[0]->Receive(2, TagOf(1), LabelOf(1), {&got[0], 10}, std::make_shared<Count>(1), 0);
  meshes_[2].reset();
  // The mesh's own thread looks after it, and tells the others.
  for (const size_t peer : {0, 1}) {
    ASSERT_TRUE(Drive(observers_[peer]->event()));
    EXPECT_TRUE(
        absl::StrContains(observers_[peer]->broken().message(), "worker:2 on here has left"))
        << observers_[peer]->broken();
  }
}

TEST_P(TransportConformance, WhatWasSentBeforeLeavingArrives) {
  Connect(2);
  const std::string sent = Pattern(30000);
  std::string got(sent.size(), 0);
  auto count = std::make_shared<Count>(1);
  meshes_[0]->Receive(1, TagOf(1), LabelOf(1), {&got[0], got.size()}, count, 0);
  meshes_[1]->Send(0, TagOf(1), LabelOf(1), sent, std::make_shared<Count>(1), 0);
  std::thread leaves([&] { meshes_[1].reset(); });
  EXPECT_TRUE(meshes_[0]->DriveUntil(count->done(), absl::Now() + kLimit));
  leaves.join();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(meshes_[0]->status().ok()) << meshes_[0]->status();
}

INSTANTIATE_TEST_SUITE_P(All, TransportConformance,
                         ::testing::Values(Medium{"inprocess", InProcess},
                                           Medium{"shm", SharedMemory}, Medium{"tcp", Tcp}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::transport
