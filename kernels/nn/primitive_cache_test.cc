#include "kernels/nn/primitive_cache.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

using Cache = PrimitiveCache<int>;

absl::StatusOr<Cache::Value> Get(Cache& cache, int64_t key, int* made) {
  return cache.LookupOrMake({key}, [&]() -> absl::StatusOr<Cache::Value> {
    ++*made;
    return std::make_shared<const int>(static_cast<int>(key));
  });
}

TEST(PrimitiveCache, MakesAValueOnce) {
  Cache cache(4);
  int made = 0;
  EXPECT_EQ(**Get(cache, 7, &made), 7);
  EXPECT_EQ(**Get(cache, 7, &made), 7);
  EXPECT_EQ(made, 1);
}

TEST(PrimitiveCache, DropsTheLeastRecentlyUsedAndItsUsersKeepIt) {
  Cache cache(2);
  int made = 0;
  const Cache::Value one = *Get(cache, 1, &made);
  ASSERT_TRUE(Get(cache, 2, &made).ok());
  const std::weak_ptr<const int> two = *Get(cache, 2, &made);
  ASSERT_TRUE(Get(cache, 1, &made).ok());
  ASSERT_TRUE(Get(cache, 3, &made).ok());
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_TRUE(two.expired());
  EXPECT_EQ(made, 3);
  ASSERT_TRUE(Get(cache, 4, &made).ok());  // Now 1 goes.
  EXPECT_EQ(*one, 1);
}

TEST(PrimitiveCache, DoesNotKeepErrors) {
  Cache cache(2);
  const auto failed = cache.LookupOrMake(
      {1}, []() -> absl::StatusOr<Cache::Value> { return errors::Unimplemented("no"); });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnimplemented);
  int made = 0;
  EXPECT_TRUE(Get(cache, 1, &made).ok());
  EXPECT_EQ(made, 1);
}

TEST(PrimitiveCache, ServesManyThreads) {
  Cache cache(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      int made = 0;
      for (int64_t i = 0; i < 500; ++i) {
        const auto value = Get(cache, i % 5, &made);
        ASSERT_TRUE(value.ok());
        ASSERT_EQ(**value, i % 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.size(), 3u);
}

}  // namespace
}  // namespace tandem
