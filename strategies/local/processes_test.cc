// Steps of several processes give what one process with all of their replicas gives.
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/mutex.h"
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
using testing::Placeholder;
using testing::Program;
using testing::ScalarVariable;
using testing::StateOf;
using testing::Step;
using testing::SumOf;
using testing::TrainingInput;
using testing::TrainingStep;
using testing::ValueOf;

TEST(Processes, GradientsAreThoseOfOneProcessWithAllReplicas) {
  // The last one leaves a replica without an example.
  const std::vector<int64_t> batches = {7, 3};
  const auto train = [&](JobOptions options) {
    std::vector<std::vector<Tensor>> all;
    Job job(std::move(options), TrainingStep);
    if (!job.opened()) return all;
    for (const int64_t batch : batches) {
      std::vector<StrategyRunner::Result> results = job.Run(TrainingInput(batch));
      for (const StrategyRunner::Result& result : results) {
        EXPECT_TRUE(result.ok()) << result.status();
        if (!result.ok()) return all;
        ExpectSame(*result, *results[0]);
        EXPECT_EQ((*result)[1].ScalarValue<int32_t>(), batch);
      }
      all.push_back(*results[0]);
    }
    const std::vector<Tensor> state = StateOf(*job.process(0).runner);
    for (int i = 1; i < job.size(); ++i) ExpectSame(StateOf(*job.process(i).runner), state);
    all.push_back(state);
    return all;
  };
  JobOptions alone;
  alone.replicas = {4};
  alone.spans_processes = false;
  const std::vector<std::vector<Tensor>> expected = train(alone);
  ASSERT_EQ(expected.size(), batches.size() + 1);
  for (const std::vector<int>& replicas :
       {std::vector<int>{4}, {2, 2}, {1, 3}, {1, 2, 1}, {1, 1, 1, 1}}) {
    for (const int64_t bucket : {1, 1 << 20}) {
      JobOptions options;
      options.replicas = replicas;
      options.bucket_bytes = bucket;
      options.first_bucket_bytes = 4;
      const std::vector<std::vector<Tensor>> got = train(options);
      ASSERT_EQ(got.size(), expected.size()) << replicas.size();
      for (size_t i = 0; i < got.size(); ++i) ExpectSame(got[i], expected[i]);
    }
  }
}

const std::vector<Reduction> kReductions = {Reduction::kSum, Reduction::kMean, Reduction::kMin,
                                            Reduction::kMax, Reduction::kProduct};

TEST(Processes, EveryReductionGoesOverTheReplicasOfAllProcesses) {
  PerReplica numbers;
  const Program program = Step(
      [&](const ReplicaContext& replica, Output part) -> absl::Status {
        if (replica.replica() == 0) numbers.clear();
        const Scope& scope = replica.scope();
        const Output number = SumOf(scope, part);
        numbers.push_back(number);
        InputList results;
        for (const Reduction reduction : kReductions) {
          for (const Output& result : replica.AllReduce(reduction, {number})) {
            results.emplace_back(result);
          }
        }
        TANDEM_RETURN_IF_ERROR(scope.status());
        scope.WithOpName("in_the_graph").Call("Pack", results);
        return scope.status();
      },
      [&](StrategyBuilder& builder, RunSignature& signature) -> absl::Status {
        for (int r = 0; r < builder.num_replicas(); ++r) {
          signature.fetches.push_back(builder.num_replicas() == 1
                                          ? "in_the_graph"
                                          : absl::StrCat("replica_", r, "/in_the_graph"));
        }
        InputList results;
        for (const Reduction reduction : kReductions) {
          TANDEM_ASSIGN_OR_RETURN(const Output result, builder.ReduceToHost(reduction, numbers));
          results.emplace_back(result);
        }
        signature.fetches.push_back(builder.host_scope().Call("Pack", results).name());
        return builder.host_scope().status();
      });
  for (const std::vector<int>& replicas : {std::vector<int>{1}, {1, 1}, {2, 1}, {1, 2, 2}}) {
    JobOptions options;
    options.replicas = replicas;
    Job job(options, program);
    ASSERT_TRUE(job.opened());
    std::vector<float> batch;
    float sum = 0;
    float product = 1;
    for (const int count : replicas) {
      for (int i = 0; i < count; ++i) {
        // Neither the least nor the greatest is neutral to any reduction.
        batch.push_back(static_cast<float>(batch.size()) + 3);
        sum += batch.back();
        product *= batch.back();
      }
    }
    const std::vector<float> expected = {sum, sum / static_cast<float>(batch.size()), 3,
                                         batch.back(), product};
    for (const StrategyRunner::Result& result : job.Run(InputOf(batch))) {
      ASSERT_TRUE(result.ok()) << result.status();
      for (const Tensor& reduced : *result) EXPECT_EQ(Floats(reduced), expected);
    }
  }
}

