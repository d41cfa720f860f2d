// Steps of several processes give what one process with all of their replicas gives, whatever comes
// between.
#include <cstring>
#include <set>
#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "strategies/local/processes_test_util.h"

namespace tandem {
namespace {

using testing::Job;
using testing::JobOptions;
using testing::Program;

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype,
                   PartialShape shape) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", std::move(shape)}});
}

Tensor Numbers(const std::vector<float>& values) {
  return Tensor::Vector<float>(absl::MakeConstSpan(values));
}

std::vector<float> Floats(const Tensor& tensor) {
  const auto values = tensor.Elements<float>();
  return {values.begin(), values.end()};
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(SameBits(got[i], expected[i]))
        << i << ": " << got[i].DebugString() << " and " << expected[i].DebugString();
  }
}

std::vector<Tensor> StateOf(LocalRunner& runner) {
  const auto state = runner.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  std::vector<Tensor> values;
  if (!state.ok()) return values;
  for (const auto& [name, value] : *state) values.push_back(value);
  return values;
}

float ValueOf(Job& job, int process, const std::string& name) {
  const auto value = job.process(process).runner->ReadVariable(name);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? value->ScalarValue<float>() : -12345.f;
}

VariableSpec Scalar(const std::string& name, Synchronization synchronization,
                    Aggregation aggregation) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = Shape({});
  spec.initializer = [](const Scope& scope) { return scope.Constant(0.0f); };
  spec.trainable = false;
  spec.synchronization = synchronization;
  spec.aggregation = aggregation;
  return spec;
}

// A step over the numbers of a batch. `replica_fn` gets those of its replica; `end` may add to the
// signature before the step ends.
Program Step(std::function<absl::Status(const ReplicaContext& replica, Output part)> replica_fn,
             std::function<absl::Status(StrategyBuilder& builder, RunSignature& signature)> end) {
  return [=](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    RunSignature signature;
    const Scope host = builder.host_scope();
    const Output step = Placeholder(host, "step", kInt64, PartialShape({}));
    TANDEM_RETURN_IF_ERROR(builder.BeginStep("test", step));
    TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) {
      signature.feeds.push_back(absl::StrCat("part/replica_", replica.replica()));
      const Output part = Placeholder(host, signature.feeds.back(), kFloat32, PartialShape({-1}));
      return replica_fn(replica, part);
    }));
    signature.feeds.push_back("step");
    TANDEM_RETURN_IF_ERROR(end(builder, signature));
    TANDEM_ASSIGN_OR_RETURN(const Node* done, builder.EndStep());
    signature.targets = {done->name()};
    return signature;
  };
}

StepInput InputOf(const std::vector<float>& batch, int64_t step = 0) {
  StepInput input;
  input.step = step;
  input.batch = {Numbers(batch)};
  input.values = {Tensor::Scalar<int64_t>(step)};
  return input;
}

Output SumOf(const Scope& scope, const Output& part) {
  return scope.Call("Sum", {part, scope.Constant(0)});
}

// Two variables, one of which has sparse gradients, moved by squares of whole numbers, so that no
// order of sums shows.
absl::StatusOr<RunSignature> TrainingStep(StrategyBuilder& builder) {
  constexpr float kRate = 1.0f / 32;
  const Scope host = builder.host_scope();
  VariableSpec spec;
  spec.name = "weights";
  spec.shape = Shape({3});
  spec.initializer = [](const Scope& scope) { return scope.Constant({1.0f, -2.0f, 3.0f}); };
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* weights, builder.Variable(spec));
  spec.name = "table";
  spec.shape = Shape({5, 2});
  spec.initializer = [](const Scope& scope) {
    return scope.Constant(Tensor::FromValues<float>(Shape({5, 2}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  };
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* table, builder.Variable(spec));
  TANDEM_RETURN_IF_ERROR(builder.BeginStep("train"));
  RunSignature signature;
  std::vector<std::string> feeds_of_rows;
  PerReplica linear;
  PerReplica counts;
  std::vector<PerReplicaGradient> gradients(2);
  TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) -> absl::Status {
    const Scope& scope = replica.scope();
    signature.feeds.push_back(absl::StrCat("x/replica_", replica.replica()));
    feeds_of_rows.push_back(absl::StrCat("rows/replica_", replica.replica()));
    const Output x = Placeholder(host, signature.feeds.back(), kFloat32, PartialShape({-1, 3}));
    const Output rows = Placeholder(host, feeds_of_rows.back(), kInt32, PartialShape({-1}));
    const Output w = replica.Read(*weights);
    const Output t = replica.Read(*table);
    const Output axis = scope.Constant({1});
    const Output sums =
        scope.Call("AddV2", {scope.Call("Sum", {scope.Call("Mul", {x, w}), axis}),
                             scope.Call("Sum", {scope.Call("GatherV2", {t, rows, 0}), axis})});
    const Output loss = SumOf(scope, scope.Call("Square", {sums}));
    TANDEM_RETURN_IF_ERROR(scope.status());
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> own,
                            AddGradients(builder.graph(), {loss}, {w, t}));
    EXPECT_TRUE(own[1].is_sparse());
    for (size_t i = 0; i < 2; ++i) gradients[i].push_back(own[i]);
    linear.push_back(SumOf(scope, sums));
    counts.push_back(scope.Call("Size", {rows}));
    return scope.status();
  }));
  signature.feeds.insert(signature.feeds.end(), feeds_of_rows.begin(), feeds_of_rows.end());
  TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients(gradients));
  EXPECT_FALSE(reduced[0][0].is_sparse());
  EXPECT_TRUE(reduced[1][0].is_sparse());
  TANDEM_RETURN_IF_ERROR(builder.Update(
      *weights, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Output gradient = reduced[0][static_cast<size_t>(copy)].values;
        return scope.AddNode("AssignSubVariableOp", {handle, scope.Call("Mul", {gradient, kRate})});
      }));
  TANDEM_RETURN_IF_ERROR(builder.Update(
      *table, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Gradient& gradient = reduced[1][static_cast<size_t>(copy)];
        return scope.AddNode("ResourceScatterAdd", {handle, gradient.indices,
                                                    scope.Call("Mul", {gradient.values, -kRate})});
      }));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> results,
                          builder.ReduceAllToHost(Reduction::kSum, {linear, counts}));
  for (const Output& result : results) signature.fetches.push_back(result.name());
  TANDEM_ASSIGN_OR_RETURN(const Node* done, builder.EndStep());
  signature.targets = {done->name()};
  return signature;
}

