#include "runtime/threads/run_tokens.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

// The process's tokens are as many as a test says, and as before afterwards.
class ScopedCapacity {
 public:
  explicit ScopedCapacity(int capacity) : before_(RunTokens::Process().capacity()) {
    RunTokens::Process().SetCapacity(capacity);
    RunTokens::Process().ResetHighWater();
  }
  ~ScopedCapacity() { RunTokens::Process().SetCapacity(before_); }

 private:
  const int before_;
};

TEST(RunTokensTest, TryAcquireTakesWhatThereIsAndNoMore) {
  RunTokens tokens(2);
  EXPECT_TRUE(tokens.TryAcquire());
  EXPECT_TRUE(tokens.HasFree());
  EXPECT_TRUE(tokens.TryAcquire());
  EXPECT_FALSE(tokens.HasFree());
  EXPECT_FALSE(tokens.TryAcquire());
  tokens.Release();
  EXPECT_TRUE(tokens.TryAcquire());
  EXPECT_EQ(tokens.high_water(), 2);
  tokens.Release();
  tokens.Release();
  tokens.ResetHighWater();
  EXPECT_EQ(tokens.high_water(), 0);
}

TEST(RunTokensTest, SeveralTokensAreTakenTogetherOrNotAtAll) {
  RunTokens tokens(3);
  EXPECT_TRUE(tokens.TryAcquire(2));
  EXPECT_FALSE(tokens.TryAcquire(2));
  EXPECT_EQ(tokens.free_now(), 1);
  EXPECT_TRUE(tokens.TryAcquire(0));
  EXPECT_EQ(tokens.high_water(), 2);
}

TEST(RunTokensTest, ManyThreadsNeverHoldMoreThanThereAreAndAllGetTheirTurn) {
  constexpr int kTokens = 3, kThreads = 12, kTurns = 2000;
  RunTokens tokens(kTokens);
  std::atomic<int> holding{0}, most{0}, turns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        tokens.Acquire();
        const int now = holding.fetch_add(1) + 1;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        if (i % 16 == 0) std::this_thread::yield();
        ++turns;
        holding.fetch_sub(1);
        tokens.Release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
  EXPECT_LE(most, kTokens);
  EXPECT_LE(tokens.high_water(), kTokens);
  EXPECT_FALSE(tokens.HasWaiters());
  for (int i = 0; i < kTokens; ++i) EXPECT_TRUE(tokens.TryAcquire());
  EXPECT_FALSE(tokens.TryAcquire());
}

TEST(RunTokensTest, AWaiterIsNotOvertakenForEver) {
  RunTokens tokens(1);
  std::atomic<bool> served{false};
  tokens.Acquire();
  std::thread waiter([&] {
    tokens.Acquire();
    served = true;
    tokens.Release();
  });
  // Takes the token again at once after each release, as a busy worker does. The loop ends only
  // because the waiter gets its turn.
  while (!served) {
    tokens.Release();
    tokens.Acquire();
  }
  tokens.Release();
  waiter.join();
}

TEST(RunTokensTest, ARaisedCapacityWakesThoseWhoWait) {
  RunTokens tokens(1);
  tokens.Acquire();
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) waiters.emplace_back([&] { tokens.Acquire(); });
  tokens.SetCapacity(4);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_FALSE(tokens.TryAcquire());
}

TEST(RunTokensTest, ALoweredCapacityTakesEffectAsTokensComeBack) {
  RunTokens tokens(2);
  tokens.Acquire();
  tokens.Acquire();
  tokens.SetCapacity(1);
  tokens.Release();
  EXPECT_FALSE(tokens.TryAcquire());
  tokens.Release();
  EXPECT_TRUE(tokens.TryAcquire());
  tokens.Release();
}

TEST(ScopedRunTokenTest, AnInnerScopeTakesNothing) {
  ScopedCapacity one(1);
  EXPECT_FALSE(ThisThreadHoldsRunToken());
  {
    ScopedRunToken outer;
    ScopedRunToken inner;  // Would wait for ever if it took a second one.
    EXPECT_TRUE(ThisThreadHoldsRunToken());
  }
  EXPECT_FALSE(ThisThreadHoldsRunToken());
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
  EXPECT_TRUE(RunTokens::Process().HasFree());
}

TEST(ScopedRunTokenTest, AReleasedTokenIsSomebodyElsesMeanwhile) {
  ScopedCapacity one(1);
  ScopedRunToken outer;
  {
    ScopedRunToken inner;
    ScopedRunTokenRelease released;
    EXPECT_FALSE(ThisThreadHoldsRunToken());
    std::thread([] { ScopedRunToken token; }).join();
  }
  EXPECT_TRUE(ThisThreadHoldsRunToken());
  EXPECT_FALSE(RunTokens::Process().HasFree());
}

TEST(ScopedRunTokenTest, AReleaseWithoutATokenDoesNothing) {
  ScopedCapacity one(1);
  { ScopedRunTokenRelease released; }
  EXPECT_FALSE(ThisThreadHoldsRunToken());
  EXPECT_TRUE(RunTokens::Process().HasFree());
}

TEST(ScopedRunTokenTest, AnAdoptedTokenIsGivenBack) {
  ScopedCapacity one(1);
  ASSERT_TRUE(RunTokens::Process().TryAcquire());
  std::thread([] {
    AdoptedRunToken token;
    EXPECT_TRUE(ThisThreadHoldsRunToken());
  }).join();
  EXPECT_TRUE(RunTokens::Process().HasFree());
}

}  // namespace
}  // namespace tandem
