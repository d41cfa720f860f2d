#include "core/base/ref_counted.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

class Counted : public RefCounted {
 public:
  explicit Counted(std::atomic<int>* alive) : alive_(alive) { ++*alive_; }
  ~Counted() override { --*alive_; }

 private:
  std::atomic<int>* const alive_;
};

class Derived : public Counted {
 public:
  using Counted::Counted;
};

TEST(RefPtr, TheLastReferenceDestroysTheObject) {
  std::atomic<int> alive = 0;
  auto first = MakeRef<Counted>(&alive);
  EXPECT_TRUE(first->RefCountIsOne());
  RefPtr<Counted> second = first;
  EXPECT_FALSE(first->RefCountIsOne());
  EXPECT_EQ(first, second);
  first.reset();
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(second->RefCountIsOne());
  second = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(RefPtr, MovesWithoutCounting) {
  std::atomic<int> alive = 0;
  auto first = MakeRef<Counted>(&alive);
  RefPtr<Counted> second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_TRUE(second->RefCountIsOne());
  RefPtr<Counted>& alias = second;
  second = std::move(alias);
  EXPECT_TRUE(second) << "a move to itself keeps the object";
  EXPECT_EQ(alive, 1);
}

TEST(RefPtr, ConvertsToABaseAndToConst) {
  std::atomic<int> alive = 0;
  RefPtr<Counted> base = MakeRef<Derived>(&alive);
  RefPtr<const Counted> constant = base;
  EXPECT_EQ(constant.get(), base.get());
  base = nullptr;
  EXPECT_EQ(alive, 1);
  constant = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(RefPtr, ShareAddsAReferenceAndReleaseGivesItAway) {
  std::atomic<int> alive = 0;
  Counted* const raw = new Counted(&alive);
  RefPtr<Counted> shared = RefPtr<Counted>::Share(raw);
  EXPECT_FALSE(raw->RefCountIsOne());
  EXPECT_EQ(shared.release(), raw);
  EXPECT_FALSE(shared);
  raw->Unref();
  EXPECT_EQ(alive, 1);
  raw->Unref();
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(RefPtr<Counted>::Share(nullptr));
}

TEST(RefCounted, ThreadsMayShareOneObject) {
  std::atomic<int> alive = 0;
  std::vector<std::thread> threads;
  {
    auto shared = MakeRef<Counted>(&alive);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([shared] {
        for (int round = 0; round < 1000; ++round) RefPtr<Counted> copy = shared;
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace tandem
