#include "runtime/rendezvous/local_rendezvous.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

Rendezvous::Entry Number(float value) { return {Tensor::Scalar<float>(value), false}; }

// What a Receive was answered; `answers` counts how often.
struct Answer {
  std::atomic<int> answers{0};
  absl::StatusOr<Rendezvous::Entry> entry = errors::Unknown("no answer yet");

  Rendezvous::Received Take() {
    return [this](absl::StatusOr<Rendezvous::Entry> received) {
      entry = std::move(received);
      answers.fetch_add(1);
    };
  }
};

TEST(LocalRendezvous, TheValueMayComeFirst) {
  LocalRendezvous rendezvous;
  ASSERT_TRUE(rendezvous.Send("a", Number(1)).ok());
  ASSERT_TRUE(rendezvous.Send("b", Number(2)).ok());
  Answer answer;
  rendezvous.Receive("b", nullptr, answer.Take());
  EXPECT_EQ(answer.answers, 1);
  ASSERT_TRUE(answer.entry.ok()) << answer.entry.status();
  EXPECT_EQ(answer.entry->value.ScalarValue<float>(), 2);
}

TEST(LocalRendezvous, TheReceiverMayComeFirst) {
  LocalRendezvous rendezvous;
  CancellationManager cancellation;
  Answer answer;
  rendezvous.Receive("a", &cancellation, answer.Take());
  EXPECT_EQ(answer.answers, 0);
  ASSERT_TRUE(rendezvous.Send("a", Number(1)).ok());
  EXPECT_EQ(answer.answers, 1);
  // It waits no longer: a cancellation does not reach it.
  cancellation.Cancel(errors::Cancelled("too late"));
  EXPECT_EQ(answer.answers, 1);
  EXPECT_TRUE(answer.entry.ok());
}

TEST(LocalRendezvous, DeadValuesArriveDead) {
  LocalRendezvous rendezvous;
  ASSERT_TRUE(rendezvous.Send("a", {Tensor(), true}).ok());
  Answer answer;
  rendezvous.Receive("a", nullptr, answer.Take());
  ASSERT_TRUE(answer.entry.ok());
  EXPECT_TRUE(answer.entry->is_dead);
}

TEST(LocalRendezvous, EachKeyMeetsOnce) {
  LocalRendezvous rendezvous;
  ASSERT_TRUE(rendezvous.Send("a", Number(1)).ok());
  EXPECT_EQ(rendezvous.Send("a", Number(1)).code(), absl::StatusCode::kAborted);
  Answer first, second, waiting, late;
  rendezvous.Receive("a", nullptr, first.Take());
  EXPECT_TRUE(first.entry.ok());
  rendezvous.Receive("a", nullptr, second.Take());
  EXPECT_EQ(second.entry.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rendezvous.Send("a", Number(1)).code(), absl::StatusCode::kAborted);

  rendezvous.Receive("b", nullptr, waiting.Take());
  rendezvous.Receive("b", nullptr, late.Take());
  EXPECT_EQ(late.entry.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(waiting.answers, 0);
  ASSERT_TRUE(rendezvous.Send("b", Number(1)).ok());
  EXPECT_EQ(waiting.answers, 1);
}

TEST(LocalRendezvous, ACancelledReceiverIsAnsweredAtOnce) {
  LocalRendezvous rendezvous;
  CancellationManager cancellation;
  Answer answer;
  rendezvous.Receive("a", &cancellation, answer.Take());
  cancellation.Cancel(errors::DeadlineExceeded("the step takes too long"));
  EXPECT_EQ(answer.answers, 1);
  EXPECT_EQ(answer.entry.status().code(), absl::StatusCode::kDeadlineExceeded);

  Answer after;
  // What was waited for may come all the same.
  EXPECT_TRUE(rendezvous.Send("a", {}).ok());
  rendezvous.Receive("b", &cancellation, after.Take());
  EXPECT_EQ(after.entry.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(LocalRendezvous, AnAbortEndsWhatWaitsAndWhatComes) {
  LocalRendezvous rendezvous;
  CancellationManager cancellation;
  Answer waiting, after;
  rendezvous.Receive("a", &cancellation, waiting.Take());
  ASSERT_TRUE(rendezvous.Send("b", Number(1)).ok());
  rendezvous.Abort(errors::Unavailable("the peer is gone"));
  rendezvous.Abort(errors::Internal("a second reason"));
  EXPECT_EQ(waiting.entry.status().code(), absl::StatusCode::kUnavailable);
  rendezvous.Receive("b", &cancellation, after.Take());
  EXPECT_EQ(after.entry.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rendezvous.Send("c", Number(1)).code(), absl::StatusCode::kUnavailable);
  cancellation.Cancel(errors::Cancelled("later"));
  EXPECT_EQ(waiting.answers, 1);
}

TEST(LocalRendezvous, ItsEndEndsThoseWhoWait) {
  Answer answer;
  {
    LocalRendezvous rendezvous;
    rendezvous.Receive("a", nullptr, answer.Take());
  }
  EXPECT_EQ(answer.entry.status().code(), absl::StatusCode::kCancelled);
}

// Senders, receivers and a cancellation at the same time: everybody is answered once.
TEST(LocalRendezvous, ManyThreadsMeet) {
  constexpr int kKeys = 200;
  for (const bool cancels : {false, true}) {
    LocalRendezvous rendezvous;
    CancellationManager cancellation;
    std::vector<Answer> answers(kKeys);
    std::thread sender([&] {
      for (int i = 0; i < kKeys; ++i) {
        const absl::Status status =
            rendezvous.Send(std::to_string(i), Number(static_cast<float>(i)));
        EXPECT_TRUE(status.ok() || cancels) << status;
      }
    });
    std::thread receiver([&] {
      for (int i = 0; i < kKeys; ++i) {
        rendezvous.Receive(std::to_string(i), &cancellation,
                           answers[static_cast<size_t>(i)].Take());
      }
    });
    std::thread canceller([&] {
      if (cancels) cancellation.Cancel(errors::Cancelled("stop"));
    });
    sender.join();
    receiver.join();
    canceller.join();
    for (int i = 0; i < kKeys; ++i) {
      const Answer& answer = answers[static_cast<size_t>(i)];
      ASSERT_EQ(answer.answers, 1) << i;
      if (answer.entry.ok()) {
        EXPECT_EQ(answer.entry->value.ScalarValue<float>(), static_cast<float>(i));
      } else {
        EXPECT_TRUE(cancels) << answer.entry.status();
      }
    }
  }
}

}  // namespace
}  // namespace tandem
