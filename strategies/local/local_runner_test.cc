// How steps end that would not end by themselves.
#include "strategies/local/local_runner.h"

#include <thread>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "gtest/gtest.h"
#include "strategies/local/replica_builder.h"

namespace tandem {
namespace {

// How often a kernel has begun to wait.
class Waits {
 public:
  void Add() {
    MutexLock lock(mu_);
    ++count_;
    changed_.NotifyAll();
  }
  void Forget() {
    MutexLock lock(mu_);
    seen_ = count_;
  }
  void WaitForNext() {
    MutexLock lock(mu_);
    while (count_ == seen_) changed_.Wait(mu_);
    ++seen_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  int seen_ ABSL_GUARDED_BY(mu_) = 0;
};
Waits waits;

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
    waits.Add();
  }
};
TANDEM_OP("_TestWaitForever")
    .Inputs("input:float32")
    .Outputs("output:float32")
    .Shape(UnchangedShape)
    .Stateful()
    .Cpu(Make<WaitForeverKernel>());

class LocalRunnerTest : public ::testing::Test {
 protected:
  // A step of two replicas, the second of which never comes to the reduction.
  void Open(absl::Duration timeout) {
    waits.Forget();
    ReplicaBuilderOptions replicas;
    replicas.devices = {"/device:CPU:0"};
    replicas.virtual_replicas = 2;
    builder_ = *NewReplicaBuilder(std::move(replicas));
    ASSERT_TRUE(builder_->BeginStep("test").ok());
    RunSignature signature;
    const absl::Status built = builder_->Run([&](const ReplicaContext& replica) {
      Output value = replica.scope().Constant(1.0f);
      if (replica.replica() == 1) value = replica.scope().Call("_TestWaitForever", {value});
      signature.fetches.push_back(replica.AllReduce(Reduction::kSum, {value})[0].name());
      return replica.scope().status();
    });
    ASSERT_TRUE(built.ok()) << built;
    const auto done = builder_->EndStep();
    ASSERT_TRUE(done.ok()) << done.status();
    signature.targets = {(*done)->name()};
    SessionOptions options;
    options.collective_timeout = timeout;
    auto runner = LocalRunner::Create(*builder_, std::move(options));
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    const auto program = runner_->AddProgram(signature);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }

  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<LocalRunner> runner_;
  int program_ = 0;
};

TEST_F(LocalRunnerTest, AReplicaThatDoesNotComeEndsTheStepAndIsNamed) {
  Open(absl::Milliseconds(3));
  const absl::Status status = runner_->Run(program_, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "member 1 of 2")) << status;
}

TEST_F(LocalRunnerTest, StepsThatRunAreCancelledFromAnotherThreadAndLaterOnesAreNot) {
  Open(absl::InfiniteDuration());
  for (const std::string reason : {"the first reason", "the second reason"}) {
    absl::Status run;
    std::thread driver([&] { run = runner_->Run(program_, {}).status(); });
    absl::Status started;
    Event ended;
    runner_->Start(program_, {}, [&](StrategyRunner::Result result) {
      started = result.status();
      ended.Set();
    });
    waits.WaitForNext();
    waits.WaitForNext();
    runner_->CancelSteps(errors::Cancelled(reason));
    ended.Wait();
    driver.join();
    for (const absl::Status& status : {run, started}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), reason)) << status;
    }
  }
}

