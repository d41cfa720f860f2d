#include "runtime/collective/in_process.h"

#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

CollectiveRequest Request(int rank, int size, int64_t instance = 1) {
  CollectiveRequest request;
  request.group = "replicas";
  request.group_size = size;
  request.rank = rank;
  request.instance = instance;
  request.step = 7;
  request.node = absl::StrCat("member", rank);
  return request;
}

using Result = absl::StatusOr<std::vector<Tensor>>;

TEST(InProcessCollectives, EveryMemberGetsTheSum) {
  for (int size = 1; size <= 9; ++size) {
    InProcessCollectives collectives;
    CancellationManager cancellation;
    std::vector<std::optional<Result>> results(static_cast<size_t>(size));
    for (int rank = size - 1; rank >= 0; --rank) {
      collectives.AllReduce(Request(rank, size),
                            {Tensor::Vector<float>({1.f * rank, 2.f}), Tensor::Scalar<int64_t>(3)},
                            &cancellation, [&results, rank](Result result) {
                              results[static_cast<size_t>(rank)] = std::move(result);
                            });
    }
    for (const auto& result : results) {
      ASSERT_TRUE(result.has_value());
      ASSERT_TRUE(result->ok()) << result->status();
      EXPECT_EQ((**result)[0].Elements<float>()[0], size * (size - 1) / 2.f);
      EXPECT_EQ((**result)[0].Elements<float>()[1], 2.f * size);
      EXPECT_EQ((**result)[1].ScalarValue<int64_t>(), 3 * size);
    }
  }
}

TEST(InProcessCollectives, BitsDoNotDependOnTheOrderOfArrival) {
  // Values whose sum depends on the order of additions.
  std::vector<Tensor> values;
  for (int i = 0; i < 8; ++i) {
    Tensor value(kFloat32, Shape({2000}));
    for (size_t j = 0; j < 2000; ++j) {
      value.MutableElements<float>()[j] =
          static_cast<float>((i + 1) * 1.0e-3 * static_cast<double>(j + 1) * (i % 2 ? -1e4 : 1.0));
    }
    values.push_back(value);
  }
  std::vector<float> expected;
  for (int shift = 0; shift < 8; ++shift) {
    InProcessCollectives collectives;
    CancellationManager cancellation;
    std::vector<float> got;
    for (int i = 0; i < 8; ++i) {
      const int rank = (i + shift) % 8;
      collectives.AllReduce(Request(rank, 8), {values[static_cast<size_t>(rank)]}, &cancellation,
                            [&got](Result result) {
                              ASSERT_TRUE(result.ok());
                              const auto elements = (*result)[0].Elements<float>();
                              got.assign(elements.begin(), elements.end());
                            });
    }
    if (shift == 0) expected = got;
    EXPECT_EQ(got, expected) << shift;
  }
}

TEST(InProcessCollectives, MeanMinMaxAndProduct) {
  const Tensor a = Tensor::Vector<float>({1, 8});
  const Tensor b = Tensor::Vector<float>({3, 2});
  const auto reduce = [&](Reduction reduction) {
    const auto result = ReduceAlongTree(reduction, {&a, &b});
    EXPECT_TRUE(result.ok());
    return std::vector<float>(result->Elements<float>().begin(), result->Elements<float>().end());
  };
  EXPECT_EQ(reduce(Reduction::kMean), (std::vector<float>{2, 5}));
  EXPECT_EQ(reduce(Reduction::kMin), (std::vector<float>{1, 2}));
  EXPECT_EQ(reduce(Reduction::kMax), (std::vector<float>{3, 8}));
  EXPECT_EQ(reduce(Reduction::kProduct), (std::vector<float>{3, 16}));
}

TEST(InProcessCollectives, AMismatchIsReportedToAllWithBothShapes) {
  InProcessCollectives collectives;
  CancellationManager cancellation;
  std::vector<absl::Status> statuses;
  const auto note = [&](Result result) { statuses.push_back(result.status()); };
  collectives.AllReduce(Request(0, 2), {Tensor::Vector<float>({1, 2})}, &cancellation, note);
  collectives.AllReduce(Request(1, 2), {Tensor::Vector<float>({1, 2, 3})}, &cancellation, note);
  ASSERT_EQ(statuses.size(), 2u);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "[2]")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "[3]")) << status;
  }
}

TEST(InProcessCollectives, CancellationEndsTheWaitWithItsReason) {
  InProcessCollectives collectives;
  CancellationManager cancellation;
  absl::Status status;
  collectives.AllReduce(Request(0, 2), {Tensor::Scalar<float>(1)}, &cancellation,
                        [&](Result result) { status = result.status(); });
  EXPECT_TRUE(status.ok());
  cancellation.Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  // Nothing of it is left: the same key can be used again.
  CancellationManager fresh;
  int sums = 0;
  for (int rank = 0; rank < 2; ++rank) {
    collectives.AllReduce(Request(rank, 2), {Tensor::Scalar<float>(1)}, &fresh,
                          [&](Result result) { sums += result.ok() ? 1 : 0; });
  }
  EXPECT_EQ(sums, 2);
}

TEST(InProcessCollectives, ManyOperationsFromManyThreads) {
  InProcessCollectives collectives;
  CancellationManager cancellation;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int64_t i = 0; i < 200; ++i) {
        collectives.AllReduce(Request(rank, 4, i), {Tensor::Scalar<float>(static_cast<float>(i))},
                              &cancellation, [&right, i](Result result) {
                                if (result.ok() && (*result)[0].ScalarValue<float>() == 4.f * i) {
                                  ++right;
                                }
                              });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

}  // namespace
}  // namespace tandem
