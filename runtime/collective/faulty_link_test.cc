// Groups over links that fail: black holes in both directions and in one, delay, reset. Each test
// proves that its fault fired.
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/collective/group.h"
#include "runtime/collective/group_test_util.h"
#include "runtime/transport/inprocess/inprocess.h"
#include "runtime/transport/testing/faulty_transport.h"

namespace tandem::collective {
namespace {

using transport::FaultyTransport;
using transport::LinkFault;

class FaultyLinkTest : public ::testing::Test {
 protected:
  // The member `patient`, if any, takes nobody for lost.
  void Form(int size, absl::Duration lost_after = absl::Seconds(2), int patient = -1) {
    GroupOptions options = TestOptions(size, TransportKind::kInProcess);
    options.heartbeat = absl::Milliseconds(500);
    for (int rank = 0; rank < size; ++rank) {
      options.rank = rank;
      options.lost_after = rank == patient ? absl::Minutes(10) : lost_after;
      faults_.push_back(std::make_shared<LinkFault>());
      std::vector<std::unique_ptr<transport::Transport>> transports;
      transports.push_back(std::make_unique<FaultyTransport>(
          std::make_unique<transport::InProcessTransport>(options.hub, rank), faults_.back()));
      groups_.push_back(std::make_unique<Group>(options, std::vector<int>(size, 0),
                                                std::move(transports), std::vector<int>(size, 0)));
    }
  }
  ~FaultyLinkTest() override { EndAll(groups_); }

  absl::Status AllReduce(int rank, int64_t step) {
    std::vector<float> values(200000, 1.f);
    Request request;
    request.input = request.output = values.data();
    request.count = static_cast<int64_t>(values.size());
    request.step = step;
    request.name = "grads";
    const absl::Status status = groups_[static_cast<size_t>(rank)]->Run(std::move(request));
    if (status.ok()) {
      EXPECT_EQ(values.back(), static_cast<float>(groups_.size()));
    }
    return status;
  }

  // All members go on with all-reduces until one fails; `fault` is let loose after the third.
  std::vector<absl::Status> RunUntilItFails(const std::function<void()>& fault) {
    std::vector<absl::Status> ends(groups_.size());
    OnAll(static_cast<int>(groups_.size()), [&](int rank) {
      for (int64_t step = 1; ends[static_cast<size_t>(rank)].ok(); ++step) {
        if (rank == 0 && step == 4) fault();
        ends[static_cast<size_t>(rank)] = AllReduce(rank, step);
      }
    });
    return ends;
  }

  std::vector<std::shared_ptr<LinkFault>> faults_;
  Groups groups_;
};

TEST_F(FaultyLinkTest, AMemberBehindABlackHoleIsLost) {
  Form(3);
  const std::vector<absl::Status> ends = RunUntilItFails([&] {
    faults_[2]->drops_sent = true;
    faults_[2]->drops_received = true;
  });
  EXPECT_GT(faults_[2]->frames_dropped.load(), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ends[static_cast<size_t>(rank)].code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(ends[static_cast<size_t>(rank)].message(),
                                  "worker:2 on 127.0.0.1 is lost: nothing was heard of it"))
        << ends[static_cast<size_t>(rank)];
  }
  // The lonely one hears nothing of anybody.
  EXPECT_EQ(ends[2].code(), absl::StatusCode::kUnavailable) << ends[2];
}

TEST_F(FaultyLinkTest, SilenceInOneDirectionBreaksTheGroupForAll) {
  // It has to be told that it is the lost one: on a busy machine it might miss the others first.
  Form(3, absl::Seconds(2), /*patient=*/1);
  const std::vector<absl::Status> ends = RunUntilItFails([&] { faults_[1]->drops_sent = true; });
  EXPECT_GT(faults_[1]->frames_dropped.load(), 0);
  for (const absl::Status& end : ends) {
    EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
    EXPECT_TRUE(absl::StrContains(end.message(), "worker:1 on 127.0.0.1 is lost")) << end;
  }
}

TEST_F(FaultyLinkTest, AResetNamesThePeer) {
  Form(3, absl::Seconds(60));
  const std::vector<absl::Status> ends = RunUntilItFails([&] { faults_[0]->resets = 2; });
  for (const absl::Status& end : ends) {
    EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable) << end;
    EXPECT_TRUE(absl::StrContains(end.message(), "worker:2 on 127.0.0.1 is lost")) << end;
  }
}

TEST_F(FaultyLinkTest, DelayIsNoLoss) {
  Form(3, absl::Seconds(60));
  for (const auto& fault : faults_) fault->delay_milliseconds = 20;
  OnAll(3, [&](int rank) {
    for (int64_t step = 1; step <= 3; ++step) {
      const absl::Status status = AllReduce(rank, step);
      EXPECT_TRUE(status.ok()) << status;
    }
  });
}

}  // namespace
}  // namespace tandem::collective
