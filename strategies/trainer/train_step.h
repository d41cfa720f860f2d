// TrainStep: the graph of one training step under a strategy, and of an evaluation.
//
// Feeds, by name: for each replica "input_<replica>" and "label_<replica>" (its part of the global
// batch), "global_batch_size" (float32 scalar: the divisor of the loss, so that a batch of another
// size needs no new plan), "learning_rate" and "step" (float32 scalars; step counts from 1).
#ifndef TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_
#define TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/passes/prune.h"
#include "strategies/builder.h"
#include "strategies/nn/layer.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem {

// The loss of each example, [batch], from the model's output and the labels.
using LossFunction =
    std::function<absl::StatusOr<Output>(const Scope& scope, Output labels, Output outputs)>;

namespace loss {
// Labels int32 or int64 [batch]; outputs are logits [batch, classes].
LossFunction SparseSoftmaxCrossEntropy();
// Labels like outputs, [batch, …]; the mean of the squares over all but the batch.
LossFunction MeanSquaredError();
}  // namespace loss

struct TrainStepOptions {
  PartialShape input_shape;  // With an unknown batch size: [?, 28, 28, 1].
  DataType input_dtype = kFloat32;
  PartialShape label_shape = {-1};
  DataType label_dtype = kInt32;
  int64_t seed = 1;
};

struct TrainStep {
  // Fetches: the loss (mean over the global batch) and the number of right answers (argmax of the
  // outputs; only for integer labels, else 0). The train signature also updates the variables.
  RunSignature train;
  RunSignature evaluate;
  // Fetches the outputs of each replica for "input_<replica>" alone.
  RunSignature predict;
  std::string initializer;
};

// Adds the step to the builder's graph. InvalidArgument: the model or loss does not fit the input.
absl::StatusOr<TrainStep> BuildTrainStep(StrategyBuilder& builder, const nn::Layer& model,
                                         const LossFunction& loss,
                                         const optimizer::Optimizer& optimizer,
                                         const TrainStepOptions& options);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_
