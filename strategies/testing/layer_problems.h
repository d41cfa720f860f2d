// Whole models for tests of strategies, with data that they learn in some tens of steps: an LSTM, a
// block of a transformer, and one model that contains every layer of strategies/nn.
#ifndef TANDEM_STRATEGIES_TESTING_LAYER_PROBLEMS_H_
#define TANDEM_STRATEGIES_TESTING_LAYER_PROBLEMS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "strategies/trainer/trainer.h"

namespace tandem::testing {

struct LayerProblem {
  nn::LayerPtr model;
  // Batch `number` of `size` examples: the model's inputs, and classes in [0, 4).
  std::function<std::vector<Tensor>(int64_t number, int64_t size)> batch;
};

// Sequences of five steps, whose class shows in the first two. Two LSTMs, one on the other.
LayerProblem LstmProblem();

// Words, one of which gives the class: embedding, causal attention, layer norm, residual.
LayerProblem TransformerProblem();

struct EveryLayerOptions {
  // The result depends on how the global batch is cut: dropout, and batch norm of each replica.
  // Without it the dropout keeps everything and all batch norm is synchronized.
  bool depends_on_cut = true;
};
// Images with words and a mask of what words may see; half of what tells the class is in the
// images, half in the words. Every layer of layer.h is part of the model.
LayerProblem EveryLayerProblem(EveryLayerOptions options = {});

// An epoch of batches first, first + 1, … of these sizes.
OpenEpoch LayerBatches(const LayerProblem& problem, std::vector<int64_t> sizes, int64_t first = 0);

struct LayerTrainingOptions {
  int epochs = 1;
  // The sizes of an epoch's batches.
  std::vector<int64_t> sizes;
};

struct LayerTraining {
  std::vector<EpochResult> epochs;
  // Of batches that were not trained with.
  EpochResult evaluation;
  Tensor predictions;
  // All variables, slots and moving statistics too.
  StrategyState state;
  std::vector<MemberEvent> member_events;
};
absl::StatusOr<LayerTraining> TrainLayers(const Strategy& strategy, const LayerProblem& problem,
                                          const optimizer::OptimizerPtr& optimizer,
                                          const LayerTrainingOptions& options);

}  // namespace tandem::testing

#endif  // TANDEM_STRATEGIES_TESTING_LAYER_PROBLEMS_H_
