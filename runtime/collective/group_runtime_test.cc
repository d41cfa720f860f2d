// Replicas of several "processes": threads with a session's collectives each.
#include "runtime/collective/group_runtime.h"

#include <optional>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/collective/group_test_util.h"

namespace tandem::collective {
namespace {

using Result = absl::StatusOr<std::vector<Tensor>>;

// What one process has.
struct Process {
  explicit Process(bool is_deterministic)
      : between(is_deterministic), collectives(absl::Seconds(60), &between) {}

  GroupRuntime between;
  InProcessCollectives collectives;
  CancellationManager cancellation;

  CollectiveRequest Request(int member, int64_t step) {
    CollectiveRequest request;
    request.group = "replicas";
    request.member = member;
    request.instance = 1024;
    request.step = step;
    request.node = "grads";
    return request;
  }

  // All replicas of the process take part; gives what the first one gets.
  Result Reduce(Reduction reduction, std::vector<std::vector<Tensor>> values, int64_t step) {
    Mutex mu;
    CondVar changed;
    size_t left = values.size();
    std::optional<Result> first;
    for (size_t i = 0; i < values.size(); ++i) {
      CollectiveRequest request = Request(static_cast<int>(i), step);
      request.reduction = reduction;
      collectives.AllReduce(request, std::move(values[i]), &cancellation, [&, i](Result result) {
        MutexLock lock(mu);
        if (i == 0) first = std::move(result);
        --left;
        changed.NotifyAll();
      });
    }
    MutexLock lock(mu);
    while (left > 0) changed.Wait(mu);
    return *std::move(first);
  }

