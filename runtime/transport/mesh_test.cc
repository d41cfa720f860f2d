// What a mesh makes of frames that no honest peer sends, and of silence. The transport is the test.
#include "runtime/transport/mesh.h"

#include <sys/eventfd.h>
#include <algorithm>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"

namespace tandem::transport {
namespace {

class FakeTransport final : public Transport {
 public:
  FakeTransport() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  const char* name() const override { return "fake"; }
  void Start(FrameReceiver* receiver) override { receiver_ = receiver; }
  void Send(int, const FrameHeader& header, absl::Span<const char>, uint64_t id) override {
    sent->push_back(header);
    receiver_->OnSent(id);
  }
  void Forget(uint64_t) override {}
  bool Poll() override {
    if (frames.empty()) return false;
    const auto [header, payload] = frames.front();
    frames.erase(frames.begin());
    receiver_->OnFrame(1, header, payload);
    return true;
  }
  int wait_fd() const override { return fd_.get(); }
  bool PrepareToSleep() override { return frames.empty(); }
  void Awake() override {}
  bool IsFlushed() const override { return true; }
  void Close() override {}

  // Before the mesh exists, or from its thread: nobody else touches them then.
  std::vector<std::pair<FrameHeader, std::string>> frames;
  // Of the test too, which looks at it when the mesh is gone.
  const std::shared_ptr<std::vector<FrameHeader>> sent =
      std::make_shared<std::vector<FrameHeader>>();

 private:
  const OwnedFd fd_;
  FrameReceiver* receiver_ = nullptr;
};

class BrokenObserver : public Observer {
 public:
  void OnArrival(int, const Tag&, const Label&) override {}
  void OnAbort(int, const OperationKey&, const absl::Status& why) override {
    MutexLock lock(mu_);
    abort_ = why;
    changed_.NotifyAll();
  }
  void OnBroken(const absl::Status& why) override {
    MutexLock lock(mu_);
    broken_ = why;
    changed_.NotifyAll();
  }
  void OnTick() override {}

  absl::Status WaitForBroken() {
    MutexLock lock(mu_);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (broken_.ok() && changed_.WaitUntil(mu_, deadline)) {
    }
    return broken_;
  }
  absl::Status WaitForAbort() {
    MutexLock lock(mu_);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (abort_.ok() && changed_.WaitUntil(mu_, deadline)) {
    }
    return abort_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  absl::Status abort_ ABSL_GUARDED_BY(mu_);
};

FrameHeader Data(uint64_t message, uint64_t offset, uint64_t payload) {
  FrameHeader header;
  header.generation = 7;
  header.message_bytes = message;
  header.offset = offset;
  header.payload_bytes = payload;
  return header;
}

// How often somebody was told that the group is over.
int64_t CountLost(const std::vector<FrameHeader>& sent) {
  return std::count_if(sent.begin(), sent.end(),
                       [](const FrameHeader& each) { return each.kind == FrameKind::kLost; });
}

class MeshFrames : public ::testing::Test {
 protected:
  void Give(const FrameHeader& header, const std::string& payload) {
    transport_->frames.emplace_back(header, payload);
  }
  void Start(absl::Duration heartbeat = absl::Seconds(60)) {
    MeshOptions options;
    options.members = {{"worker:0", "a"}, {"worker:1", "b"}};
    options.generation = 7;
    options.heartbeat = heartbeat;
    options.lost_after = 2 * heartbeat;
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(std::move(transport_));
    mesh_ =
        std::make_unique<Mesh>(options, std::move(transports), std::vector<int>{0, 0}, &observer_);
  }

  std::unique_ptr<FakeTransport> transport_ = std::make_unique<FakeTransport>();
  BrokenObserver observer_;
  std::unique_ptr<Mesh> mesh_;
};

TEST_F(MeshFrames, NonsenseBreaksTheMeshAndNamesThePeer) {
  FrameHeader header = Data(0, 0, 0);
  header.magic = 12345;
  Give(header, "");
  const auto sent = transport_->sent;
  Start();
  const absl::Status status = observer_.WaitForBroken();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "worker:1 on b is lost")) << status;
  mesh_.reset();
  EXPECT_EQ(CountLost(*sent), 1) << "it is told what was wrong with it";
}

TEST_F(MeshFrames, AFrameBeyondItsMessageBreaksTheMesh) {
  Give(Data(10, 8, 4), "abcd");
  Start();
  EXPECT_TRUE(absl::StrContains(observer_.WaitForBroken().message(), "beyond its message"));
}

TEST_F(MeshFrames, AnOffsetThatOverflowsBreaksTheMesh) {
  Give(Data(10, ~uint64_t{0} - 1, 4), "abcd");
  Start();
  EXPECT_TRUE(absl::StrContains(observer_.WaitForBroken().message(), "beyond its message"));
}

TEST_F(MeshFrames, ALargeMessageThatNobodyAskedForBreaksTheMesh) {
  Give(Data(1 << 30, 0, 4), "abcd");
  Start();
  EXPECT_TRUE(absl::StrContains(observer_.WaitForBroken().message(), "nobody asked for"));
}

TEST_F(MeshFrames, AnUnknownKindBreaksTheMesh) {
  FrameHeader header = Data(0, 0, 0);
  header.kind = static_cast<FrameKind>(77);
  Give(header, "");
  Start();
  EXPECT_TRUE(absl::StrContains(observer_.WaitForBroken().message(), "unknown kind"));
}

TEST_F(MeshFrames, FramesOfAnotherGenerationAreDropped) {
  FrameHeader old = Data(0, 0, 0);
  old.generation = 6;
  old.kind = FrameKind::kAbort;
  old.code = static_cast<uint8_t>(absl::StatusCode::kInternal);
  Give(old, "");
  FrameHeader stale = Data(4, 0, 4);
  stale.generation = 6;
  Give(stale, "abcd");
  FrameHeader current = Data(4, 0, 4);
  current.kind = FrameKind::kAbort;
  current.code = static_cast<uint8_t>(absl::StatusCode::kAborted);
  Give(current, "next");
  Start();
  // In order: had the first been taken, its status would be the one.
  EXPECT_EQ(observer_.WaitForAbort(), absl::AbortedError("next"));
  EXPECT_TRUE(mesh_->UnclaimedOf(OperationKey()).empty());
}

TEST_F(MeshFrames, SilenceIsALossOfWhichTheSilentOneIsTold) {
  const auto sent = transport_->sent;
  Start(absl::Milliseconds(300));
  const absl::Status status = observer_.WaitForBroken();
  EXPECT_TRUE(absl::StrContains(status.message(), "worker:1 on b is lost: nothing was heard"))
      << status;
  mesh_.reset();
  // It may hear what it cannot answer.
  EXPECT_EQ(CountLost(*sent), 1);
}

}  // namespace
}  // namespace tandem::transport