TEST(Processes, WhatReplicasBringIsGatheredInTheirOrder) {
  std::vector<PerReplica> values(3);
  const std::vector<int> axes = {0, 1, -1};
  PerReplica flags;
  const Program program = Step(
      [&](const ReplicaContext& replica, Output part) {
        const Scope& scope = replica.scope();
        if (replica.replica() == 0) {
          for (PerReplica& value : values) value.clear();
          flags.clear();
        }
        values[0].push_back(part);
        values[1].push_back(scope.Call("Reshape", {part, Tensor::Vector<int32_t>({1, -1, 1})}));
        values[2].push_back(scope.Call("Reshape", {part, Tensor::Vector<int32_t>({1, 1, -1})}));
        flags.push_back(scope.Call("Greater", {part, 2.0f}));
        return scope.status();
      },
      [&](StrategyBuilder& builder, RunSignature& signature) -> absl::Status {
        for (size_t i = 0; i < values.size(); ++i) {
          TANDEM_ASSIGN_OR_RETURN(const Output all, builder.GatherToHost(values[i], axes[i]));
          signature.fetches.push_back(all.name());
        }
        TANDEM_ASSIGN_OR_RETURN(const Output all, builder.GatherToHost(flags, 0));
        signature.fetches.push_back(all.name());
        return absl::OkStatus();
      });
  for (const std::vector<int>& replicas : {std::vector<int>{2}, {1, 1}, {2, 1}, {1, 2, 2}}) {
    JobOptions options;
    options.replicas = replicas;
    Job job(options, program);
    ASSERT_TRUE(job.opened());
    for (const std::vector<float>& batch :
         {std::vector<float>{1, 2, 3, 4, 5, 6, 7}, std::vector<float>{3}, std::vector<float>{}}) {
      for (const StrategyRunner::Result& result : job.Run(InputOf(batch))) {
        ASSERT_TRUE(result.ok()) << result.status();
        const int64_t size = static_cast<int64_t>(batch.size());
        EXPECT_EQ((*result)[0].shape(), Shape({size}));
        EXPECT_EQ((*result)[1].shape(), Shape({1, size, 1}));
        EXPECT_EQ((*result)[2].shape(), Shape({1, 1, size}));
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Floats((*result)[i]), batch);
        ASSERT_EQ((*result)[3].shape(), Shape({size}));
        for (size_t i = 0; i < batch.size(); ++i) {
          EXPECT_EQ((*result)[3].Elements<bool>()[i], batch[i] > 2);
        }
      }
    }
  }
}

// As an evaluation does: nothing but what is fetched makes the replicas take part.
TEST(Processes, ResultsAfterTheStepNeedNoTargets) {
  const Program program = [](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    RunSignature signature;
    TANDEM_RETURN_IF_ERROR(builder.BeginStep("evaluate"));
    PerReplica parts;
    PerReplica sums;
    TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) {
      signature.feeds.push_back(absl::StrCat("part/replica_", replica.replica()));
      parts.push_back(
          Placeholder(builder.host_scope(), signature.feeds.back(), kFloat32, PartialShape({-1})));
      sums.push_back(SumOf(replica.scope(), parts.back()));
      return replica.scope().status();
    }));
    TANDEM_RETURN_IF_ERROR(builder.EndStep().status());
    TANDEM_ASSIGN_OR_RETURN(const Output sum, builder.ReduceToHost(Reduction::kSum, sums));
    TANDEM_ASSIGN_OR_RETURN(const Output all, builder.GatherToHost(parts, 0));
    signature.fetches = {sum.name(), all.name()};
    return signature;
  };
  for (const std::vector<int>& replicas : {std::vector<int>{3}, {2, 1}, {1, 1}}) {
    JobOptions options;
    options.replicas = replicas;
    Job job(options, program);
    ASSERT_TRUE(job.opened());
    StepInput input = InputOf({1, 2, 3, 4, 5});
    input.values.clear();
    for (const StrategyRunner::Result& result : job.Run(input)) {
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ((*result)[0].ScalarValue<float>(), 15);
      EXPECT_EQ(Floats((*result)[1]), std::vector<float>({1, 2, 3, 4, 5}));
    }
  }
}