  Result Gather(std::vector<Tensor> values, int64_t step) {
    Event ended;
    std::optional<Result> result;
    CollectiveRequest request = Request(0, step);
    request.instance = 2048;
    collectives.AllGatherRows(request, std::move(values), &cancellation, [&](Result joined) {
      result = std::move(joined);
      ended.Set();
    });
    ended.Wait();
    return *std::move(result);
  }
};

class GroupRuntimeTest : public ::testing::Test {
 protected:
  // Processes with as many replicas as `replicas` says.
  void Start(const std::vector<int>& replicas, bool is_deterministic, int64_t generation = 1) {
    GroupOptions options =
        TestOptions(static_cast<int>(replicas.size()), TransportKind::kInProcess);
    options.generation = generation;
    Groups groups = FormAll(options);
    for (size_t i = 0; i < replicas.size(); ++i) {
      if (processes_.size() <= i) {
        processes_.push_back(std::make_unique<Process>(is_deterministic));
        processes_[i]->collectives.DeclareGroup("replicas", replicas[i]);
      }
      const absl::Status status = processes_[i]->between.SetGroup(std::move(groups[i]), replicas);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  std::vector<std::unique_ptr<Process>> processes_;
};

TEST_F(GroupRuntimeTest, ReducesOverAllReplicasOfAllProcesses) {
  Start({2, 1, 2}, false);
  const CollectiveGroup group = *processes_[0]->collectives.Group("replicas");
  EXPECT_EQ(group.size, 5);
  EXPECT_EQ(group.first, 0);
  EXPECT_EQ(processes_[1]->collectives.Group("replicas")->first, 2);
  EXPECT_EQ(processes_[2]->collectives.Group("replicas")->first, 3);
  OnAll(3, [&](int rank) {
    const int first = rank == 0 ? 0 : rank == 1 ? 2 : 3;
    std::vector<std::vector<Tensor>> values;
    for (int r = first; r < first + (rank == 1 ? 1 : 2); ++r) {
      values.push_back({Tensor::Vector<float>({1.f * r, 1}), Tensor::Scalar<int64_t>(r),
                        Tensor::FromValues<float>(Shape({2, 2}), {1, 2, 3, 1.f * r})});
    }
    Process& process = *processes_[static_cast<size_t>(rank)];
    const Result sum = process.Reduce(Reduction::kSum, values, 1);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ((*sum)[0].Elements<float>()[0], 10);
    EXPECT_EQ((*sum)[0].Elements<float>()[1], 5);
    EXPECT_EQ((*sum)[1].ScalarValue<int64_t>(), 10);
    EXPECT_EQ((*sum)[2].shape(), Shape({2, 2}));
    EXPECT_EQ((*sum)[2].Elements<float>()[3], 10);
    const Result mean = process.Reduce(Reduction::kMean, values, 2);
    ASSERT_TRUE(mean.ok()) << mean.status();
    EXPECT_EQ((*mean)[0].Elements<float>()[0], 2);
    EXPECT_EQ((*mean)[1].ScalarValue<int64_t>(), 2);
    const Result most = process.Reduce(Reduction::kMax, values, 3);
    ASSERT_TRUE(most.ok()) << most.status();
    EXPECT_EQ((*most)[0].Elements<float>()[0], 4);
    // What the caller gave is its own still.
    EXPECT_EQ(values[0][0].Elements<float>()[1], 1);
  });
}

// A process with one replica brings memory of its own, or a caller's; one with several what it has
// added.
TEST_F(GroupRuntimeTest, OneValueMayBelongToSomebodyOrNobody) {
  Start({1, 1, 2}, false);
  OnAll(3, [&](int rank) {
    Process& process = *processes_[static_cast<size_t>(rank)];
    for (int64_t step = 1; step < 4; ++step) {
      const Tensor kept = Tensor::Vector<float>({1, 2, 3});
      std::vector<std::vector<Tensor>> values(rank == 2 ? 2 : 1);
      for (auto& value : values) {
        value = {rank == 0 ? kept : Tensor::Vector<float>({1, 2, 3})};
      }
      const Result sum = process.Reduce(Reduction::kSum, std::move(values), step);
      ASSERT_TRUE(sum.ok()) << sum.status();
      ASSERT_EQ((*sum)[0].shape(), Shape({3}));
      EXPECT_EQ((*sum)[0].Elements<float>()[2], 12);
      EXPECT_EQ(kept.Elements<float>()[2], 3);
    }
  });
}

// Large values go by themselves, where they lie, and small ones together; a mean is divided by the
// members where each process has one replica, and at the end otherwise.
TEST_F(GroupRuntimeTest, LargeAndSmallValuesGoTogether) {
  constexpr int64_t kLarge = 300 << 10;
  for (const std::vector<int>& replicas : {std::vector<int>{1, 1, 1}, std::vector<int>{1, 2, 1}}) {
    processes_.clear();
    Start(replicas, false);
    OnAll(3, [&](int rank) {
      Process& process = *processes_[static_cast<size_t>(rank)];
      Tensor large = *Tensor::Create(kFloat32, Shape({kLarge}));
      for (int64_t i = 0; i < kLarge; ++i) large.MutableElements<float>()[i] = 1.f * (i % 7) + rank;
      const std::vector<Tensor> values = {Tensor::Scalar<float>(3), large,
                                          Tensor::Vector<float>({6, 1.f * rank}), large};
      // One large value belongs to the test, too, and must not change.
      const Result mean =
          process.Reduce(Reduction::kMean, {static_cast<size_t>(replicas[rank]), values}, 1);
      ASSERT_TRUE(mean.ok()) << mean.status();
      const float middle = 1;  // Of the ranks: the process with two replicas is in the middle.
      EXPECT_EQ((*mean)[0].ScalarValue<float>(), 3);
      EXPECT_EQ((*mean)[2].Elements<float>()[0], 6);
      EXPECT_EQ((*mean)[2].Elements<float>()[1], middle);
      for (const size_t which : {size_t{1}, size_t{3}}) {
        ASSERT_EQ((*mean)[which].num_elements(), kLarge);
        for (int64_t i = 0; i < kLarge; ++i) {
          ASSERT_EQ((*mean)[which].Elements<float>()[i], 1.f * (i % 7) + middle) << i;
        }
      }
      EXPECT_EQ(large.Elements<float>()[5], 5.f + rank);
    });
  }
}

TEST_F(GroupRuntimeTest, RowsAreJoinedByRank) {
  Start({2, 1, 2}, false);
  OnAll(3, [&](int rank) {
    Process& process = *processes_[static_cast<size_t>(rank)];
    // 3, 0 and 1 rows; and flags, which no collective adds up.
    const int64_t count = rank == 0 ? 3 : rank == 1 ? 0 : 1;
    Tensor rows(kFloat32, Shape({count, 2}));
    for (float& value : rows.MutableElements<float>()) value = static_cast<float>(rank);
    Tensor flags(kBool, Shape({2}));
    flags.MutableElements<bool>()[0] = rank == 1;
    flags.MutableElements<bool>()[1] = rank == 2;
    for (int64_t step = 1; step < 4; ++step) {
      const Result joined = process.Gather({rows, flags, Tensor(kInt32, Shape({0, 5}))}, step);
      ASSERT_TRUE(joined.ok()) << joined.status();
      ASSERT_EQ((*joined)[0].shape(), Shape({4, 2}));
      EXPECT_EQ((*joined)[0].Elements<float>()[5], 0);
      EXPECT_EQ((*joined)[0].Elements<float>()[6], 2);
      ASSERT_EQ((*joined)[1].shape(), Shape({6}));
      for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ((*joined)[1].Elements<bool>()[i], i == 2 || i == 5) << i;
      }
      EXPECT_EQ((*joined)[2].shape(), Shape({0, 5}));
    }
  });
}

TEST_F(GroupRuntimeTest, RowsThatDoNotFitAreRefusedEverywhereAndNamed) {
  Start({1, 1, 1}, false);
  const std::vector<std::vector<Tensor>> second = {
      {Tensor::Zeros(kFloat32, Shape({2, 5}))},
      {Tensor::Zeros(kInt32, Shape({2, 3}))},
      // As many elements in a row, but no rows of this shape.
      {Tensor::Zeros(kFloat32, Shape({2, 3, 1}))},
      {Tensor::Zeros(kFloat32, Shape({0, 4}))},
  };
  for (size_t i = 0; i < second.size(); ++i) {
    OnAll(3, [&](int rank) {
      Process& process = *processes_[static_cast<size_t>(rank)];
      const Result joined = process.Gather(
          rank == 1 ? second[i] : std::vector<Tensor>{Tensor::Zeros(kFloat32, Shape({2, 3}))},
          static_cast<int64_t>(i));
      EXPECT_EQ(joined.status().code(), absl::StatusCode::kInvalidArgument) << joined.status();
      EXPECT_TRUE(absl::StrContains(joined.status().message(), "worker:1")) << joined.status();
    });
  }
  // The group is as good as before.
  OnAll(3, [&](int rank) {
    const Result joined = processes_[static_cast<size_t>(rank)]->Gather(
        {Tensor::Scalar<float>(1)}, static_cast<int64_t>(second.size()));
    EXPECT_EQ(joined.status().code(), absl::StatusCode::kInvalidArgument) << joined.status();
    const Result good = processes_[static_cast<size_t>(rank)]->Gather(
        {Tensor::Vector<float>({1})}, static_cast<int64_t>(second.size()) + 1);
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ((*good)[0].num_elements(), 3);
  });
}

TEST_F(GroupRuntimeTest, OnlyOneOfAProcessJoinsRows) {
  Start({2, 1}, false);
  CollectiveRequest request = processes_[0]->Request(1, 1);
  absl::Status status;
  processes_[0]->collectives.AllGatherRows(request, {Tensor::Vector<float>({1})},
                                           &processes_[0]->cancellation,
                                           [&](Result result) { status = result.status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(GroupRuntimeTest, AGatherThatIsCancelledEndsEverywhere) {
  Start({1, 1}, false);
  Event ended;
  std::optional<Result> result;
  CollectiveRequest request = processes_[0]->Request(0, 1);
  request.instance = 2048;
  processes_[0]->collectives.AllGatherRows(request, {Tensor::Vector<float>({1})},
                                           &processes_[0]->cancellation, [&](Result joined) {
                                             result = std::move(joined);
                                             ended.Set();
                                           });
  processes_[0]->cancellation.Cancel(errors::Cancelled("the step is over"));
  ended.Wait();
  EXPECT_EQ(result->status().code(), absl::StatusCode::kCancelled) << result->status();
  const Result late = processes_[1]->Gather({Tensor::Vector<float>({1})}, 1);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kAborted) << late.status();
  EXPECT_TRUE(absl::StrContains(late.status().message(), "the step is over")) << late.status();
}

TEST_F(GroupRuntimeTest, AGatherOfAGroupThatBreaksIsAborted) {
  Start({1, 1}, false);
  Event ended;
  std::optional<Result> result;
  CollectiveRequest request = processes_[0]->Request(0, 1);
  processes_[0]->collectives.AllGatherRows(request, {Tensor::Vector<float>({1})},
                                           &processes_[0]->cancellation, [&](Result joined) {
                                             result = std::move(joined);
                                             ended.Set();
                                           });
  Start({1, 1}, false, /*generation=*/2);
  ended.Wait();
  EXPECT_EQ(result->status().code(), absl::StatusCode::kAborted) << result->status();
}

TEST_F(GroupRuntimeTest, AGatherForWhichAProcessDoesNotComeEndsAndNamesIt) {
  GroupOptions options = TestOptions(2, TransportKind::kInProcess);
  options.timeout = absl::Milliseconds(200);
  Groups groups = FormAll(options);
  for (size_t i = 0; i < 2; ++i) {
    processes_.push_back(std::make_unique<Process>(false));
    processes_[i]->collectives.DeclareGroup("replicas", 1);
    ASSERT_TRUE(processes_[i]->between.SetGroup(std::move(groups[i]), {1, 1}).ok());
  }
  const Result result = processes_[0]->Gather({Tensor::Vector<float>({1})}, 1);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded) << result.status();
  EXPECT_TRUE(absl::StrContains(result.status().message(), "worker:1")) << result.status();
}

TEST_F(GroupRuntimeTest, AStepHasANumberOfItsOwn) {
  Start({1, 1}, false, /*generation=*/3);
  const int64_t first = processes_[0]->between.NextStep();
  EXPECT_EQ(processes_[1]->between.NextStep(), first);
  EXPECT_EQ(processes_[0]->between.NextStep(), first + 1);
  Start({1, 1}, false, /*generation=*/4);
  const int64_t next = processes_[0]->between.NextStep();
  EXPECT_EQ(processes_[1]->between.NextStep(), next);
  EXPECT_GT(next, first + (int64_t{1} << 31));
}

TEST_F(GroupRuntimeTest, AStepThatOutlivesItsGenerationTakesNoPartInTheNext) {
  Start({1, 1}, false);
  const int64_t old = processes_[0]->between.NextStep();
  Start({1, 1}, false, /*generation=*/2);
  for (const Result& result :
       {processes_[0]->Reduce(Reduction::kSum, {{Tensor::Scalar<float>(1)}}, old),
        processes_[0]->Gather({Tensor::Vector<float>({1})}, old)}) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kAborted) << result.status();
    EXPECT_TRUE(absl::StrContains(result.status().message(), "generation 1")) << result.status();
  }
  OnAll(2, [&](int rank) {
    Process& process = *processes_[static_cast<size_t>(rank)];
    const Result sum =
        process.Reduce(Reduction::kSum, {{Tensor::Scalar<float>(1)}}, process.between.NextStep());
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ((*sum)[0].ScalarValue<float>(), 2);
  });
}

TEST_F(GroupRuntimeTest, DeterministicBitsDoNotDependOnTheNumberOfProcesses) {
  constexpr int kReplicas = 8;
  constexpr int64_t kCount = 777;
  std::vector<Tensor> all;
  std::vector<const Tensor*> pointers;
  for (int v = 0; v < kReplicas; ++v) {
    Tensor value(kFloat32, Shape({kCount}));
    for (int64_t i = 0; i < kCount; ++i) {
      value.MutableElements<float>()[static_cast<size_t>(i)] =
          static_cast<float>((i * 37 + v * 101) % 1000) * (v % 2 ? -1e-3f : 1e3f);
    }
    all.push_back(value);
  }
  for (const Tensor& value : all) pointers.push_back(&value);
  const Tensor expected = *ReduceAlongTree(Reduction::kMean, pointers);
  for (const std::vector<int>& replicas :
       {std::vector<int>{8}, {4, 4}, {3, 5}, {3, 3, 2}, {2, 2, 2, 2}}) {
    processes_.clear();
    Start(replicas, true);
    OnAll(static_cast<int>(replicas.size()), [&](int rank) {
      int first = 0;
      for (int r = 0; r < rank; ++r) first += replicas[static_cast<size_t>(r)];
      std::vector<std::vector<Tensor>> values;
      for (int k = 0; k < replicas[static_cast<size_t>(rank)]; ++k) {
        values.push_back({all[static_cast<size_t>(first + k)], Tensor::Scalar<float>(1.f)});
      }
      const Result mean =
          processes_[static_cast<size_t>(rank)]->Reduce(Reduction::kMean, values, 1);
      ASSERT_TRUE(mean.ok()) << mean.status();
      const auto got = (*mean)[0].Elements<float>();
      const auto wanted = expected.Elements<float>();
      EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin(), wanted.end()))
          << replicas.size() << " processes";
    });
  }
}

