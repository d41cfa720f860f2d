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
  Result Reduce(Reduction reduction, const std::vector<std::vector<Tensor>>& values, int64_t step) {
    Mutex mu;
    CondVar changed;
    size_t left = values.size();
    std::optional<Result> first;
    for (size_t i = 0; i < values.size(); ++i) {
      CollectiveRequest request = Request(static_cast<int>(i), step);
      request.reduction = reduction;
      collectives.AllReduce(request, values[i], &cancellation, [&, i](Result result) {
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
  EXPECT_EQ(late.status().code(), absl::StatusCode::kCancelled) << late.status();
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
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable) << result.status();
}

}  // namespace
}  // namespace tandem::collective
