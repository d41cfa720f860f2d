#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/input_test_util.h"
#include "runtime/threads/run_tokens.h"

namespace tandem::data {
namespace {

using testing::HasSubstr;

// Lets a number of elements through, then waits. `passed` counts.
struct Gate {
  Mutex mu;
  CondVar changed;
  int allowed ABSL_GUARDED_BY(mu) = 0;
  int entered ABSL_GUARDED_BY(mu) = 0;

  void Allow(int count) {
    MutexLock lock(mu);
    allowed += count;
    changed.NotifyAll();
  }
  void WaitForEntered(int count) {
    MutexLock lock(mu);
    while (entered < count) changed.Wait(mu);
  }
};
std::atomic<Gate*> gate{nullptr};

const bool registered = RegisterMapFunction(
    "prefetch_test_gate", [](const MapContext&, Element element) -> absl::StatusOr<Element> {
      Gate* const g = gate.load();
      ScopedRunTokenRelease released;
      MutexLock lock(g->mu);
      ++g->entered;
      g->changed.NotifyAll();
      while (g->allowed < g->entered) g->changed.Wait(g->mu);
      return element;
    });

const bool failing_registered =
    RegisterMapFunction("prefetch_test_fail_at_2", [](const MapContext& context, Element element) {
      if (context.index == 2) return absl::StatusOr<Element>(errors::DataLoss("torn"));
      return absl::StatusOr<Element>(std::move(element));
    });

const bool hungry_registered =
    RegisterMapFunction("prefetch_test_hungry", [](const MapContext& context, Element element) {
      if (context.index == 2) throw std::bad_alloc();
      return absl::StatusOr<Element>(std::move(element));
    });

const bool hungry_dataset_registered =
    RegisterDatasetFunction("prefetch_test_hungry_files", [](const Element& element) {
      if (element[0].ScalarValue<int64_t>() == 2) throw std::bad_alloc();
      return absl::StatusOr<Dataset>(Dataset::Range(2));
    });

// Two things that throw below the thread, the second where nothing else would catch it.
TEST(PrefetchTest, WhatFindsNoMemoryBelowItIsAnError) {
  for (const Dataset& dataset :
       {Dataset::Range(4).Map("prefetch_test_hungry", {.threads = 1}),
        Dataset::Range(4).Interleave("prefetch_test_hungry_files", {.cycle = 1, .block = 2})}) {
    for (const int64_t size : {1, 3}) {
      const auto iterator = dataset.Prefetch(size).Open();
      ASSERT_TRUE(iterator.ok()) << iterator.status();
      int errors = 0;
      for (;;) {
        const auto element = (*iterator)->Next();
        if (element.ok() && !element->has_value()) break;
        if (element.ok()) continue;
        ++errors;
        EXPECT_EQ(element.status().code(), absl::StatusCode::kResourceExhausted);
        EXPECT_THAT(std::string(element.status().message()), HasSubstr("no memory"));
      }
      EXPECT_EQ(errors, 1);
    }
  }
}

TEST(PrefetchTest, ChangesNothing) {
  const Dataset dataset = Dataset::Range(50).Shuffle(10, 1).Batch(3);
  for (const int64_t size : {1, 2, 100}) EXPECT_EQ(All(dataset.Prefetch(size)), All(dataset));
  EXPECT_EQ(All(dataset.Prefetch(2).Prefetch(2).Repeat(2)), All(dataset.Repeat(2)));
}

TEST(PrefetchTest, ReadsAheadWhileNobodyAsks) {
  Gate g;
  gate = &g;
  {
    const auto iterator = Dataset::Range(9).Map("prefetch_test_gate").Prefetch(3).Open();
    ASSERT_TRUE(iterator.ok());
    g.Allow(100);
    ASSERT_TRUE((*iterator)->Next().ok());
    // The first one, and three more that nobody has asked for.
    g.WaitForEntered(4);
  }
  gate = nullptr;
}

TEST(PrefetchTest, ANextThatWaitsCanBeCancelled) {
  Gate g;
  gate = &g;
  {
    const auto iterator = Dataset::Range(9).Map("prefetch_test_gate").Prefetch(1).Open();
    ASSERT_TRUE(iterator.ok());
    std::thread canceller([&] {
      g.WaitForEntered(1);
      (*iterator)->Cancel();
    });
    EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
    canceller.join();
    g.Allow(100);
  }
  gate = nullptr;
}

TEST(PrefetchTest, ASaveThatWaitsForTheProducerCanBeCancelled) {
  Gate g;
  gate = &g;
  {
    const auto iterator = Dataset::Range(9).Map("prefetch_test_gate").Prefetch(2).Open();
    ASSERT_TRUE(iterator.ok());
    g.Allow(1);
    ASSERT_TRUE((*iterator)->Next().ok());
    g.WaitForEntered(2);
    std::thread canceller([&] { (*iterator)->Cancel(); });
    EXPECT_EQ((*iterator)->SaveState().status().code(), absl::StatusCode::kCancelled);
    canceller.join();
    g.Allow(100);
  }
  gate = nullptr;
}

TEST(PrefetchTest, AnIteratorMayBeDestroyedInTheMiddle) {
  for (int read = 0; read < 4; ++read) {
    const auto iterator = Dataset::Range(100).Repeat().Batch(2).Prefetch(2).Prefetch(3).Open();
    ASSERT_TRUE(iterator.ok());
    for (int i = 0; i < read; ++i) ASSERT_TRUE((*iterator)->Next().ok());
  }
}

TEST(PrefetchTest, ErrorsComeInTheirPlaceAlsoAfterARestore) {
  const Dataset dataset = Dataset::Range(5).Map("prefetch_test_fail_at_2").Prefetch(4);
  const auto iterator = dataset.Open();
  const auto other = dataset.Open();
  ASSERT_TRUE(iterator.ok() && other.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  ASSERT_TRUE((*other)->RestoreState(*(*iterator)->SaveState()).ok());
  for (const auto& it : {iterator->get(), other->get()}) {
    EXPECT_EQ((**it->Next())[0].ScalarValue<int64_t>(), 1);
    EXPECT_EQ(it->Next().status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ((**it->Next())[0].ScalarValue<int64_t>(), 3);
  }
}

TEST(PrefetchTest, EveryPositionCanBeRestored) {
  ExpectSameAfterRestoreEverywhere(Dataset::Range(12).Shuffle(4, 1).Batch(2).Prefetch(2));
}

TEST(PrefetchTest, WorksWithOneRunToken) {
  RunTokens& tokens = RunTokens::Process();
  const int capacity = tokens.capacity();
  tokens.SetCapacity(1);
  EXPECT_EQ(All(Dataset::Range(40).Prefetch(2).Batch(3).Prefetch(2)),
            All(Dataset::Range(40).Batch(3)));
  tokens.SetCapacity(capacity);
}

TEST(PrefetchTest, ASizeBelowOneIsRefused) {
  const absl::Status status = OpenStatus(Dataset::Range(3).Prefetch(0));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the size is 0"));
}

}  // namespace
}  // namespace tandem::data