TEST_F(GroupRuntimeTest, ACancelledStepEndsItEverywhere) {
  Start({1, 1}, false);
  Mutex mu;
  CondVar changed;
  std::optional<Result> ended;
  processes_[0]->collectives.AllReduce(processes_[0]->Request(0, 1), {Tensor::Scalar<float>(1)},
                                       &processes_[0]->cancellation, [&](Result result) {
                                         MutexLock lock(mu);
                                         ended = std::move(result);
                                         changed.NotifyAll();
                                       });
  processes_[0]->cancellation.Cancel(errors::Cancelled("the step is over"));
  {
    MutexLock lock(mu);
    while (!ended.has_value()) changed.Wait(mu);
    EXPECT_EQ(ended->status().code(), absl::StatusCode::kCancelled) << ended->status();
  }
  const Result late = processes_[1]->Reduce(Reduction::kSum, {{Tensor::Scalar<float>(1)}}, 1);
  // There the step has not been cancelled, and may be taken again.
  EXPECT_EQ(late.status().code(), absl::StatusCode::kAborted) << late.status();
  EXPECT_TRUE(absl::StrContains(late.status().message(), "the step is over")) << late.status();
}

TEST_F(GroupRuntimeTest, TheNextGenerationGoesOn) {
  Start({1, 1}, false);
  Mutex mu;
  CondVar changed;
  std::optional<Result> ended;
  processes_[0]->collectives.AllReduce(processes_[0]->Request(0, 1), {Tensor::Scalar<float>(1)},
                                       &processes_[0]->cancellation, [&](Result result) {
                                         MutexLock lock(mu);
                                         ended = std::move(result);
                                         changed.NotifyAll();
                                       });
  Start({1, 1}, false, /*generation=*/2);
  {
    MutexLock lock(mu);
    while (!ended.has_value()) changed.Wait(mu);
    EXPECT_FALSE(ended->ok());
  }
  EXPECT_EQ(processes_[0]->collectives.Group("replicas")->generation, 2);
  OnAll(2, [&](int rank) {
    const Result sum = processes_[static_cast<size_t>(rank)]->Reduce(
        Reduction::kSum, {{Tensor::Scalar<float>(1)}}, 2);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ((*sum)[0].ScalarValue<float>(), 2);
  });
}

TEST_F(GroupRuntimeTest, WithoutAGroupNobodyWaits) {
  Process process(false);
  process.collectives.DeclareGroup("replicas", 1);
  const Result result = process.Reduce(Reduction::kSum, {{Tensor::Scalar<float>(1)}}, 1);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kAborted) << result.status();
}

}  // namespace
}  // namespace tandem::collective
