// A small training with everything that a checkpoint has to bring back, and what tests of resumed
// trainings do with it.
#ifndef TANDEM_STRATEGIES_TRAINER_RESUME_TEST_UTIL_H_
#define TANDEM_STRATEGIES_TRAINER_RESUME_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/testing/faulty_file_system.h"
#include "strategies/strategy.h"
#include "strategies/trainer/trainer.h"

namespace tandem::testing {

constexpr int64_t kStepsPerEpoch = 5;  // Of the training below.

// What a test may change of it.
struct TrainingSetup {
  int epochs = 3;
  int64_t units = 8;
  optimizer::OptimizerPtr optimizer;  // Null: Adam, whose gradients are accumulated over 3 steps.
  int64_t seed = 1;
  absl::optional<std::vector<MetricPtr>> metrics;
  OpenEpoch data;  // Empty: Data().
};

// A shuffled data set that reads ahead.
data::Dataset Data();
// Examples that are validated with, in batches of 10.
data::Dataset Validation();

// What a training ended with.
struct Outcome {
  absl::Status status;
  std::vector<EpochResult> history;
  StrategyState state;
  int64_t steps = 0;  // That this call of Fit did.
  std::vector<std::string> variables;
};

// Dense, batch norm, dropout, noise of a stateful random op, and a variable of which each replica
// has its own copy. `fit` is completed with validation and early stopping.
Outcome Train(const Strategy& strategy, const TrainingSetup& setup, FitOptions fit);

// Options that write a checkpoint every `steps` steps into "/run" of `files`, before the step goes
// on.
FitOptions SavingTo(FileSystem* files, int64_t steps);
// The same, resuming.
FitOptions Resuming(FileSystem* files, int64_t steps);
// Lets a training die after step `step` of this call of Fit, by an error of on_step's callback.
void DieAfter(int64_t step, FitOptions& fit);

// Fails unless variables and results are equal, bit for bit.
void ExpectSameBits(const Outcome& got, const Outcome& expected);

}  // namespace tandem::testing

#endif  // TANDEM_STRATEGIES_TRAINER_RESUME_TEST_UTIL_H_
