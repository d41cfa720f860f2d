#include "runtime/threads/thread_pool.h"

#include <atomic>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

absl::Time Deadline() { return absl::Now() + absl::Seconds(60); }

TEST(ThreadPoolTest, OneThreadRunsClosuresInTheOrderTheyCame) {
  std::vector<int> order;
  {
    ThreadPool pool("test", 1);
    for (int i = 0; i < 300; ++i) pool.Schedule([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 300u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(order[i], i);
}

TEST(ThreadPoolTest, ThreadsAreStartedOnlyWhenWorkComes) {
  ThreadPool pool("test", 4);
  EXPECT_EQ(pool.thread_count(), 0);
  Event ran;
  pool.Schedule([&] { ran.Set(); });
  ASSERT_TRUE(ran.Wait(Deadline()));
  EXPECT_EQ(pool.thread_count(), 1);
}

TEST(ThreadPoolTest, ClosuresRunAtOnceUpToTheLimit) {
  ThreadPool pool("test", 2);
  RunTokens& tokens = RunTokens::Process();
  const int before = tokens.capacity();
  tokens.SetCapacity(2);
  // Each waits for the other: passes only if both run at once. (Closures of an executor may not do
  // this.)
  Event first, second;
  Event done;
  pool.Schedule([&] {
    first.Set();
    EXPECT_TRUE(second.Wait(Deadline()));
    done.Set();
  });
  pool.Schedule([&] {
    EXPECT_TRUE(first.Wait(Deadline()));
    second.Set();
  });
  EXPECT_TRUE(done.Wait(Deadline()));
  tokens.SetCapacity(before);
}

TEST(ThreadPoolTest, AClosureHoldsARunToken) {
  ThreadPool pool("test", 1);
  Event ran;
  bool held = false;
  pool.Schedule([&] {
    held = ThisThreadHoldsRunToken();
    ran.Set();
  });
  ASSERT_TRUE(ran.Wait(Deadline()));
  EXPECT_TRUE(held);
}

TEST(ThreadPoolTest, ClosuresThatScheduleMoreAreAllRunBeforeThePoolEnds) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool("test", 2);
    for (int i = 0; i < 100; ++i) {
      pool.Schedule([&] {
        ++ran;
        pool.Schedule([&] {
          ++ran;
          pool.Schedule([&] { ++ran; });
        });
      });
    }
  }
  EXPECT_EQ(ran, 300);
}

TEST(ThreadPoolTest, WhatAClosureCapturedDiesOnceItRan) {
  ThreadPool pool("test", 1);
  auto captured = std::make_shared<int>(1);
  std::weak_ptr<int> watch = captured;
  Event next;
  pool.Schedule([captured = std::move(captured)] {});
  pool.Schedule([&] { next.Set(); });
  ASSERT_TRUE(next.Wait(Deadline()));
  EXPECT_TRUE(watch.expired());
}

TEST(ThreadPoolTest, TheLimitCanBeChangedWhileClosuresRun) {
  std::atomic<int> running{0}, most{0}, ran{0};
  {
    ThreadPool pool("test", 4);
    const auto work = [&] {
      const int now = ++running;
      int seen = most.load();
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::yield();
      ++ran;
      --running;
    };
    for (int i = 0; i < 200; ++i) pool.Schedule(work);
    Event drained;
    pool.SetMaxRunning(1);
    pool.Schedule([&] { drained.Set(); });  // The last in the queue.
    ASSERT_TRUE(drained.Wait(Deadline()));
    EXPECT_EQ(pool.max_running(), 1);
    most = 0;
    for (int i = 0; i < 200; ++i) pool.Schedule(work);
    Event ended;
    pool.Schedule([&] { ended.Set(); });
    ASSERT_TRUE(ended.Wait(Deadline()));
    EXPECT_EQ(most, 1);
    pool.SetMaxRunning(3);
    for (int i = 0; i < 200; ++i) pool.Schedule(work);
  }
  EXPECT_EQ(ran, 600);
}

TEST(ThreadPoolTest, ManyThreadsMaySchedule) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool("test", 3);
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) pool.Schedule([&] { ++ran; });
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(ran, 8000);
}

TEST(ExecutorPoolTest, RunsOnOneThreadWhenToldTo) {
  ThreadPool& pool = ExecutorPool();
  const int before = pool.max_running();
  pool.SetMaxRunning(1);
  Event ran;
  pool.Schedule([&] { pool.Schedule([&] { ran.Set(); }); });
  EXPECT_TRUE(ran.Wait(Deadline()));
  pool.SetMaxRunning(before);
}

}  // namespace
}  // namespace tandem
