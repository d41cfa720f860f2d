// A client's step, without a server: what it sends, and what it makes of answers.
#include "runtime/rpc/remote_step.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using Step = RemoteStep<RunStepWire>;

struct Sent {
  tensorflow::RunStepRequest request;
  step_extras::Request extras;
  std::vector<ReadTensor> feeds;
};
Sent Read(absl::StatusOr<grpc::ByteBuffer> bytes) {
  Sent sent;
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  auto feeds =
      DecodeStepMessage(&*bytes, kRunStepFeeds, size_t{1} << 30, &sent.request, &sent.extras);
  EXPECT_TRUE(feeds.ok()) << feeds.status();
  if (feeds.ok()) sent.feeds = *std::move(feeds);
  return sent;
}

grpc::ByteBuffer AnswerOf(std::vector<NamedTensor> results, const step_extras::Response& extras) {
  return *EncodeStepMessage(tensorflow::RunStepResponse(), kRunStepResults, "fetch",
                            std::move(results), &extras);
}

Tensor Large() { return Tensor::Zeros(kFloat32, Shape({50'000})); }

tensorflow::RunStepRequest Request() {
  tensorflow::RunStepRequest request;
  request.set_session_handle("handle");
  request.add_fetch("y:0");
  return request;
}

TEST(RemoteStep, AnswersAreResults) {
  Step step(nullptr, Request(), {{"x:0", Large()}}, 1);
  const Sent sent = Read(step.Encode());
  EXPECT_EQ(sent.request.session_handle(), "handle");
  EXPECT_NE(sent.request.request_id(), 0);
  EXPECT_EQ(sent.extras.ByteSizeLong(), 0u);
  ASSERT_EQ(sent.feeds.size(), 1u);
  EXPECT_EQ(sent.feeds[0].value.num_elements(), 50'000);
  const auto answer = step.Decode(AnswerOf({{"y:0", Large()}}, {}));
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->ok()) << answer->status();
  ASSERT_EQ((*answer)->tensors.size(), 1u);
  EXPECT_EQ((*answer)->tensors[0].value.num_elements(), 50'000);
  const auto failed = Step(nullptr, Request(), {}, 1).Decode(errors::Unavailable("gone"));
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->status().message(), "gone");
}

TEST(RemoteStep, AResultThatNobodyAskedToLendIsRefused) {
  Step step(nullptr, Request(), {}, 1);
  ASSERT_TRUE(step.Encode().ok());
  step_extras::Response extras;
  extras.add_result()->set_bytes(Large().num_bytes());
  const auto answer = step.Decode(AnswerOf({{"y:0", Large(), true}}, extras));
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(answer->status())) << answer->status();
}

TEST(RemoteStep, FeedsThatAreWantedAgainComeInTheMessageUnderAnotherNumber) {
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  const auto calls = std::make_shared<CallSet>();
  {
    ServerLink link("a server", channel, calls, 1000);
    Step step(&link, Request(), {{"x:0", Large()}}, 1);
    const Sent first = Read(step.Encode());
    step_extras::Response again;
    again.set_wants_feeds_again(true);
    EXPECT_FALSE(step.Decode(AnswerOf({}, again)).has_value());
    const Sent second = Read(step.Encode());
    EXPECT_NE(second.request.request_id(), first.request.request_id());
    EXPECT_EQ(second.extras.ByteSizeLong(), 0u);
    ASSERT_EQ(second.feeds.size(), 1u);
    EXPECT_EQ(second.feeds[0].value.num_elements(), 50'000);
    // A server that wants them for ever does not get them for ever.
    const auto refused = step.Decode(AnswerOf({}, again));
    ASSERT_TRUE(refused.has_value());
    EXPECT_TRUE(absl::IsInternal(refused->status())) << refused->status();
    calls->EndAll(absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace tandem