TEST(Processes, OfUnknownRankOnlyTheFirstAxisCanBeJoined) {
  const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}, .spans_processes = true});
  ASSERT_TRUE(builder.ok()) << builder.status();
  const Output value =
      Placeholder((*builder)->host_scope(), "value", kFloat32, PartialShape::Unknown());
  EXPECT_TRUE((*builder)->GatherToHost({value}, 0).ok());
  EXPECT_EQ((*builder)->GatherToHost({value}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

constexpr const char* kAggregated[] = {"sum", "mean", "first"};

// Variables to which each replica adds the sum of its part.
Program Counting(Synchronization synchronization) {
  return Step(
      [=](const ReplicaContext& replica, Output part) -> absl::Status {
        const Output own = SumOf(replica.scope(), part);
        for (const auto& [name, aggregation] :
             {std::pair(kAggregated[0], Aggregation::kSum),
              std::pair(kAggregated[1], Aggregation::kMean),
              std::pair(kAggregated[2], Aggregation::kOnlyFirstReplica)}) {
          TANDEM_ASSIGN_OR_RETURN(
              const StrategyVariable* variable,
              replica.builder().Variable(ScalarVariable(name, synchronization, aggregation)));
          TANDEM_RETURN_IF_ERROR(replica.Assign(
              *variable, replica.scope().Call("AddV2", {replica.Read(*variable), own})));
        }
        return replica.scope().status();
      },
      [](StrategyBuilder&, RunSignature&) { return absl::OkStatus(); });
}

TEST(Processes, AssignmentsAreAggregatedOverAllProcesses) {
  for (const std::vector<int>& replicas : {std::vector<int>{1, 1}, {2, 1, 1}}) {
    JobOptions options;
    options.replicas = replicas;
    Job job(options, Counting(Synchronization::kMirrored));
    ASSERT_TRUE(job.opened());
    // One for each replica; the others are not the first one's.
    std::vector<float> batch = {2};
    for (const int count : replicas) batch.resize(batch.size() + static_cast<size_t>(count), 4);
    batch.pop_back();
    const float n = static_cast<float>(batch.size());
    const float sum = 2 + 4 * (n - 1);
    for (const StrategyRunner::Result& result : job.Run(InputOf(batch))) {
      ASSERT_TRUE(result.ok()) << result.status();
    }
    for (int i = 0; i < job.size(); ++i) {
      EXPECT_EQ(ValueOf(job, i, "sum"), sum);
      EXPECT_EQ(ValueOf(job, i, "mean"), sum / n);
      EXPECT_EQ(ValueOf(job, i, "first"), 2);
    }
    for (const StrategyRunner::Result& result : job.Run(InputOf(batch, 1))) {
      ASSERT_TRUE(result.ok()) << result.status();
    }
    for (int i = 0; i < job.size(); ++i) EXPECT_EQ(ValueOf(job, i, "first"), 4);
  }
}

TEST(Processes, AMirroredVariableWithoutAggregationIsAssignedByNobody) {
  const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}, .spans_processes = true});
  ASSERT_TRUE(builder.ok()) << builder.status();
  const auto variable =
      (*builder)->Variable(ScalarVariable("v", Synchronization::kMirrored, Aggregation::kNone));
  ASSERT_TRUE(variable.ok()) << variable.status();
  const Output step = Placeholder((*builder)->host_scope(), "step", kInt64, PartialShape({}));
  ASSERT_TRUE((*builder)->BeginStep("test", step).ok());
  const absl::Status run = (*builder)->Run([&](const ReplicaContext& replica) {
    return replica.Assign(**variable, replica.scope().Constant(1.0f));
  });
  ASSERT_TRUE(run.ok()) << run;
  const absl::Status ended = (*builder)->EndStep().status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kInvalidArgument) << ended;
  EXPECT_TRUE(absl::StrContains(ended.message(), "'v'")) << ended;
}

