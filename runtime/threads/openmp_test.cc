// The entry points as a compiler would call them. What oneDNN makes of them is in
// openmp_onednn_test.cc.
#include "runtime/threads/openmp.h"

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "runtime/threads/helpers.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"

extern "C" {
void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads, unsigned flags);
void GOMP_barrier();
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
}

namespace tandem {
namespace {

using Body = absl::FunctionRef<void()>;

void Parallel(unsigned threads, Body body) {
  GOMP_parallel([](void* data) { (*static_cast<Body*>(data))(); }, &body, threads, 0);
}

class OpenMpTest : public testing::Test {
 protected:
  void SetUp() override { SetTokens(2); }
  void TearDown() override { RunTokens::Process().SetCapacity(before_); }
  void SetTokens(int tokens) {
    RunTokens::Process().SetCapacity(tokens);
    RunTokens::Process().ResetHighWater();
  }
  const int before_ = RunTokens::Process().capacity();
};

TEST_F(OpenMpTest, ATeamHasExactlyTheSizeThatWasAskedFor) {
  for (int tokens : {1, 2, 4}) {
    SetTokens(tokens);
    for (int size : {2, 3, 8, 33}) {
      std::vector<std::atomic<int>> ran(size);
      Parallel(size, [&] {
        EXPECT_EQ(omp_get_num_threads(), size);
        EXPECT_TRUE(omp_in_parallel());
        EXPECT_TRUE(ThisThreadHoldsRunToken() || size > tokens);
        ++ran[omp_get_thread_num()];
      });
      for (int i = 0; i < size; ++i) EXPECT_EQ(ran[i], 1) << i << " of " << size;
    }
    EXPECT_LE(RunTokens::Process().high_water(), tokens);
  }
  EXPECT_FALSE(ThisThreadHoldsRunToken());
}

TEST_F(OpenMpTest, OutsideARegionThereIsOneThread) {
  EXPECT_EQ(omp_get_num_threads(), 1);
  EXPECT_EQ(omp_get_thread_num(), 0);
  EXPECT_FALSE(omp_in_parallel());
  GOMP_barrier();  // Of a team of one.
}

TEST_F(OpenMpTest, MaxThreadsIsTheInnerParallelismAndTheDefaultSize) {
  EXPECT_EQ(omp_get_max_threads(), 2);
  ScopedInnerParallelism three(3);
  EXPECT_EQ(omp_get_max_threads(), 3);
  std::atomic<int> ran{0};
  Parallel(0, [&] {
    ++ran;
    EXPECT_EQ(omp_get_num_threads(), 3);
    EXPECT_EQ(omp_get_max_threads(), 3);
  });
  EXPECT_EQ(ran, 3);
  ScopedInnerParallelism one(1);
  Parallel(0, [&] { EXPECT_FALSE(omp_in_parallel()); });
}

TEST_F(OpenMpTest, ARegionInsideARegionHasOneMember) {
  std::atomic<int> inner{0};
  Parallel(3, [&] {
    const int outer_index = omp_get_thread_num();
    Parallel(4, [&] {
      ++inner;
      EXPECT_EQ(omp_get_num_threads(), 1);
      EXPECT_EQ(omp_get_thread_num(), 0);
      EXPECT_TRUE(omp_in_parallel());
      GOMP_barrier();  // Concerns the inner team only.
    });
    EXPECT_EQ(omp_get_num_threads(), 3);
    EXPECT_EQ(omp_get_thread_num(), outer_index);
  });
  EXPECT_EQ(inner, 3);
}

TEST_F(OpenMpTest, NobodyPassesABarrierBeforeEverybodyCame) {
  constexpr int kRounds = 50;
  for (int tokens : {1, 2, 4}) {
    SetTokens(tokens);
    for (int size : {2, 3, 5}) {
      std::vector<std::atomic<int>> arrived(kRounds);
      Parallel(size, [&] {
        for (int round = 0; round < kRounds; ++round) {
          ++arrived[round];
          GOMP_barrier();
          EXPECT_EQ(arrived[round], size) << "round " << round << ", " << tokens << " tokens";
        }
      });
    }
    EXPECT_LE(RunTokens::Process().high_water(), tokens);
  }
}

TEST_F(OpenMpTest, WhatWasWrittenBeforeABarrierIsSeenBehindIt) {
  constexpr int kSize = 4;
  std::vector<int> cells(kSize);  // Not atomic: the thread sanitizer judges the barrier.
  Parallel(kSize, [&] {
    const int me = omp_get_thread_num();
    for (int round = 1; round <= 20; ++round) {
      cells[me] = round * (me + 1);
      GOMP_barrier();
      const int next = (me + 1) % kSize;
      EXPECT_EQ(cells[next], round * (next + 1));
      GOMP_barrier();
    }
  });
}

// Runs `gangs` callers at once, each with `regions` teams of `size` whose members meet again and
// again by `meet`, beside a thread that takes and gives single tokens. Returns the most members
// that were seen to compute at once.
int RunGangs(int gangs, int size, int regions,
             absl::FunctionRef<void(std::atomic<int>&, int)> meet) {
  constexpr int kRounds = 4;
  std::atomic<int> computing{0}, most{0}, gangs_left{gangs};
  std::atomic<int64_t> steps{0};
  std::vector<std::thread> callers;
  for (int g = 0; g < gangs; ++g) {
    callers.emplace_back([&] {
      for (int region = 0; region < regions; ++region) {
        std::atomic<int> arrived{0};
        Parallel(size, [&] {
          for (int round = 1; round <= kRounds; ++round) {
            const int now = ++computing;
            int seen = most.load();
            while (now > seen && !most.compare_exchange_weak(seen, now)) {
            }
            ++steps;
            --computing;
            ++arrived;
            meet(arrived, size * round);
            EXPECT_GE(arrived, size * round);
          }
        });
      }
      --gangs_left;
    });
  }
  callers.emplace_back([&] {
    while (gangs_left > 0) {
      ScopedRunToken token;
      std::this_thread::yield();
    }
  });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(steps, gangs * size * regions * kRounds);
  EXPECT_FALSE(RunTokens::Process().HasWaiters());
  return most;
}

// The tests that this design has to pass: gangs need all their members at once, and there are far
// fewer tokens than members.
TEST_F(OpenMpTest, MoreGangsThanTokensDoNotDeadlockInBarriers) {
  EXPECT_LE(RunGangs(6, 2, 100, [](std::atomic<int>&, int) { GOMP_barrier(); }), 2);
  SetTokens(4);
  EXPECT_LE(RunGangs(6, 3, 50, [](std::atomic<int>&, int) { GOMP_barrier(); }), 4);
  EXPECT_LE(RunTokens::Process().high_water(), 4);
}

// As oneDNN's generated code does it.
TEST_F(OpenMpTest, MoreGangsThanTokensDoNotDeadlockInSpinLoopsThatNobodyKnowsOf) {
  const auto spin = [](std::atomic<int>& arrived, int expected) {
    while (arrived < expected) std::this_thread::yield();
  };
  EXPECT_LE(RunGangs(6, 2, 100, spin), 2);
  SetTokens(4);
  EXPECT_LE(RunGangs(6, 3, 50, spin), 4);
  EXPECT_LE(RunTokens::Process().high_water(), 4);
}

TEST_F(OpenMpTest, ATeamLargerThanTheNumberOfTokensRunsAllItsMembersAtOnce) {
  SetTokens(1);
  RunGangs(3, 4, 20, [](std::atomic<int>& arrived, int expected) {
    while (arrived < expected) std::this_thread::yield();
  });
  EXPECT_EQ(RunTokens::Process().high_water(), 1);
}

TEST_F(OpenMpTest, HelpersAreReusedFromTeamToTeam) {
  Parallel(2, [] {});
  const int before = HelperPool::Process().size();
  for (int i = 0; i < 1000; ++i) Parallel(2, [] {});
  EXPECT_EQ(HelperPool::Process().size(), before);
}

TEST_F(OpenMpTest, WhereTheSystemRefusesThreadsTeamsAreSmallerAndShareWhatThereIs) {
  HelperPool& pool = HelperPool::Process();
  pool.Reserve(3);
  const int helpers = pool.size();
  pool.SetLimit(helpers);
  EXPECT_EQ(ReserveParallelism(helpers + 10), helpers + 1);
  EXPECT_EQ(ReserveParallelism(2), 2);
  std::atomic<int> members{0};
  Parallel(static_cast<unsigned>(helpers) + 10, [&] {
    EXPECT_EQ(omp_get_num_threads(), helpers + 1);
    ++members;
    GOMP_barrier();
  });
  EXPECT_EQ(members, helpers + 1);

  // Each wants all helpers at once, and the barrier lets nobody go on without them.
  members = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Parallel(static_cast<unsigned>(helpers) + 1, [&] {
          ++members;
          GOMP_barrier();
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(members, 4 * 50 * (helpers + 1));
  EXPECT_EQ(pool.size(), helpers);
  pool.SetLimit(std::numeric_limits<int>::max());
}

TEST_F(OpenMpTest, GangsAndLoopsShareHelpersAndTokens) {
  std::atomic<int64_t> units{0}, members{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        if (t % 2 == 0) {
          InnerLoopRunner()->For(16, 1e6, [&](int64_t b, int64_t e) { units += e - b; });
        } else {
          Parallel(2, [&] {
            ++members;
            GOMP_barrier();
          });
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(units, 2 * 100 * 16);
  EXPECT_EQ(members, 2 * 100 * 2);
  EXPECT_LE(RunTokens::Process().high_water(), 2);
}

TEST_F(OpenMpTest, TeamsAndBarriersAreCounted) {
  const OpenMpCounts before = GetOpenMpCounts();
  Parallel(2, [] { GOMP_barrier(); });
  Parallel(1, [] { GOMP_barrier(); });
  const OpenMpCounts after = GetOpenMpCounts();
  EXPECT_EQ(after.teams - before.teams, 1);
  EXPECT_EQ(after.barriers - before.barriers, 1);
}

}  // namespace
}  // namespace tandem
