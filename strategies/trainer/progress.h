// What a training reports: TrainingProgress after each step, EpochResult after each epoch.
#ifndef TANDEM_STRATEGIES_TRAINER_PROGRESS_H_
#define TANDEM_STRATEGIES_TRAINER_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "runtime/executor/trace.h"
#include "strategies/nn/metric.h"

namespace tandem {

// Metrics by name, in the order in which they were given.
using MetricValues = std::vector<std::pair<std::string, double>>;

// Where a training stands.
struct TrainingProgress {
  int epoch = 0;         // From 0.
  int epochs = 0;        // How many there will be.
  int64_t step = 0;      // Steps done in this epoch.
  int64_t steps = -1;    // How many it will have; -1: not known yet.
  int64_t examples = 0;  // Examples seen in this epoch.
  double loss = 0;       // Mean over this epoch's examples so far.
  MetricValues metrics;
  double learning_rate = 0;
  absl::Duration elapsed;  // Since the epoch began.
  // Damaged records that the data set passed over (RecordsOptions::skip_damaged) since it was
  // opened; ahead of need, too.
  int64_t damaged = 0;

  // Of the step that just ended. Steps may end out of order.
  int64_t number = 0;  // From 1, over all epochs; goes on when a training is resumed.
  double step_loss = 0;
  int64_t step_examples = 0;
  absl::optional<double> gradient_norm;  // With TrainerOptions::gradient_norm.
  // If a callback wanted it (Callback::WantsTrace); may be empty where the strategy's steps run
  // elsewhere. Gone after the callbacks.
  const std::vector<StepTracer::Event>* trace = nullptr;
};

struct EpochResult {
  double loss = 0;
  MetricValues metrics;
  int64_t examples = 0;
  absl::Duration duration;
  int64_t damaged = 0;  // See TrainingProgress.
  // Of FitOptions::validation, if there is one. Null: not.
  std::shared_ptr<const EpochResult> validation;

  // "loss", a metric's name, or one of these after "validation_". Nothing: there is no such value.
  absl::optional<double> Value(const std::string& name) const;
};

// Adds up what steps fetch.
class EpochTotals {
 public:
  // What was added up so far. Adding more changes the tensors in place.
  struct Sums {
    double loss = 0;  // Over examples.
    int64_t examples = 0;
    std::vector<Tensor> metrics;  // float64, of all metrics one after the other; none yet: empty.
  };

  EpochTotals(std::vector<MetricPtr> metrics, std::vector<int> metric_sums);

  // `fetched`: the mean loss of `examples`, then the sums of each metric.
  void Add(const std::vector<Tensor>& fetched, int64_t examples);

  double loss() const;
  int64_t examples() const { return sums_.examples; }
  MetricValues metrics() const;
  EpochResult Result(absl::Duration duration) const;

  const Sums& sums() const { return sums_; }
  // REQUIRES: those of the same metrics, and nobody else holds the tensors.
  void set_sums(Sums sums) { sums_ = std::move(sums); }

 private:
  const std::vector<MetricPtr> metrics_;
  const std::vector<int> metric_sums_;
  Sums sums_;
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_PROGRESS_H_