TEST(Processes, VariablesReadOnDemandKeepTheirWholeWhenMembersComeAndGo) {
  JobOptions options;
  options.replicas = {2, 1};
  Job job(options, Counting(Synchronization::kOnRead));
  ASSERT_TRUE(job.opened());
  const auto run = [&](const std::vector<float>& batch) {
    for (const StrategyRunner::Result& result : job.Run(InputOf(batch))) {
      EXPECT_TRUE(result.ok()) << result.status();
    }
  };
  const auto expect = [&](const std::vector<int>& processes, float sum, float mean, float first) {
    for (const int i : processes) {
      EXPECT_EQ(ValueOf(job, i, "sum"), sum) << i;
      EXPECT_EQ(ValueOf(job, i, "mean"), mean) << i;
      EXPECT_EQ(ValueOf(job, i, "first"), first) << i;
    }
  };
  run({1, 2, 6});
  run({1, 2, 6});
  expect({0, 1}, 18, 6, 2);
  // Process 1 is lost. What its replica had counted is not: the others have the whole.
  job.process(1).group->Abort(errors::Unavailable("killed"));
  job.Form({0}, 2);
  expect({0}, 18, 6, 2);
  run({1, 4});
  expect({0}, 23, 8.5, 3);
  // It comes back and takes the state; nothing is counted twice.
  const auto state = job.process(0).runner->CaptureState();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(job.process(1).runner->TakeState(*state).ok());
  expect({1}, 23, 8.5, 3);
  job.Form({0, 1}, 3);
  expect({0, 1}, 23, 8.5, 3);
  run({3, 3, 3});
  expect({0, 1}, 32, 11.5, 6);
  // The first replica of all is another process' now.
  job.process(0).group->Abort(errors::Unavailable("killed"));
  job.Form({1}, 4);
  run({5});
  expect({1}, 37, 16.5, 11);
}

TEST(Processes, SeedsAreThoseOfOneProcessWithAllReplicas) {
  PerReplica seeds;
  const Program program = Step(
      [&](const ReplicaContext& replica, Output) {
        if (replica.replica() == 0) seeds.clear();
        seeds.push_back(replica.scope().Call("ExpandDims", {replica.StepSeed(77), 0}));
        return replica.scope().status();
      },
      [&](StrategyBuilder& builder, RunSignature& signature) -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(const Output all, builder.GatherToHost(seeds, 0));
        signature.fetches.push_back(all.name());
        return absl::OkStatus();
      });
  const auto run = [&](std::vector<int> replicas, bool spans_processes) {
    std::vector<Tensor> all;
    JobOptions options;
    options.replicas = std::move(replicas);
    options.spans_processes = spans_processes;
    Job job(options, program);
    if (!job.opened()) return all;
    for (int64_t step = 0; step < 3; ++step) {
      const auto results = job.Run(InputOf({1, 2, 3, 4}, step));
      for (const StrategyRunner::Result& result : results) {
        EXPECT_TRUE(result.ok()) << result.status();
        if (!result.ok()) return all;
        ExpectSame(*result, *results[0]);
      }
      all.push_back((*results[0])[0]);
    }
    return all;
  };
  const std::vector<Tensor> expected = run({4}, false);
  ASSERT_EQ(expected.size(), 3u);
  std::set<std::pair<int64_t, int64_t>> distinct;
  for (const Tensor& step : expected) {
    const auto values = step.Elements<int64_t>();
    for (size_t i = 0; i < values.size(); i += 2) distinct.emplace(values[i], values[i + 1]);
  }
  EXPECT_EQ(distinct.size(), 12u);
  for (const std::vector<int>& replicas : {std::vector<int>{4}, {1, 3}, {2, 1, 1}}) {
    ExpectSame(run(replicas, true), expected);
  }
}

TEST(Processes, StepsThatAreStartedFindEachOtherAsWell) {
  JobOptions options;
  options.replicas = {1, 1};
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  for (int step = 0; step < 3; ++step) {
    std::vector<StrategyRunner::Result> results(2, StrategyRunner::Result(std::vector<Tensor>()));
    Event ended[2];
    for (int i = 0; i < 2; ++i) {
      job.process(i).runner->Start(0, TrainingInput(4), [&, i](StrategyRunner::Result result) {
        results[static_cast<size_t>(i)] = std::move(result);
        ended[i].Set();
      });
    }
    for (Event& event : ended) event.Wait();
    for (const StrategyRunner::Result& result : results) {
      ASSERT_TRUE(result.ok()) << result.status();
    }
    ExpectSame(*results[0], *results[1]);
  }
}

}  // namespace
}  // namespace tandem
