// callback::Log: what TensorBoard shows of a training.
//
//   trainer.Fit(train, {.epochs = 5, .validation = test, .log_dir = "logs/run1"});
//
//   auto log = callback::Log("logs/run1", {.every_steps = 10,
//                                          .histogram_epochs = 1,
//                                          .hyperparameters = {{"rate", 0.1}},
//                                          .trace_steps = {100, 102}});
//   trainer.Fit(train, {.epochs = 5, .validation = test, .callbacks = {log}});
//
// The layout and the tags are those of Keras. LOG_DIR/train and LOG_DIR/validation are runs, whose
// curves TensorBoard draws into one chart:
//
//   train       batch_loss             The mean over the examples since the last value.
//               batch_<metric>         Over the epoch so far.
//               batch_learning_rate    Of the step.
//               batch_examples_per_second
//               batch_gradient_norm    Of the step, with TrainerOptions::gradient_norm.
//               epoch_loss, epoch_<metric>, epoch_learning_rate, epoch_examples_per_second
//               <variable>/histogram   Of the trained variables, after epochs.
//               the graph              Of all steps: training, evaluation, prediction.
//               epoch_damaged_records  Where some were passed over.
//   validation  epoch_loss, epoch_<metric>
//               evaluation_loss_vs_iterations, evaluation_<metric>_vs_iterations
//
// batch_… and …_vs_iterations count steps (TrainingProgress::number), the others epochs, from 0.
// Hyperparameters, and how the training ended, are in LOG_DIR itself; traced steps in
// LOG_DIR/steps_<first>-<last>.trace.json and beside the graph.
//
// A training that is resumed goes on on the same axes, in new files. What an interrupted one logged
// beyond its checkpoint is then there twice.
//
// Of several workers the first logs (Strategy::is_chief); the others' callbacks do nothing.
//
// Errors: a folder that cannot be written to is an error when the training begins. Later, nothing
// that goes wrong with the log ends the training: it is said once, and status() has it.
#ifndef TANDEM_STRATEGIES_TRAINER_LOG_CALLBACK_H_
#define TANDEM_STRATEGIES_TRAINER_LOG_CALLBACK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/io/hyperparameters.h"
#include "runtime/summary/log_writer.h"
#include "strategies/trainer/callback.h"

namespace tandem {

struct LogOptions {
  // Steps from one value of the series batch_… to the next; 0: only epochs are logged.
  int64_t every_steps = 100;
  // Epochs from one histogram of each trained variable to the next; 0: none. Each reads all
  // variables and looks at every element.
  int histogram_epochs = 0;
  bool graph = true;
  // For the page that compares runs. Empty: this one is not on it. Runs of one group are
  // repetitions.
  Hyperparameters hyperparameters;
  std::string group;
  // The first and the last step, from 1, whose nodes are timed: a timeline for chrome://tracing and
  // Perfetto, and statistics on the graphs page. {0, 0}: none. At most kMaxTracedSteps.
  std::pair<int64_t, int64_t> trace_steps = {0, 0};
  LogWriterOptions writer;
};
inline constexpr int64_t kMaxTracedSteps = 1000;

class LogCallback : public Callback {
 public:
  // The first error of the last training's log: something was not written.
  virtual absl::Status status() const = 0;
};

namespace callback {

// InvalidArgument, when the training begins: options that make no sense.
std::shared_ptr<LogCallback> Log(std::string log_dir, LogOptions options = {});

}  // namespace callback
}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_LOG_CALLBACK_H_
