#include "strategies/trainer/resume_test_util.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "gtest/gtest.h"
#include "strategies/nn/layer_call.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/testing/classification_problem.h"

namespace tandem::testing {
namespace {

// Adds normal numbers from two ops whose generators move on from step to step, one in a function.
class Noise final : public nn::Layer {
 public:
  std::string default_name() const override { return "noise"; }
  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const nn::CallOptions& options) const override {
    if (!options.training) return inputs[0];
    const Scope scope = replica.scope().SubScope(path);
    const Output shape = scope.Call("Shape", {inputs[0]});
    const Output noise = Normal(scope, shape, 7, replica);
    const std::string function = absl::StrCat("noise_of_", replica.replica());
    const Scope inside = Scope::NewRoot();
    FunctionResult(inside, 0, Normal(inside, FunctionArg(inside, 0, kInt32), 8, replica));
    TANDEM_RETURN_IF_ERROR(inside.status());
    TANDEM_RETURN_IF_ERROR(
        DefineFunction(function, *inside.graph(), {}, &scope.graph()->functions()));
    const Output more = scope.Call("StatefulPartitionedCall", {shape},
                                   {{"f", FunctionRef{function, {}}},
                                    {"Tin", std::vector<DataType>{kInt32}},
                                    {"Tout", std::vector<DataType>{kFloat32}}});
    const Output both = scope.Call("AddV2", {noise, scope.Call("Reshape", {more, shape})});
    return scope.Call("AddV2", {inputs[0], scope.Call("Mul", {both, 0.1f})});
  }

 private:
  static Output Normal(const Scope& scope, const Output& shape, int64_t seed,
                       const ReplicaContext& replica) {
    return scope.Call(
        "RandomStandardNormal", {shape},
        {{"dtype", kFloat32}, {"seed", seed}, {"seed2", int64_t{1} + replica.replica()}});
  }
};

// Adds the sum of the means that this replica has seen so far, which is another one in each.
class Drift final : public nn::Layer {
 public:
  std::string default_name() const override { return "drift"; }
  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const nn::CallOptions& options) const override {
    VariableSpec spec;
    spec.name = path + "/sum";
    spec.shape = Shape({1});
    spec.trainable = false;
    spec.synchronization = Synchronization::kOnRead;
    spec.initializer = [](const Scope& scope) {
      return scope.Constant(Tensor::Zeros(kFloat32, Shape({1})));
    };
    TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* sum, replica.builder().Variable(spec));
    const Scope scope = replica.scope().SubScope(path);
    const Output before = replica.Read(*sum);
    if (options.training) {
      const Output flat = scope.Call("Reshape", {inputs[0], Tensor::Vector<int32_t>({1, -1})});
      const Output mean = scope.Call("Mean", {flat, scope.Constant(1)});
      TANDEM_RETURN_IF_ERROR(replica.Assign(*sum, scope.Call("AddV2", {before, mean})));
    }
    return scope.Call("AddV2", {inputs[0], scope.Call("Mul", {before, 0.01f})});
  }
};

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

void ExpectSameResult(const EpochResult& got, const EpochResult& expected) {
  EXPECT_EQ(got.loss, expected.loss);
  EXPECT_EQ(got.metrics, expected.metrics);
  EXPECT_EQ(got.examples, expected.examples);
  ASSERT_EQ(got.validation != nullptr, expected.validation != nullptr);
  if (got.validation != nullptr) ExpectSameResult(*got.validation, *expected.validation);
}

}  // namespace

data::Dataset Data() {
  // Five batches, the last of which is smaller.
  return data::Dataset::FromTensors(ClassificationBatch(0, 37)).Shuffle(20, 3).Batch(8).Prefetch(2);
}

data::Dataset Validation() { return data::Dataset::FromTensors(ClassificationBatch(1, 30)); }

Outcome Train(const Strategy& strategy, const TrainingSetup& setup, FitOptions fit) {
  const nn::LayerPtr model = nn::Sequential({
      nn::Dense({.units = setup.units, .activation = "relu"}),
      nn::BatchNorm(),
      std::make_shared<Noise>(),
      nn::Dropout({.rate = 0.25}),
      std::make_shared<Drift>(),
      nn::Dense({.units = kClasses}),
  });
  optimizer::OptimizerPtr optimizer = setup.optimizer;
  if (optimizer == nullptr) {
    optimizer =
        optimizer::Accumulate(optimizer::Adam({.schedule = optimizer::CosineDecay(0.05, 20)}), 3);
  }
  Trainer trainer(strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer,
                  {.seed = setup.seed, .metrics = setup.metrics});
  fit.epochs = setup.epochs;
  if (!fit.validation.has_value()) fit.validation = Validation().Batch(10);
  fit.callbacks.push_back(callback::EarlyStopping({.patience = 1}));
  auto history = trainer.Fit(setup.data ? setup.data : Epochs(Data()), fit);
  Outcome outcome;
  outcome.status = history.status();
  if (history.ok()) outcome.history = *std::move(history);
  outcome.steps = trainer.step();
  const auto state = trainer.CaptureState();
  if (state.ok()) outcome.state = *state;
  outcome.variables = trainer.VariableNames();
  return outcome;
}

FitOptions SavingTo(FileSystem* files, int64_t steps) {
  FitOptions fit;
  fit.checkpoint_dir = "/run";
  fit.checkpoints.files = files;
  fit.checkpoints.save_every_steps = steps;
  fit.checkpoints.asynchronous = false;
  return fit;
}

FitOptions Resuming(FileSystem* files, int64_t steps) {
  FitOptions fit = SavingTo(files, steps);
  fit.resume = true;
  return fit;
}

namespace {

class Death final : public Callback {
 public:
  explicit Death(int64_t step) : steps_(step) {}
  absl::StatusOr<Next> OnStep(Trainer&, const TrainingProgress&) override {
    if (--steps_ == 0) return errors::Internal("killed");
    return Next::kGoOn;
  }

 private:
  int64_t steps_;
};

}  // namespace

void DieAfter(int64_t step, FitOptions& fit) {
  fit.callbacks.push_back(std::make_shared<Death>(step));
}

void ExpectSameBits(const Outcome& got, const Outcome& expected) {
  ASSERT_TRUE(got.status.ok()) << got.status;
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  ASSERT_EQ(got.state.size(), expected.state.size());
  for (size_t i = 0; i < got.state.size(); ++i) {
    EXPECT_EQ(got.state[i].first, expected.state[i].first);
    EXPECT_TRUE(SameBits(got.state[i].second, expected.state[i].second)) << got.state[i].first;
  }
  ASSERT_EQ(got.history.size(), expected.history.size());
  for (size_t i = 0; i < got.history.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "epoch " << i + 1);
    ExpectSameResult(got.history[i], expected.history[i]);
  }
}

}  // namespace tandem::testing
