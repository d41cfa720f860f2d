// TrainStep: the graph of one training step under a strategy, and of evaluation and prediction.
//
// Feeds, by name: for each tensor of a batch and each replica "batch_<tensor>/replica_<replica>"
// (the last tensor of a batch is the labels, those before are the model's inputs), then
// "global_batch_size" (float32 scalar: the divisor of the loss, so that a batch of another size
// needs no new plan), and for training "learning_rate" (float32 scalar) and "step" (int64 scalar,
// from 0); with has_stop_vote also "stop_vote" (float32 scalar).
#ifndef TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_
#define TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor.h"
#include "strategies/builder.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/nn/metric.h"
#include "strategies/optimizer/optimizer.h"

namespace tandem {

// A tensor of a batch, with an unknown batch size: [?, 28, 28, 1].
struct BatchTensor {
  PartialShape shape;
  DataType dtype = kFloat32;
};

// InvalidArgument: fewer than two tensors, no examples, or first sizes that differ.
absl::Status CheckBatch(const std::vector<Tensor>& batch);

struct TrainStepOptions {
  std::vector<BatchTensor> batch;  // Two at least; the labels are the last.
  std::vector<MetricPtr> metrics;
  // Metrics that do not fit the labels and outputs are left out instead of being an error.
  bool leave_out_metrics = false;
  int64_t seed = 1;
  // Fetches, of each trainable variable's reduced gradient, whether all of its numbers are finite.
  bool check_gradients = false;
  // Fetches the L2 norm of all reduced gradients together, before any clipping.
  bool gradient_norm = false;
  // Of several processes: each feeds a 1 where it wants the training to end after this step, and
  // all fetch the sum.
  bool has_stop_vote = false;
};

struct TrainStep {
  // Fetches: the loss (mean over the global batch), then the sums of each metric; `train` and
  // `accumulate` then fetch, if asked for, the sum of the votes to stop (float32 scalar), the
  // gradients' norm (float32 scalar), and last bool [gradient_names]: which gradients are finite.
  RunSignature train;
  RunSignature accumulate;  // Empty when the optimizer does not accumulate.
  RunSignature evaluate;
  // Fetches the outputs of all replicas, joined along the batch. Feeds: the inputs' alone.
  RunSignature predict;
  // The metrics that were not left out, and how many sums each has.
  std::vector<MetricPtr> metrics;
  std::vector<int> metric_sums;
  // The variables whose gradients are checked.
  std::vector<std::string> gradient_names;
};

// Adds the steps to the builder's graph. InvalidArgument: the model, the loss, a metric or the
// optimizer does not fit the batch.
absl::StatusOr<TrainStep> BuildTrainStep(StrategyBuilder& builder, const nn::Layer& model,
                                         const LossFunction& loss,
                                         const optimizer::Optimizer& optimizer,
                                         const TrainStepOptions& options);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_TRAIN_STEP_H_