StepInput TrainingInput(int64_t size) {
  Tensor x(kFloat32, Shape({size, 3}));
  Tensor rows(kInt32, Shape({size}));
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      x.MutableElements<float>()[static_cast<size_t>(i * 3 + j)] =
          static_cast<float>((i * 5 + j * 3) % 4 - 1);
    }
    rows.MutableElements<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 3 % 5);
  }
  StepInput input;
  input.batch = {x, rows};
  return input;
}

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
              replica.builder().Variable(Scalar(name, synchronization, aggregation)));
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
      (*builder)->Variable(Scalar("v", Synchronization::kMirrored, Aggregation::kNone));
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

// Waits until a collective of the process waits for others.
void AwaitPending(const collective::Group& group, size_t count) {
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (group.Pending().size() < count) {
    ASSERT_LT(absl::Now(), end) << "no operation has begun";
    absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST(Processes, AStepThatLosesAProcessChangesNothingAndIsRepeatedByTheOthers) {
  JobOptions options;
  options.replicas = {1, 1, 1};
  options.bucket_bytes = 1;
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  for (const StrategyRunner::Result& result : job.Run(TrainingInput(6))) {
    ASSERT_TRUE(result.ok()) << result.status();
  }
  const std::vector<Tensor> before = StateOf(*job.process(0).runner);
  // Process 2 does not come to the next step.
  std::vector<StrategyRunner::Result> results(2, StrategyRunner::Result(std::vector<Tensor>()));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(
        [&, i] { results[static_cast<size_t>(i)] = job.RunOne(i, TrainingInput(6)); });
  }
  AwaitPending(*job.process(0).group, 1);
  AwaitPending(*job.process(1).group, 1);
  job.process(2).group->Abort(errors::Unavailable("worker:2 is gone"));
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = results[static_cast<size_t>(i)].status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    ExpectSame(StateOf(*job.process(i).runner), before);
  }
  // Nothing begins before the next generation.
  EXPECT_EQ(job.RunOne(0, TrainingInput(6)).status().code(), absl::StatusCode::kAborted);
  ExpectSame(StateOf(*job.process(0).runner), before);
  job.Form({0, 1}, 2);
  for (const StrategyRunner::Result& result : job.Run(TrainingInput(6))) {
    ASSERT_TRUE(result.ok()) << result.status();
  }

  JobOptions alone;
  alone.replicas = {1};
  alone.spans_processes = false;
  Job undisturbed(alone, TrainingStep);
  ASSERT_TRUE(undisturbed.opened());
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(undisturbed.RunOne(0, TrainingInput(6)).ok());
  }
  const std::vector<Tensor> expected = StateOf(*undisturbed.process(0).runner);
  for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), expected);
}

// Waits until its step is cancelled.
class WaitForeverKernel final : public AsyncKernel {
 public:
  void Start(KernelContext& c, Done done) override {
    CancellationManager* const cancellation = c.step().cancellation;
    auto shared = std::make_shared<Done>(std::move(done));
    if (!cancellation->Register(cancellation->NewToken(),
                                [shared, cancellation] { (*shared)(cancellation->status()); })) {
      (*shared)(cancellation->status());
    }
  }
};
TANDEM_OP("_TestWaitForever")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Make<WaitForeverKernel>());

