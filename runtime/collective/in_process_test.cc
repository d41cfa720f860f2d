#include "runtime/collective/in_process.h"

#include <cmath>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "core/base/log.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

CollectiveRequest Request(int member, int64_t instance = 1) {
  CollectiveRequest request;
  request.group = "replicas";
  request.member = member;
  request.instance = instance;
  request.step = 7;
  request.node = absl::StrCat("member", member);
  return request;
}

using Result = absl::StatusOr<std::vector<Tensor>>;

TEST(InProcessCollectives, EveryMemberGetsTheSum) {
  for (int size = 1; size <= 9; ++size) {
    InProcessCollectives collectives;
    collectives.DeclareGroup("replicas", size);
    CancellationManager cancellation;
    std::vector<std::optional<Result>> results(static_cast<size_t>(size));
    for (int rank = size - 1; rank >= 0; --rank) {
      collectives.AllReduce(Request(rank),
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
    collectives.DeclareGroup("replicas", 8);
    CancellationManager cancellation;
    std::vector<float> got;
    for (int i = 0; i < 8; ++i) {
      const int rank = (i + shift) % 8;
      collectives.AllReduce(Request(rank), {values[static_cast<size_t>(rank)]}, &cancellation,
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

TEST(InProcessCollectives, WhatIsNotANumberIsNeitherLeastNorLost) {
  const Tensor number = Tensor::Vector<float>({1});
  const Tensor none = Tensor::Vector<float>({std::nanf("")});
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    for (const std::vector<const Tensor*>& values :
         {std::vector<const Tensor*>{&number, &none}, std::vector<const Tensor*>{&none, &number}}) {
      const auto result = ReduceAlongTree(reduction, values);
      ASSERT_TRUE(result.ok());
      EXPECT_TRUE(std::isnan(result->Elements<float>()[0]));
    }
  }
}

TEST(InProcessCollectives, AMismatchIsReportedToAllWithBothShapes) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("replicas", 2);
  CancellationManager cancellation;
  std::vector<absl::Status> statuses;
  const auto note = [&](Result result) { statuses.push_back(result.status()); };
  collectives.AllReduce(Request(0), {Tensor::Vector<float>({1, 2})}, &cancellation, note);
  collectives.AllReduce(Request(1), {Tensor::Vector<float>({1, 2, 3})}, &cancellation, note);
  ASSERT_EQ(statuses.size(), 2u);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "[2]")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "[3]")) << status;
  }
}

TEST(InProcessCollectives, CancellationEndsTheWaitWithItsReason) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("replicas", 2);
  CancellationManager cancellation;
  absl::Status status;
  collectives.AllReduce(Request(0), {Tensor::Scalar<float>(1)}, &cancellation,
                        [&](Result result) { status = result.status(); });
  EXPECT_TRUE(status.ok());
  cancellation.Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  // Who comes later does not wait for members that will never come.
  CancellationManager fresh;
  absl::Status late;
  collectives.AllReduce(Request(1), {Tensor::Scalar<float>(1)}, &fresh,
                        [&](Result result) { late = result.status(); });
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  // Other operations of the group go on.
  int sums = 0;
  for (int rank = 0; rank < 2; ++rank) {
    collectives.AllReduce(Request(rank, 2), {Tensor::Scalar<float>(1)}, &fresh,
                          [&](Result result) { sums += result.ok() ? 1 : 0; });
  }
  EXPECT_EQ(sums, 2);
}

TEST(InProcessCollectives, AMemberThatComesTwiceEndsTheOperationForAll) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("replicas", 3);
  CancellationManager cancellation;
  std::vector<absl::Status> statuses;
  const auto note = [&](Result result) { statuses.push_back(result.status()); };
  for (const int member : {0, 1, 1, 2}) {
    collectives.AllReduce(Request(member), {Tensor::Scalar<float>(1)}, &cancellation, note);
  }
  ASSERT_EQ(statuses.size(), 4u);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "member 1")) << status;
  }
}

TEST(InProcessCollectives, AMemberThatDoesNotComeIsReportedAndThenNamedInTheError) {
  std::string logged;
  SetLogSink([&](LogSeverity, absl::string_view text) { absl::StrAppend(&logged, text, "\n"); });
  CancellationManager cancellation;
  absl::Status status;
  {
    InProcessCollectives collectives(absl::Milliseconds(3));
    collectives.DeclareGroup("replicas", 4);
    Event ended;
    for (const int member : {0, 2}) {
      collectives.AllReduce(Request(member), {Tensor::Scalar<float>(1)}, &cancellation,
                            [&, member](Result result) {
                              if (member == 0) return;
                              status = result.status();
                              ended.Set();
                            });
    }
    ended.Wait();
    // Who comes after all does not wait again.
    absl::Status late;
    collectives.AllReduce(Request(1), {Tensor::Scalar<float>(1)}, &cancellation,
                          [&](Result result) { late = result.status(); });
    EXPECT_EQ(late, status);
  }
  SetLogSink(nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(status.message(), "member 1, 3 of 4 of group 'replicas'"))
      << status;
  EXPECT_TRUE(absl::StrContains(logged, "waits for member 1, 3 of 4 of group 'replicas'"))
      << logged;
}

TEST(InProcessCollectives, NobodyIsLeftBehindInAGroupThatChangesWhileItComes) {
  InProcessCollectives collectives(absl::InfiniteDuration());
  collectives.DeclareGroup("replicas", 2);
  for (int i = 0; i < 1000; ++i) {
    CancellationManager cancellation;
    int ended = 0;
    std::thread member([&] {
      collectives.AllReduce(Request(0), {Tensor::Scalar<float>(1)}, &cancellation,
                            [&](const Result&) { ++ended; });
    });
    collectives.DeclareGroup("replicas", 2);
    member.join();
    // It was ended by the change, or came after it and meets the other one.
    collectives.AllReduce(Request(1), {Tensor::Scalar<float>(1)}, &cancellation,
                          [&](const Result&) { ++ended; });
    ASSERT_GE(ended, 1) << "the change ended nobody, and the two did not meet";
    collectives.DeclareGroup("replicas", 2);
    ASSERT_EQ(ended, 2);
  }
}

TEST(InProcessCollectives, AGroupThatChangesAbortsWhatItsFormerMembersWaitFor) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("replicas", 2);
  CancellationManager cancellation;
  absl::Status status;
  collectives.AllReduce(Request(0), {Tensor::Scalar<float>(1)}, &cancellation,
                        [&](Result result) { status = result.status(); });
  collectives.DeclareGroup("replicas", 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  const auto group = collectives.Group("replicas");
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group->size, 1);
  EXPECT_EQ(group->generation, 2);
}

TEST(InProcessCollectives, AnUnknownGroupIsNamedWithThoseThatThereAre) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("workers", 2);
  CancellationManager cancellation;
  absl::Status status;
  collectives.AllReduce(Request(0), {Tensor::Scalar<float>(1)}, &cancellation,
                        [&](Result result) { status = result.status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "workers")) << status;
}

TEST(InProcessCollectives, ManyOperationsFromManyThreads) {
  InProcessCollectives collectives;
  collectives.DeclareGroup("replicas", 4);
  CancellationManager cancellation;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (int64_t i = 0; i < 200; ++i) {
        collectives.AllReduce(Request(rank, i), {Tensor::Scalar<float>(static_cast<float>(i))},
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
