// Deterministic mode: the same bits on any number of processes, with any number of devices each.
#include <cmath>
#include <cstring>

#include "core/base/status.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "strategies/local/processes_test_util.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/optimizer/apply.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem {
namespace {

using testing::Job;
using testing::JobOptions;
using testing::Program;

constexpr int kVirtualReplicas = 8;
constexpr int64_t kSteps = 10;
// No multiple of the virtual replicas: their parts differ, and most begin at odd addresses.
constexpr int64_t kBatch = 21;
constexpr int64_t kClasses = 4;

struct Problem {
  nn::LayerPtr model;
  optimizer::OptimizerPtr optimizer;
  DataType dtype = kFloat32;
  std::vector<int64_t> example;  // The shape of an input.

  // Values that no order of sums leaves alone, or whole numbers from 0 to 11.
  StepInput Input(int64_t step) const {
    int64_t size = kBatch;
    std::vector<int64_t> dims = {kBatch};
    for (const int64_t dim : example) {
      dims.push_back(dim);
      size *= dim;
    }
    Tensor inputs(dtype, *Shape::FromDims(dims));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t number = (step * size + i) * 7 + i * i % 13;
      if (dtype == kInt32) {
        inputs.MutableElements<int32_t>()[static_cast<size_t>(i)] =
            static_cast<int32_t>(number % 12);
      } else {
        inputs.MutableElements<float>()[static_cast<size_t>(i)] =
            static_cast<float>(std::sin(static_cast<double>(number)) * (i % 5 == 0 ? 3.0 : 0.2));
      }
    }
    Tensor labels(kInt32, Shape({kBatch}));
    for (int64_t i = 0; i < kBatch; ++i) {
      labels.MutableElements<int32_t>()[static_cast<size_t>(i)] =
          static_cast<int32_t>((step * 3 + i * i) % kClasses);
    }
    StepInput input;
    input.step = step;
    input.batch = {inputs, labels};
    input.values = {Tensor::Scalar<int64_t>(step)};
    return input;
  }
};

// Fetches the loss.
Program TrainingStep(const Problem& problem) {
  return [problem](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    const Scope host = builder.host_scope();
    const auto placeholder = [&](const std::string& name, DataType dtype, PartialShape shape) {
      return host.WithOpName(name).Call("Placeholder", {},
                                        {{"dtype", dtype}, {"shape", std::move(shape)}});
    };
    PartialShape shape({-1});
    for (const int64_t dim : problem.example) shape.AddDim(dim);
    const Output step = placeholder("step", kInt64, PartialShape({}));
    TANDEM_RETURN_IF_ERROR(builder.BeginStep("train", step));
    std::vector<std::string> inputs;
    std::vector<std::string> labels;
    PerReplica losses;
    std::vector<StrategyVariable*> variables;
    std::vector<PerReplicaGradient> gradients;
    TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) -> absl::Status {
      const Scope& scope = replica.scope();
      inputs.push_back(absl::StrCat("inputs/replica_", replica.replica()));
      labels.push_back(absl::StrCat("labels/replica_", replica.replica()));
      const Output x = placeholder(inputs.back(), problem.dtype, shape);
      const Output y = placeholder(labels.back(), kInt32, PartialShape({-1}));
      nn::CallOptions call;
      call.training = true;
      TANDEM_ASSIGN_OR_RETURN(const Output outputs, problem.model->Call(replica, "", {x}, call));
      TANDEM_ASSIGN_OR_RETURN(const Output examples,
                              loss::SparseSoftmaxCrossEntropy()(scope, y, outputs));
      losses.push_back(scope.Call("RealDiv", {scope.Call("Sum", {examples, scope.Constant(0)}),
                                              static_cast<float>(kBatch)}));
      variables.clear();
      std::vector<Output> values;
      for (StrategyVariable* variable : builder.variables()) {
        if (!variable->spec().trainable) continue;
        variables.push_back(variable);
        values.push_back(replica.Read(*variable));
      }
      TANDEM_RETURN_IF_ERROR(scope.status());
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> own,
                              AddGradients(builder.graph(), {losses.back()}, values));
      gradients.resize(variables.size());
      for (size_t i = 0; i < own.size(); ++i) gradients[i].push_back(own[i]);
      return scope.status();
    }));
    TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients(gradients));
    TANDEM_RETURN_IF_ERROR(optimizer::ApplyGradients(builder, *problem.optimizer, variables,
                                                     reduced, host.Constant(0.05f), step));
    RunSignature signature;
    TANDEM_ASSIGN_OR_RETURN(const Output loss, builder.ReduceToHost(Reduction::kSum, losses));
    signature.fetches = {loss.name()};
    TANDEM_ASSIGN_OR_RETURN(const Node* done, builder.EndStep());
    signature.targets = {done->name()};
    signature.feeds = inputs;
    signature.feeds.insert(signature.feeds.end(), labels.begin(), labels.end());
    signature.feeds.push_back("step");
    return signature;
  };
}

