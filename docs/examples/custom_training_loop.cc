// A training loop of one's own: layers and an optimizer of the library, but the loss, the step and
// the loop are this program's. The model learns on which side of a spiral a point lies; points of
// the inner half count twice.
//
// The same code runs under any strategy: it says what one replica does, and the builder does the
// rest.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tandem.h"

namespace {

using tandem::Output;
using tandem::Tensor;

constexpr int64_t kBatch = 64;

// Points of two spirals, and how much each counts.
std::vector<Tensor> Batch(int64_t number) {
  Tensor points(tandem::kFloat32, tandem::Shape({kBatch, 2}));
  Tensor labels(tandem::kFloat32, tandem::Shape({kBatch, 1}));
  Tensor weights(tandem::kFloat32, tandem::Shape({kBatch, 1}));
  for (int64_t i = 0; i < kBatch; ++i) {
    const size_t k = static_cast<size_t>(i);
    // A sequence that fills the interval evenly.
    const double t = std::fmod(static_cast<double>(number * kBatch + i) * 0.6180339887, 1.0);
    const double side = i % 2 == 0 ? 0 : M_PI;
    points.MutableElements<float>()[2 * k] = static_cast<float>(t * std::cos(4 * t + side));
    points.MutableElements<float>()[2 * k + 1] = static_cast<float>(t * std::sin(4 * t + side));
    labels.MutableElements<float>()[k] = i % 2 == 0 ? 0.0f : 1.0f;
    weights.MutableElements<float>()[k] = t < 0.5 ? 2.0f : 1.0f;
  }
  return {points, labels, weights};
}

absl::Status Run() {
  TANDEM_ASSIGN_OR_RETURN(const auto strategy, tandem::Strategy::FromEnvironment());
  TANDEM_ASSIGN_OR_RETURN(const auto builder, strategy->NewBuilder());
  const auto model = tandem::nn::Sequential({
      tandem::nn::Dense({.units = 32, .activation = "tanh"}),
      tandem::nn::Dense({.units = 32, .activation = "tanh"}),
      tandem::nn::Dense({.units = 1}),
  });
  const auto optimizer =
      tandem::optimizer::ClipByGlobalNorm(tandem::optimizer::Adam({.learning_rate = 0.01}), 1.0);

  // What is fed: each replica's part of the three tensors of a batch, and three numbers.
  const tandem::Scope host = builder->host_scope();
  tandem::RunSignature train;
  const auto placeholder = [&](tandem::DataType dtype, const tandem::PartialShape& shape) {
    const Output fed = host.Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
    if (fed.valid()) train.feeds.push_back(fed.name());
    return fed;
  };
  std::vector<std::vector<Output>> parts(3);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int r = 0; r < builder->num_replicas(); ++r) {
      parts[i].push_back(placeholder(tandem::kFloat32, {-1, i == 0 ? 2 : 1}));
    }
  }
  const Output batch_size = placeholder(tandem::kFloat32, {});
  const Output learning_rate = placeholder(tandem::kFloat32, {});
  const Output step = placeholder(tandem::kInt64, {});
  TANDEM_RETURN_IF_ERROR(host.status());

  TANDEM_RETURN_IF_ERROR(builder->BeginStep("train", step));
  std::vector<Output> losses;
  std::vector<tandem::StrategyVariable*> variables;
  std::vector<tandem::PerReplicaGradient> gradients;
  TANDEM_RETURN_IF_ERROR(builder->Run([&](const tandem::ReplicaContext& replica) -> absl::Status {
    const size_t r = static_cast<size_t>(replica.replica());
    const tandem::Scope& scope = replica.scope();
    TANDEM_ASSIGN_OR_RETURN(const Output logits,
                            model->Call(replica, "", {parts[0][r]}, {.training = true}));
    // -log p of the right side, weighted; the mean is over the global batch.
    const Output margins = scope.Call(
        "Mul", {logits, scope.Call("Sub", {scope.Call("Mul", {parts[1][r], -2.0f}), -1.0f})});
    const Output examples = scope.Call("Mul", {scope.Call("Softplus", {margins}), parts[2][r]});
    const Output loss =
        scope.Call("RealDiv", {scope.Call("Sum", {examples, scope.Constant({0, 1})}), batch_size});
    losses.push_back(loss);
    variables = builder->variables();
    std::vector<Output> values;
    for (const tandem::StrategyVariable* variable : variables) {
      values.push_back(replica.Read(*variable));
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    TANDEM_ASSIGN_OR_RETURN(const std::vector<tandem::Gradient> mine,
                            tandem::AddGradients(builder->graph(), {loss}, values));
    gradients.resize(variables.size());
    for (size_t i = 0; i < mine.size(); ++i) gradients[i].push_back(mine[i]);
    return absl::OkStatus();
  }));
  TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder->ReduceGradients(gradients));
  TANDEM_RETURN_IF_ERROR(tandem::optimizer::ApplyGradients(*builder, *optimizer, variables, reduced,
                                                           learning_rate, step));
  TANDEM_ASSIGN_OR_RETURN(const Output loss,
                          builder->ReduceToHost(tandem::Reduction::kSum, losses));
  TANDEM_ASSIGN_OR_RETURN(const tandem::Node* done, builder->EndStep());
  train.fetches = {loss.name()};
  train.targets = {done->name()};

  TANDEM_ASSIGN_OR_RETURN(const auto runner, strategy->NewRunner(*builder));
  TANDEM_RETURN_IF_ERROR(runner->Initialize());
  TANDEM_ASSIGN_OR_RETURN(const int program, runner->AddProgram(train));
  for (int64_t i = 0; i <= 1500; ++i) {
    tandem::StepInput input;
    input.step = i;
    input.batch = Batch(i);
    input.values = {Tensor::Scalar<float>(kBatch),
                    Tensor::Scalar<float>(static_cast<float>(optimizer->LearningRate(i))),
                    Tensor::Scalar<int64_t>(i)};
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                            runner->Run(program, std::move(input)));
    if (i % 300 == 0) {
      std::printf("step %4lld  loss %.4f\n", static_cast<long long>(i),
                  fetched[0].ScalarValue<float>());
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main() { return tandem::Exit(Run()); }