TEST(LocalRunnerState, AValueThatNobodyElseHoldsIsTakenOverWithoutACopy) {
  const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}});
  ASSERT_TRUE(builder.ok()) << builder.status();
  VariableSpec spec;
  spec.name = "v";
  spec.shape = Shape({1 << 16});
  spec.initializer = [shape = spec.shape](const Scope& scope) {
    return scope.Constant(Tensor::Zeros(kFloat32, shape));
  };
  ASSERT_TRUE((*builder)->Variable(spec).ok());
  const auto runner = LocalRunner::Create(**builder, {});
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->Initialize().ok());
  const auto filled = [&spec](float value) {
    Tensor tensor = Tensor::Zeros(kFloat32, spec.shape);
    for (float& element : tensor.MutableElements<float>()) element = value;
    return tensor;
  };
  StrategyState state = {{"v", filled(1)}};
  const void* const data = state[0].second.data();
  ASSERT_TRUE((*runner)->TakeState(std::move(state)).ok());
  EXPECT_EQ((*runner)->ReadVariable("v")->data(), data);
  EXPECT_EQ((*runner)->ReadVariable("v")->Elements<float>()[7], 1);
  // What its owner keeps stays the owner's.
  const StrategyState kept = {{"v", filled(2)}};
  ASSERT_TRUE((*runner)->RestoreState(kept).ok());
  EXPECT_NE((*runner)->ReadVariable("v")->data(), kept[0].second.data());
  EXPECT_EQ((*runner)->ReadVariable("v")->Elements<float>()[7], 2);
}

TEST(LocalRunnerBatch, OneThatDoesNotFitIsNamedAsAWhole) {
  const auto builder = NewReplicaBuilder({.devices = {"/device:CPU:0"}, .virtual_replicas = 2});
  ASSERT_TRUE(builder.ok()) << builder.status();
  RunSignature signature;
  const Scope scope = (*builder)->host_scope();
  for (const char* name : {"part_0", "part_1"}) {
    scope.WithOpName(name).Call("Placeholder", {},
                                {{"dtype", kFloat32}, {"shape", PartialShape({-1, 3})}});
    signature.feeds.push_back(name);
    signature.fetches.push_back(name);
  }
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto runner = LocalRunner::Create(**builder, {});
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE((*runner)->AddProgram(signature).ok());
  const auto run = [&](DataType dtype, Shape shape) {
    StepInput input;
    input.batch = {Tensor::Zeros(dtype, std::move(shape))};
    return (*runner)->Run(0, std::move(input)).status();
  };
  EXPECT_TRUE(run(kFloat32, Shape({5, 3})).ok());
  for (const absl::Status& status :
       {run(kFloat32, Shape({4, 2})), run(kInt32, Shape({4, 3})), run(kFloat32, Shape({}))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "tensor 0 of the batch is ")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "made for float32[?,3]")) << status;
  }
}

TEST(LocalRunnerBatch, PartsOfAllProcessesAreTheBatch) {
  Tensor batch(kInt32, Shape({7, 2}));
  for (int32_t i = 0; i < 14; ++i) batch.MutableElements<int32_t>()[static_cast<size_t>(i)] = i;
  const auto whole = CutBatch({batch}, {.all = 5, .first = 0, .count = 5}, false);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->size(), 5u);
  // Element i belongs to replica floor(5i/7).
  const std::vector<int64_t> sizes = {2, 1, 2, 1, 1};
  for (size_t r = 0; r < 5; ++r) EXPECT_EQ((*whole)[r].shape(), Shape({sizes[r], 2})) << r;
  for (const int limit : {0, 1, 3, 5}) {
    const auto first = CutBatch({batch}, {.all = 5, .first = 0, .count = limit}, true);
    const auto rest = CutBatch({batch}, {.all = 5, .first = limit, .count = 5 - limit}, true);
    ASSERT_TRUE(first.ok() && rest.ok());
    std::vector<Tensor> parts = *first;
    parts.insert(parts.end(), rest->begin(), rest->end());
    ASSERT_EQ(parts.size(), 5u);
    for (size_t r = 0; r < 5; ++r) {
      EXPECT_EQ(parts[r].Elements<int32_t>()[0], (*whole)[r].Elements<int32_t>()[0]);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parts[r].data()) % 64, 0u);
    }
  }
  for (const ReplicaRange& range :
       {ReplicaRange{4, 3, 2}, ReplicaRange{4, -1, 2}, ReplicaRange{0, 0, 1}}) {
    EXPECT_EQ(CutBatch({batch}, range, false).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tandem