// All losses, and then all variables, as they are at every process.
std::vector<Tensor> Train(const Problem& problem, JobOptions options) {
  std::vector<Tensor> values;
  options.is_deterministic = true;
  options.bucket_bytes = 1 << 10;
  Job job(std::move(options), TrainingStep(problem));
  if (!job.opened()) return values;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto results = job.Run(problem.Input(step));
    for (const StrategyRunner::Result& result : results) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return values;
      values.push_back((*result)[0]);
    }
    values.resize(static_cast<size_t>(step) + 1);
    for (const StrategyRunner::Result& result : results) {
      EXPECT_EQ((*result)[0].ScalarValue<float>(), values.back().ScalarValue<float>());
    }
  }
  for (int i = 0; i < job.size(); ++i) {
    const auto state = job.process(i).runner->CaptureState();
    EXPECT_TRUE(state.ok()) << state.status();
    if (!state.ok()) return values;
    for (size_t k = 0; k < state->size(); ++k) {
      const Tensor& value = (*state)[k].second;
      if (i == 0) {
        values.push_back(value);
        continue;
      }
      const Tensor& first = values[static_cast<size_t>(kSteps) + k];
      EXPECT_EQ(std::memcmp(value.data(), first.data(), value.num_bytes()), 0) << (*state)[k].first;
    }
  }
  return values;
}

void ExpectSameBits(const Problem& problem) {
  JobOptions alone;
  alone.replicas = {kVirtualReplicas};
  alone.devices = 1;
  alone.spans_processes = false;
  const std::vector<Tensor> expected = Train(problem, alone);
  ASSERT_GT(expected.size(), static_cast<size_t>(kSteps));
  // It learns something: the losses are not all alike.
  EXPECT_NE(expected[0].ScalarValue<float>(), expected[kSteps - 1].ScalarValue<float>());
  for (const int processes : {1, 2, 3, 4}) {
    for (const int devices : {1, 2}) {
      JobOptions options;
      options.devices = devices;
      int first = 0;
      for (int r = 0; r < processes; ++r) {
        const int next = ((r + 1) * kVirtualReplicas + processes - 1) / processes;
        options.replicas.push_back(next - first);
        first = next;
      }
      const std::vector<Tensor> got = Train(problem, options);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].num_bytes(), expected[i].num_bytes());
        EXPECT_EQ(std::memcmp(got[i].data(), expected[i].data(), got[i].num_bytes()), 0)
            << processes << " processes with " << devices << " devices, value " << i;
      }
    }
  }
}

TEST(ProcessesDeterministic, SynchronizedBatchNormalizationAndDropout) {
  Problem problem;
  problem.model = nn::Sequential({nn::Dense({.units = 16}), nn::BatchNorm({.synchronized = true}),
                                  nn::Activation("relu"), nn::Dropout({.rate = 0.3}),
                                  nn::BatchNorm(), nn::Dense({.units = kClasses})});
  problem.optimizer = optimizer::Sgd({.learning_rate = 0.05, .momentum = 0.9});
  problem.example = {6};
  ExpectSameBits(problem);
}

TEST(ProcessesDeterministic, SparseGradients) {
  Problem problem;
  problem.model = nn::Sequential({nn::Embedding({.input_dim = 12, .output_dim = 5}), nn::Flatten(),
                                  nn::Dense({.units = kClasses})});
  problem.optimizer = optimizer::Adam({.learning_rate = 0.01});
  problem.dtype = kInt32;
  problem.example = {3};
  ExpectSameBits(problem);
}

TEST(ProcessesDeterministic, ConvolutionsWithClippedGradients) {
  Problem problem;
  problem.model = nn::Sequential({nn::Conv2D({.filters = 4, .kernel = {3, 3}, .padding = "SAME"}),
                                  nn::Activation("relu"), nn::MaxPool2D(), nn::Flatten(),
                                  nn::Dense({.units = kClasses})});
  problem.optimizer = optimizer::ClipByGlobalNorm(optimizer::Adam({.learning_rate = 0.01}), 1.0);
  problem.example = {6, 6, 1};
  ExpectSameBits(problem);
}

}  // namespace
}  // namespace tandem
