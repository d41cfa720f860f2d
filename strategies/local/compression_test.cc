// Gradients that are compressed on their way between processes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "strategies/local/processes_test_util.h"

namespace tandem {
namespace {

using testing::ExpectSame;
using testing::Floats;
using testing::InputOf;
using testing::Job;
using testing::JobOptions;
using testing::Program;
using testing::StateOf;
using testing::Step;
using testing::SumOf;
using testing::TrainingInput;
using testing::TrainingStep;

JobOptions Compressed(std::vector<int> replicas, std::string compression) {
  JobOptions options;
  options.replicas = std::move(replicas);
  options.compression = std::move(compression);
  return options;
}

// The state after some steps, which is the same in all processes.
std::vector<Tensor> Train(JobOptions options) {
  Job job(std::move(options), TrainingStep);
  if (!job.opened()) return {};
  for (const int64_t batch : {7, 3, 5}) {
    for (const StrategyRunner::Result& result : job.Run(TrainingInput(batch))) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return {};
    }
  }
  std::vector<Tensor> state = StateOf(*job.process(0).runner);
  for (int i = 1; i < job.size(); ++i) ExpectSame(StateOf(*job.process(i).runner), state);
  return state;
}

TEST(Compression, WithoutLossNothingChanges) {
  JobOptions alone;
  alone.replicas = {4};
  alone.spans_processes = false;
  const std::vector<Tensor> expected = Train(alone);
  ASSERT_FALSE(expected.empty());
  for (const std::vector<int>& replicas : {std::vector<int>{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}}) {
    for (const int64_t bucket : {1, 1 << 20}) {
      JobOptions options = Compressed(replicas, "topk:1");
      options.bucket_bytes = bucket;
      ExpectSame(Train(std::move(options)), expected);
    }
  }
}

TEST(Compression, WithLossAllProcessesStillHaveTheSame) {
  for (const char* const compression : {"float16", "bfloat16", "2bit", "topk:0.3"}) {
    SCOPED_TRACE(compression);
    EXPECT_FALSE(Train(Compressed({2, 1}, compression)).empty());
  }
}

// Each replica's gradient is [1, 3, 0, 0], times the sum of its examples.
Program Gradients() {
  auto gradients = std::make_shared<PerReplicaGradient>();
  return Step(
      [gradients](const ReplicaContext& replica, Output part) -> absl::Status {
        if (replica.replica() == 0) gradients->clear();
        const Scope& scope = replica.scope();
        gradients->emplace_back(
            scope.Call("Mul", {SumOf(scope, part), Tensor::Vector<float>({1, 3, 0, 0})}));
        return scope.status();
      },
      [gradients](StrategyBuilder& builder, RunSignature& signature) -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients({*gradients}));
        signature.fetches.push_back(reduced[0][0].values.name());
        return absl::OkStatus();
      });
}

std::vector<float> NextGradient(Job& job, const std::vector<float>& batch) {
  std::vector<StrategyRunner::Result> results = job.Run(InputOf(batch));
  for (const StrategyRunner::Result& result : results) {
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    ExpectSame(*result, *results[0]);
  }
  return Floats((*results[0])[0]);
}

using Values = std::vector<float>;

TEST(Compression, WhatAStepLeavesOutComesLater) {
  Job job(Compressed({1}, "topk:0.25"), Gradients());
  ASSERT_TRUE(job.opened());
  EXPECT_EQ(NextGradient(job, {1}), Values({0, 3, 0, 0}));
  EXPECT_EQ(NextGradient(job, {1}), Values({0, 3, 0, 0}));
  // Three times 1 by now.
  EXPECT_EQ(NextGradient(job, {1}), Values({3, 0, 0, 0}));
  EXPECT_EQ(NextGradient(job, {1}), Values({0, 6, 0, 0}));
}

TEST(Compression, EachProcessSendsTheSumOfItsReplicas) {
  Job job(Compressed({2, 1}, "topk:0.25"), Gradients());
  ASSERT_TRUE(job.opened());
  // The gradients of the processes are 3 and 3 times [1, 3, 0, 0].
  EXPECT_EQ(NextGradient(job, {1, 2, 3}), Values({0, 18, 0, 0}));
}

TEST(Compression, SaysWhereItCannotBe) {
  ReplicaBuilderOptions options;
  options.devices = {"/device:CPU:0"};
  options.compression = "2bit";
  EXPECT_EQ(NewReplicaBuilder(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.spans_processes = true;
  EXPECT_TRUE(NewReplicaBuilder(options).ok());
  options.virtual_replicas = 2;
  EXPECT_TRUE(
      absl::StrContains(NewReplicaBuilder(options).status().message(), "deterministic mode"));
  options.virtual_replicas = 0;
  options.compression = "zip";
  EXPECT_TRUE(absl::StrContains(NewReplicaBuilder(options).status().message(), "topk:PART"));
}

}  // namespace
}  // namespace tandem