// A step with four reductions: of a gradient, a result and two statistics. `stuck` says which of
// them this process never comes to.
Program FourReductions(const std::string& stuck) {
  return [stuck](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    const VariableSpec spec = Scalar("weight", Synchronization::kMirrored, Aggregation::kMean);
    TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* weight, builder.Variable(spec));
    PerReplica results;
    PerReplicaGradient gradient;
    const auto maybe_stuck = [&](const Scope& scope, const std::string& what, Output value) {
      return what == stuck ? scope.Call("_TestWaitForever", {value}) : value;
    };
    const Program program = Step(
        [&](const ReplicaContext& replica, Output part) -> absl::Status {
          const Scope& scope = replica.scope();
          const Output own = SumOf(scope, part);
          gradient.push_back(Gradient(maybe_stuck(scope, "gradient", own)));
          results.push_back(maybe_stuck(scope, "result", own));
          for (const auto& [name, synchronization, aggregation] :
               {std::tuple("mirrored", Synchronization::kMirrored, Aggregation::kMean),
                std::tuple("on_read", Synchronization::kOnRead, Aggregation::kSum)}) {
            TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* statistic,
                                    builder.Variable(Scalar(name, synchronization, aggregation)));
            const Output next = scope.Call("AddV2", {replica.Read(*statistic), own});
            TANDEM_RETURN_IF_ERROR(replica.Assign(*statistic, maybe_stuck(scope, name, next)));
          }
          return scope.status();
        },
        [&](StrategyBuilder&, RunSignature& signature) -> absl::Status {
          TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients({gradient}));
          TANDEM_RETURN_IF_ERROR(builder.Update(
              *weight, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
                return scope.AddNode("AssignAddVariableOp",
                                     {handle, reduced[0][static_cast<size_t>(copy)].values});
              }));
          TANDEM_ASSIGN_OR_RETURN(const Output result,
                                  builder.ReduceToHost(Reduction::kSum, results));
          signature.fetches.push_back(result.name());
          return absl::OkStatus();
        });
    return program(builder);
  };
}

// How many operations of the group have ended well, so far.
int64_t DoneOf(const collective::Group& group) {
  int64_t done = 0;
  const std::string text = group.FlightRecordText("");
  for (size_t at = 0; (at = text.find("\"state\":\"done\"", at)) != std::string::npos; ++at) ++done;
  return done;
}

TEST(Processes, NothingIsWrittenBeforeAllReductionsOfTheStepHaveArrived) {
  for (const std::string stuck : {"gradient", "result", "mirrored", "on_read"}) {
    JobOptions options;
    options.replicas = {1, 2};
    Job job(options, [&](int process) { return FourReductions(process == 1 ? stuck : ""); });
    ASSERT_TRUE(job.opened());
    const std::vector<Tensor> before = StateOf(*job.process(0).runner);
    const int64_t done = DoneOf(*job.process(0).group);
    std::vector<StrategyRunner::Result> results;
    std::thread driver([&] { results = job.Run(InputOf({1, 2, 3})); });
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (DoneOf(*job.process(0).group) < done + 3 && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(DoneOf(*job.process(0).group), done + 3) << stuck;
    // What came might be written now.
    absl::SleepFor(absl::Milliseconds(20));
    ExpectSame(StateOf(*job.process(0).runner), before);
    job.process(1).runner->CancelSteps(errors::Cancelled("enough"));
    job.process(1).group->Abort(errors::Unavailable("worker:1 has left"));
    driver.join();
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].status().code(), absl::StatusCode::kAborted) << results[0].status();
    EXPECT_EQ(results[1].status().code(), absl::StatusCode::kCancelled) << results[1].status();
    for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), before);
  }
}

TEST(Processes, AStepThatAnotherProcessGivesUpIsAborted) {
  JobOptions options;
  options.replicas = {1, 1};
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  const std::vector<Tensor> before = StateOf(*job.process(0).runner);
  StrategyRunner::Result given_up = std::vector<Tensor>();
  std::thread driver([&] { given_up = job.RunOne(1, TrainingInput(4)); });
  AwaitPending(*job.process(1).group, 1);
  job.process(1).runner->CancelSteps(errors::Cancelled("interrupted"));
  driver.join();
  EXPECT_EQ(given_up.status().code(), absl::StatusCode::kCancelled) << given_up.status();
  const absl::Status status = job.RunOne(0, TrainingInput(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "interrupted")) << status;
  for (int i = 0; i < 2; ++i) ExpectSame(StateOf(*job.process(i).runner), before);
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

TEST(Processes, WithoutAGroupAStepIsAborted) {
  JobOptions options;
  options.replicas = {1};
  Job job(options, TrainingStep);
  ASSERT_TRUE(job.opened());
  SessionOptions session;
  session.between_processes = std::make_shared<collective::GroupRuntime>(false);
  auto runner = LocalRunner::Create(*job.process(0).builder, std::move(session));
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->Initialize().ok());
  const auto signature = [&] {
    const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}, .spans_processes = true});
    return *TrainingStep(**builder);
  }();
  ASSERT_TRUE((*runner)->AddProgram(signature).ok());
  const absl::Status status = (*runner)->Run(0, TrainingInput(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no group")) << status;
}

}  // namespace
}  // namespace tandem
