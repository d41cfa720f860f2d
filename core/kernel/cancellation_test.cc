#include "core/kernel/cancellation.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(Cancellation, CallbacksRunOnceAndTheFirstReasonStays) {
  CancellationManager manager;
  int calls = 0;
  ASSERT_TRUE(manager.Register(manager.NewToken(), [&] { ++calls; }));
  EXPECT_FALSE(manager.IsCancelled());
  EXPECT_TRUE(manager.status().ok());
  manager.Cancel(absl::AbortedError("first"));
  manager.Cancel(absl::AbortedError("second"));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(manager.IsCancelled());
  EXPECT_EQ(manager.status(), absl::AbortedError("first"));
  EXPECT_FALSE(manager.Register(manager.NewToken(), [&] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST(Cancellation, SuccessIsNoReason) {
  CancellationManager manager;
  manager.Cancel(absl::OkStatus());
  EXPECT_EQ(manager.status().code(), absl::StatusCode::kCancelled);
}

TEST(Cancellation, WhatWasDeregisteredDoesNotRun) {
  CancellationManager manager;
  int calls = 0;
  const auto first = manager.NewToken();
  const auto second = manager.NewToken();
  ASSERT_TRUE(manager.Register(first, [&] { ++calls; }));
  ASSERT_TRUE(manager.Register(second, [&] { ++calls; }));
  EXPECT_TRUE(manager.Deregister(first));
  EXPECT_FALSE(manager.Deregister(first));
  EXPECT_TRUE(manager.TryDeregister(second));
  EXPECT_FALSE(manager.TryDeregister(second));
  manager.Cancel(absl::AbortedError("enough"));
  EXPECT_EQ(calls, 0);
}

// What the callback uses may be destroyed once Deregister has returned.
TEST(Cancellation, DeregisterWaitsForACallbackThatRuns) {
  CancellationManager manager;
  const auto token = manager.NewToken();
  Event begun, go_on;
  bool ended = false;  // Plain: Deregister's return is what orders the two threads.
  ASSERT_TRUE(manager.Register(token, [&] {
    begun.Set();
    go_on.Wait();
    ended = true;
  }));
  std::thread canceller([&] { manager.Cancel(absl::AbortedError("enough")); });
  begun.Wait();
  // Neither waits nor finds it.
  EXPECT_FALSE(manager.TryDeregister(token));
  std::thread helper([&] { go_on.Set(); });
  EXPECT_FALSE(manager.Deregister(token));
  EXPECT_TRUE(ended);
  helper.join();
  canceller.join();
}

TEST(Cancellation, ACallbackMayDeregisterItselfAndOthers) {
  CancellationManager manager;
  const auto first = manager.NewToken();
  const auto second = manager.NewToken();
  std::vector<bool> found;
  bool second_ran = false;
  ASSERT_TRUE(manager.Register(first, [&] {
    found.push_back(manager.Deregister(first));
    found.push_back(manager.Deregister(second));
  }));
  ASSERT_TRUE(manager.Register(second, [&] { second_ran = true; }));
  manager.Cancel(absl::AbortedError("enough"));
  EXPECT_EQ(found, std::vector<bool>({false, true}));
  EXPECT_FALSE(second_ran);
}

TEST(Cancellation, GoesFromParentToChildAndNotBack) {
  CancellationManager parent;
  CancellationManager child(&parent);
  { CancellationManager gone(&parent); }
  CancellationManager other(&parent);
  other.Cancel(absl::AbortedError("the other alone"));
  EXPECT_FALSE(parent.IsCancelled());
  EXPECT_FALSE(child.IsCancelled());
  parent.Cancel(absl::AbortedError("all"));
  EXPECT_EQ(child.status(), absl::AbortedError("all"));
  EXPECT_EQ(other.status(), absl::AbortedError("the other alone"));
  CancellationManager late(&parent);
  EXPECT_EQ(late.status(), absl::AbortedError("all"));
}

}  // namespace
}  // namespace tandem
