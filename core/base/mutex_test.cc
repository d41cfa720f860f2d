#include "core/base/mutex.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(Mutex, AdmitsOneThreadAtATime) {
  constexpr int kThreads = 4, kRounds = 10000;
  Mutex mu;
  int value = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        MutexLock lock(mu);
        ++value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, kThreads * kRounds);
}

TEST(Mutex, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mu;
  bool locked = true;
  {
    MutexLock lock(mu);
    std::thread([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { locked = mu.TryLock(); }).join();
  }
  EXPECT_FALSE(locked);
  const bool free_again = mu.TryLock();
  if (free_again) mu.Unlock();
  EXPECT_TRUE(free_again);
}

TEST(CondVar, HandsAValueFromThreadToThread) {
  Mutex mu;
  CondVar changed;
  int turn = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      MutexLock lock(mu);
      while (turn % 2 == 0) changed.Wait(mu);
      ++turn;
      changed.NotifyAll();
    }
  });
  for (int i = 0; i < 100; ++i) {
    MutexLock lock(mu);
    while (turn % 2 == 1) changed.Wait(mu);
    EXPECT_EQ(turn, 2 * i);
    ++turn;
    changed.NotifyAll();
  }
  other.join();
  EXPECT_EQ(turn, 200);
}

TEST(CondVar, WaitUntilEndsAtADeadlineAndHoldsTheLockAgain) {
  Mutex mu;
  CondVar changed;
  MutexLock lock(mu);
  // A spurious end is possible, but not for ever.
  while (changed.WaitUntil(mu, absl::Now() - absl::Seconds(1))) {
  }
  while (changed.WaitUntil(mu, absl::InfinitePast())) {
  }
  bool locked = true;
  std::thread([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { locked = mu.TryLock(); }).join();
  EXPECT_FALSE(locked);
}

TEST(CondVar, ADeadlineBeyondTheClocksRangeIsNotInThePast) {
  Mutex mu;
  CondVar changed;
  bool ready = false;
  std::thread other;
  {
    MutexLock lock(mu);
    other = std::thread([&] {
      MutexLock lock(mu);
      ready = true;
      changed.NotifyOne();
    });
    const absl::Time far = absl::Now() + absl::Hours(24 * 365) * 10000;
    while (!ready) ASSERT_TRUE(changed.WaitUntil(mu, far));
  }
  other.join();
}

TEST(Event, HappensOnceForAllWhoWait) {
  Event event;
  EXPECT_FALSE(event.IsSet());
  EXPECT_FALSE(event.Wait(absl::InfinitePast()));
  std::vector<std::thread> threads;
  std::vector<char> seen(3, 0);
  for (char& each : seen) threads.emplace_back([&event, &each] { each = event.Wait(); });
  event.Set();
  event.Set();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<char>(3, 1));
  EXPECT_TRUE(event.IsSet());
  EXPECT_TRUE(event.Wait(absl::InfinitePast())) << "a set event needs no time";
}

// Under the sanitizers this fails when Set touches the event after the waiter has gone on.
TEST(Event, MayBeDestroyedAsSoonAsWaitHasReturned) {
  for (int i = 0; i < 200; ++i) {
    auto event = std::make_unique<Event>();
    std::thread setter([raw = event.get()] { raw->Set(); });
    EXPECT_TRUE(event->Wait());
    event.reset();
    setter.join();
  }
}

}  // namespace
}  // namespace tandem
