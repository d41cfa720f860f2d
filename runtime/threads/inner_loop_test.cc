#include "runtime/threads/inner_loop.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

constexpr double kLong = 1e6;  // Nanoseconds: a unit that is worth a thread of its own.

class InnerLoopTest : public testing::Test {
 protected:
  void SetUp() override { SetTokens(2); }
  void TearDown() override { RunTokens::Process().SetCapacity(before_); }
  void SetTokens(int tokens) {
    RunTokens::Process().SetCapacity(tokens);
    RunTokens::Process().ResetHighWater();
  }
  const int before_ = RunTokens::Process().capacity();
  ParallelRunner& runner_ = *InnerLoopRunner();
};

TEST_F(InnerLoopTest, EachUnitRunsExactlyOnce) {
  SetTokens(4);
  for (int64_t total : {1, 2, 3, 7, 64, 1000, 4096, 100'003}) {
    std::vector<std::atomic<int>> hits(total);
    runner_.For(total, kLong, [&](int64_t begin, int64_t end) {
      ASSERT_LT(begin, end);
      for (int64_t i = begin; i < end; ++i) hits[i].fetch_add(1, std::memory_order_relaxed);
    });
    for (int64_t i = 0; i < total; ++i) ASSERT_EQ(hits[i], 1) << "unit " << i << " of " << total;
  }
}

TEST_F(InnerLoopTest, NothingToDoCallsNothing) {
  runner_.For(0, kLong, [](int64_t, int64_t) { FAIL(); });
  runner_.For(-5, kLong, [](int64_t, int64_t) { FAIL(); });
}

TEST_F(InnerLoopTest, AShortLoopRunsInlineInOnePiece) {
  for (double cost : {0.0, 1.0, -1.0, std::nan("")}) {
    int calls = 0;
    std::thread::id where;
    runner_.For(10'000, cost, [&](int64_t begin, int64_t end) {
      ++calls;
      where = std::this_thread::get_id();
      EXPECT_EQ(end - begin, 10'000);
    });
    EXPECT_EQ(calls, 1) << cost;
    EXPECT_EQ(where, std::this_thread::get_id());
  }
}

TEST_F(InnerLoopTest, AHelperJoinsWhenATokenIsFree) {
  // Each of the two pieces that run at once waits for the other.
  Event first, second;
  std::atomic<int> pieces{0};
  runner_.For(2, kLong, [&](int64_t, int64_t) {
    Event& mine = pieces.fetch_add(1) == 0 ? first : second;
    mine.Set();
    Event& other = &mine == &first ? second : first;
    EXPECT_TRUE(other.Wait(absl::Now() + absl::Seconds(60)));
    EXPECT_TRUE(ThisThreadHoldsRunToken());
  });
  EXPECT_EQ(RunTokens::Process().high_water(), 2);
  EXPECT_FALSE(ThisThreadHoldsRunToken());
}

TEST_F(InnerLoopTest, NobodyJoinsWhenNoTokenIsFree) {
  SetTokens(1);
  ScopedInnerParallelism four(4);
  runner_.For(100, kLong, [caller = std::this_thread::get_id()](int64_t, int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
}

TEST_F(InnerLoopTest, TheLimitOfTheScopeHolds) {
  EXPECT_EQ(runner_.parallelism(), 2);
  {
    ScopedInnerParallelism one(1);
    EXPECT_EQ(runner_.parallelism(), 1);
    int calls = 0;
    runner_.For(100, kLong, [&](int64_t, int64_t) { ++calls; });
    EXPECT_EQ(calls, 1);
    ScopedInnerParallelism five(5);
    EXPECT_EQ(runner_.parallelism(), 5);
    ScopedInnerParallelism nonsense(-3);
    EXPECT_EQ(runner_.parallelism(), 1);
  }
  EXPECT_EQ(runner_.parallelism(), 2);
}

TEST_F(InnerLoopTest, ALoopInsideALoopRunsInline) {
  std::atomic<int64_t> sum{0};
  runner_.For(8, kLong, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(runner_.parallelism(), 1);
    for (int64_t i = begin; i < end; ++i) {
      int pieces = 0;
      runner_.For(10, kLong, [&](int64_t b, int64_t e) {
        ++pieces;
        sum += e - b;
      });
      EXPECT_EQ(pieces, 1);
    }
  });
  EXPECT_EQ(sum, 80);
}

TEST_F(InnerLoopTest, WhatABodyThrowsOnAnyThreadReachesTheCaller) {
  SetTokens(4);
  for (int64_t unlucky = 0; unlucky < 64; ++unlucky) {
    EXPECT_THROW(runner_.For(64, kLong,
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 if (i == unlucky) throw std::bad_alloc();
                               }
                             }),
                 std::bad_alloc);
  }
  // On the thread of a helper for sure: the caller's piece ends after the helper's.
  const std::thread::id caller = std::this_thread::get_id();
  SetTokens(2);
  Event thrown;
  EXPECT_THROW(runner_.For(2, kLong,
                           [&](int64_t, int64_t) {
                             if (std::this_thread::get_id() == caller) {
                               thrown.Wait();
                               return;
                             }
                             thrown.Set();
                             throw std::bad_alloc();
                           }),
               std::bad_alloc);
  std::atomic<int> units{0};
  runner_.For(64, kLong,
              [&](int64_t begin, int64_t end) { units += static_cast<int>(end - begin); });
  EXPECT_EQ(units, 64);
}

TEST_F(InnerLoopTest, AnElementwiseBodyGivesTheSameBitsOnAnyNumberOfThreads) {
  constexpr int64_t kCount = 50'000;
  const auto compute = [&](int threads) {
    SetTokens(threads);
    std::vector<float> out(kCount);
    runner_.For(kCount, 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = std::sin(i * 0.1f) / (1 + i);
    });
    return out;
  };
  const std::vector<float> one = compute(1);
  EXPECT_EQ(one, compute(2));
  EXPECT_EQ(one, compute(4));
}

TEST_F(InnerLoopTest, ManyCallersNeverComputeOnMoreThreadsThanThereAreTokens) {
  SetTokens(2);
  std::atomic<int> computing{0}, most{0};
  std::atomic<int64_t> units{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 5; ++t) {
    callers.emplace_back([&] {
      ScopedInnerParallelism four(4);
      for (int i = 0; i < 200; ++i) {
        runner_.For(64, kLong, [&](int64_t begin, int64_t end) {
          const int now = ++computing;
          int seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          units += end - begin;
          --computing;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(units, 5 * 200 * 64);
  EXPECT_LE(most, 2);
  EXPECT_LE(RunTokens::Process().high_water(), 2);
}

TEST(InlineRunnerTest, RunsEverythingInOnePiece) {
  InlineRunner runner;
  EXPECT_EQ(runner.parallelism(), 1);
  std::vector<std::pair<int64_t, int64_t>> pieces;
  runner.For(1'000'000, kLong, [&](int64_t b, int64_t e) { pieces.emplace_back(b, e); });
  runner.For(0, kLong, [&](int64_t b, int64_t e) { pieces.emplace_back(b, e); });
  EXPECT_EQ(pieces, (std::vector<std::pair<int64_t, int64_t>>{{0, 1'000'000}}));
}

}  // namespace
}  // namespace tandem
