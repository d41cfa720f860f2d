// Trainer: fits a model to data under a strategy.
//
//   Trainer trainer(*strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
//   auto history = trainer.Fit(train, {.epochs = 5});
//   auto result = trainer.Evaluate(test);
//
// Data arrives in global batches, elements of two tensors (inputs and labels) with the batch first.
// Each is cut into contiguous ranges, one a replica: element i of a batch of B belongs to replica
// floor(i·R/B), so that uneven batches leave some replicas with one element more. The loss is the
// mean over the global batch, however it is cut.
//
// Threads: one at a time, but for Stop, which may be called from any thread and from a signal
// handler.
#ifndef TANDEM_STRATEGIES_TRAINER_TRAINER_H_
#define TANDEM_STRATEGIES_TRAINER_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "runtime/input/dataset.h"
#include "runtime/session/session.h"
#include "strategies/nn/layer.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/strategy.h"
#include "strategies/trainer/train_step.h"

namespace tandem {

// The next global batch, or nothing at the end of an epoch.
using NextBatch = std::function<absl::StatusOr<absl::optional<std::vector<Tensor>>>()>;
// Begins an epoch (counted from 0).
using OpenEpoch = std::function<absl::StatusOr<NextBatch>(int epoch)>;

// Epochs over a data set: epoch i is its iteration i.
OpenEpoch Epochs(data::Dataset dataset);

// Where a training stands; given to FitOptions::on_step after each step.
struct TrainingProgress {
  int epoch = 0;
  int64_t step = 0;      // Steps done in this epoch.
  int64_t examples = 0;  // Examples seen in this epoch.
  double loss = 0;       // Mean over this epoch's examples so far.
  double accuracy = 0;
  absl::Duration elapsed;  // Since the epoch began.
};

struct EpochResult {
  double loss = 0;
  double accuracy = 0;  // 0 when the labels are no class numbers.
  int64_t examples = 0;
  absl::Duration duration;
};

struct FitOptions {
  int epochs = 1;
  // After each step; returning false stops the training after that step.
  std::function<bool(const TrainingProgress&)> on_step;
  std::function<bool(int epoch, const EpochResult&)> on_epoch;
  // A loss that is not finite ends the training with FailedPrecondition, naming the step.
  bool stop_on_non_finite_loss = true;
};

struct TrainerOptions {
  int64_t seed = 1;
  int64_t first_step = 0;
};

class Trainer {
 public:
  Trainer(const Strategy& strategy, nn::LayerPtr model, LossFunction loss,
          optimizer::OptimizerPtr optimizer, TrainerOptions options = {});
  ~Trainer();

  // Trains for whole epochs. The first batch decides the types and shapes of the model's inputs.
  // InvalidArgument: an epoch without a batch, or batches that do not fit. Cancelled: Stop was
  // called (the running step was finished; the variables are whole).
  absl::StatusOr<std::vector<EpochResult>> Fit(const OpenEpoch& data, const FitOptions& options);
  absl::StatusOr<std::vector<EpochResult>> Fit(const data::Dataset& data,
                                               const FitOptions& options) {
    return Fit(Epochs(data), options);
  }
  // REQUIRES: Fit ran before.
  absl::StatusOr<EpochResult> Evaluate(const OpenEpoch& data);
  absl::StatusOr<EpochResult> Evaluate(const data::Dataset& data) { return Evaluate(Epochs(data)); }
  // The model's outputs for one batch of inputs, in order.
  absl::StatusOr<Tensor> Predict(const Tensor& inputs);

  // The value of a variable (copy 0), by its name. NotFound suggests near names.
  absl::StatusOr<Tensor> Variable(const std::string& name);
  std::vector<std::string> VariableNames() const;

  // Lets Fit end after the running step. Async-signal-safe.
  void Stop() { stop_.store(true, std::memory_order_relaxed); }

 private:
  // Builds the graph and opens the session, for batches like `batch`.
  absl::Status Prepare(const std::vector<Tensor>& batch);
  absl::StatusOr<std::vector<Tensor>> FeedsFor(const std::vector<Tensor>& batch) const;

  const Strategy& strategy_;
  const nn::LayerPtr model_;
  const LossFunction loss_;
  const optimizer::OptimizerPtr optimizer_;
  const TrainerOptions options_;
  int64_t step_;
  std::atomic<bool> stop_{false};

  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Session::Callable> train_;
  std::unique_ptr<Session::Callable> evaluate_;
  std::unique_ptr<Session::Callable> predict_;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_TRAINER_H_
