// Trainer: fits a model to data under a strategy.
//
//   Trainer trainer(*strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
//   auto history = trainer.Fit(train, {.epochs = 5});
//   auto result = trainer.Evaluate(test);
//
// Data arrives in global batches: elements of two tensors or more with the batch first. The last
// one is the labels, those before are the model's inputs. The strategy gives each replica its part
// (strategies/runner.h). The loss is the mean over the global batch, however it is cut.
//
// The trainer keeps as many steps in flight as its strategy wants, and starts a step again that
// lost a member before it changed anything; steps may end in any order.
//
// Under a strategy of several processes (Strategy::workers) each of them runs the same program,
// with the same data in the same order, and makes the same calls. Members that are lost, come back
// or come anew are dealt with between steps of Fit: the others go on, who comes is given all that
// the training has, and no batch is lost or trained twice.
//
// Threads: one at a time, but for Stop, which may be called from any thread and from a signal
// handler. Lifetime: the strategy outlives the trainer.
#ifndef TANDEM_STRATEGIES_TRAINER_TRAINER_H_
#define TANDEM_STRATEGIES_TRAINER_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/tensor/tensor.h"
#include "runtime/checkpoint/manager.h"
#include "runtime/input/dataset.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/nn/metric.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/strategy.h"
#include "strategies/trainer/callback.h"
#include "strategies/trainer/input.h"
#include "strategies/trainer/progress.h"
#include "strategies/trainer/train_step.h"
#include "strategies/trainer/training_state.h"

namespace tandem {

struct FitOptions {
  int epochs = 1;
  // An epoch has at most so many steps, and the next one goes on in the data where it stopped; so
  // an epoch of data without an end (Dataset::Repeat) has one. It is shorter where the data ends,
  // which then begins again. -1: an epoch is once through the data.
  int64_t steps_per_epoch = -1;
  // Evaluated after each epoch; its results are in EpochResult::validation.
  absl::optional<data::Dataset> validation;
  // Called in this order, after `on_step` and `on_epoch`. See callback.h.
  std::vector<CallbackPtr> callbacks;
  // The folder of a log that TensorBoard shows: callback::Log (log_callback.h) with its defaults,
  // as the last of the callbacks. Empty: there is none.
  std::string log_dir;
  // After each step, and each epoch; returning false ends the training after it, with success.
  std::function<bool(const TrainingProgress&)> on_step;
  std::function<bool(int epoch, const EpochResult&)> on_epoch;
  // A loss that is not finite ends the training with FailedPrecondition, naming the step; with
  // TrainerOptions::check_gradients the first variable whose gradient is not finite, too.
  bool stop_on_non_finite_loss = true;
  // SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup has it) end the training after the
  // running step, as Stop does, instead of the process. The former handlers are back when Fit
  // returns. A second signal ends the process at once. Of several workers SIGINT ends the training
  // of all, after the same step; SIGTERM and SIGHUP let this one leave, and the others go on.
  bool handle_signals = true;
  // How long the steps in flight have to end after an error, or when the training was stopped,
  // before they are cancelled. Of strategies that have several in flight only.
  absl::Duration step_grace = absl::Seconds(10);

  // The folder of the training's checkpoints; it is made. Empty: there are none.
  //
  // A checkpoint has all that decides how the training goes on: variables and slots, the step, the
  // seed, sums of metrics in mid-epoch, where the input stands, what callbacks keep, results so
  // far. They are written when `checkpoints` says, after each epoch (checkpoint_epochs), at the
  // end, and when the training is stopped, by a signal too; never after an error.
  //
  // Of several workers the first writes them, and the log (Strategy::is_chief). The others read
  // them where they resume. The strategy may also let the folder decide who leads the job.
  //
  // One training at a time has the folder: Fit refuses one that another process, or another Fit,
  // trains into (FailedPrecondition, naming it). Only the machine's own files are so locked, and
  // only where their file system can; else that is logged.
  std::string checkpoint_dir;
  // Goes on from the newest good checkpoint in checkpoint_dir, in the middle of an epoch if need
  // be, and gives the results of all epochs, those before included; begins where there is none yet.
  // Under OneDevice and in deterministic mode every bit is that of a training that was never
  // interrupted. The strategy may be another one. Fit refuses a model, an optimizer or a seed that
  // differs, and in mid-epoch another data set (InvalidArgument, listing the differences).
  //
  // Without it a folder that has checkpoints already is refused (FailedPrecondition).
  bool resume = false;
  // A training that is resumed with other learning rates, or with another option of its optimizer,
  // than the checkpoint was trained with is refused (InvalidArgument, naming them with both
  // values). True: it goes on with the new ones, and a line in the log names them. What a schedule
  // says of steps to come may change at any time.
  bool accept_optimizer_changes = false;
  CheckpointManagerOptions checkpoints = {.save_every = absl::Minutes(10)};
  bool checkpoint_epochs = true;
  // What checkpoints.retention.keep_best compares; see EpochResult::Value. Checkpoints that are
  // written after an epoch have it. InvalidArgument before the first step when no epoch will have
  // it.
  std::string checkpoint_metric = "validation_loss";
  // A checkpoint that cannot be written (the disk is full) ends the training with that error. Else
  // it is logged, and the training goes on; the checkpoints before stay.
  bool stop_on_checkpoint_error = true;
};

struct TrainerOptions {
  int64_t seed = 1;
  int64_t first_step = 0;
  // Reported for each epoch and by Evaluate. Not set: accuracy, when the labels are whole numbers
  // and the outputs fit.
  absl::optional<std::vector<MetricPtr>> metrics;
  // Looks at every gradient in every step, which costs a pass over them.
  bool check_gradients = false;
  // TrainingProgress has the gradients' norm after each step, which costs a pass over them, too.
  bool gradient_norm = false;
  // How often in a row a step (a batch of an evaluation, a prediction) that lost a member is tried.
  int max_step_attempts = 10;
};

// Why a training was stopped.
enum class StopReason { kNone, kInterrupted, kPreempted };

class Trainer {
 public:
  Trainer(const Strategy& strategy, nn::LayerPtr model, LossFunction loss,
          optimizer::OptimizerPtr optimizer, TrainerOptions options = {});
  ~Trainer();

  // Trains for whole epochs. The first batch decides the types and shapes of the model's inputs.
  //
  // In the evaluator of a job (TF_CONFIG's task "evaluator") it trains nothing: it waits for the
  // checkpoints that the others write into FitOptions::checkpoint_dir, evaluates each with
  // FitOptions::validation, or the newest of them where it cannot keep up, logs the results
  // (LOG_DIR/evaluator), and ends after the one that was written when the training was over. It
  // then gives the result of each evaluation. While nobody writes any it waits, until it is told to
  // stop.
  //
  // InvalidArgument: an epoch without a batch, or batches that do not fit. Cancelled: Stop was
  // called, or a signal came (the running steps were finished, and the variables are whole, unless
  // a step took longer than FitOptions::step_grace); ExitCodeOf(status) is what the process should
  // end with. FailedPrecondition, DataLoss: see FitOptions::resume; all checkpoints are damaged.
  // Aborted: a step lost members max_step_attempts times in a row. Errors of the data, of
  // callbacks and of kernels pass through.
  absl::StatusOr<std::vector<EpochResult>> Fit(const OpenEpoch& data, const FitOptions& options);
  absl::StatusOr<std::vector<EpochResult>> Fit(const data::Dataset& data,
                                               const FitOptions& options);
  // One batch at a time. FailedPrecondition: Fit has not run yet. InvalidArgument: no data, or
  // batches that do not fit. Aborted: as Fit.
  absl::StatusOr<EpochResult> Evaluate(const OpenEpoch& data);
  absl::StatusOr<EpochResult> Evaluate(const data::Dataset& data) { return Evaluate(Epochs(data)); }
  // The model's outputs for one batch, in order. `inputs`: as in training, without labels.
  absl::StatusOr<Tensor> Predict(std::vector<Tensor> inputs);
  absl::StatusOr<Tensor> Predict(const Tensor& inputs) {
    return Predict(std::vector<Tensor>{inputs});
  }

  // The value of a variable, by its name. NotFound suggests near names.
  absl::StatusOr<Tensor> Variable(const std::string& name);
  std::vector<std::string> VariableNames() const;
  // Those that are trained, in the same order.
  std::vector<std::string> TrainableVariableNames() const;
  // The graph of the steps, of training, evaluation and prediction together. Null: Fit has not
  // begun yet. Lives as long as the trainer.
  const Graph* graph() const;
  // All variables, slots too. FailedPrecondition: there are none yet.
  absl::StatusOr<StrategyState> CaptureState();
  absl::Status RestoreState(const StrategyState& state);

  // Whether this process writes the checkpoints and the log of the training (Strategy::is_chief).
  bool is_chief() const { return strategy_.is_chief(); }
  // first_step, and the steps that were started since the trainer was made.
  int64_t step() const { return step_; }
  // Members that came and went since the last call.
  std::vector<MemberEvent> TakeMemberEvents();

  // Lets Fit end after the running steps; a Fit that has not begun ends before its first step. The
  // request is fulfilled once: the next Fit trains again. Async-signal-safe.
  void Stop(StopReason reason = StopReason::kInterrupted) {
    stop_.store(reason, std::memory_order_relaxed);
  }

 private:
  class FitRun;

  // `steps`: how many an epoch will have, for the display of progress; -1: not known.
  absl::StatusOr<std::vector<EpochResult>> FitKnowing(int64_t steps, const OpenEpoch& data,
                                                      const FitOptions& options);
  // Builds the graph and the runner, for batches like `batch`.
  absl::Status Prepare(const std::vector<Tensor>& batch,
                       const std::function<bool()>& wants_stop = {});
  // The same for batches like the last ones.
  absl::Status Build(const std::function<bool()>& wants_stop = {});
  // Builds them anew, with the variables as they are: this process has other replicas than before.
  absl::Status Rebuild();
  bool HasOtherReplicas() const;
  // Lets a step that was aborted outside of Fit go on with the workers that are left.
  absl::Status MeetOutsideFit();
  absl::Status CheckPrepared() const;
  // InvalidArgument: the sums of a checkpoint are those of other metrics than these.
  absl::Status CheckSums(const TrainingState::RunningEpoch& running) const;
  // Takes down what the runner tells of its members.
  void NoteMembers();
  // OK when a step that ended with `status` shall be started again; else the error of `what`, which
  // was tried `attempts` times.
  absl::Status MayRepeat(const absl::Status& status, int attempts, const std::string& what);
  // Runs a step, again when it lost members. Under a strategy of several processes it is not run
  // again here: all members have to meet first, and begin what it belongs to again.
  StrategyRunner::Result RunStep(int program, const StepInput& input, const std::string& what);
  // Ends with the first error of `check_stop`, which is asked before each batch.
  absl::StatusOr<EpochResult> EvaluateUnlessStopped(const OpenEpoch& data,
                                                    absl::FunctionRef<absl::Status()> check_stop);

  const Strategy& strategy_;
  const nn::LayerPtr model_;
  const LossFunction loss_;
  const optimizer::OptimizerPtr optimizer_;
  const TrainerOptions options_;
  int64_t step_;
  std::atomic<StopReason> stop_{StopReason::kNone};
  std::vector<MemberEvent> member_events_;

  std::vector<MetricPtr> metrics_;
  std::vector<BatchTensor> batch_;  // What the steps are built for.
  TrainStep train_step_;
  std::unique_ptr<StrategyBuilder> builder_;
  std::unique_ptr<StrategyRunner> runner_;
  // Numbers of the runner's programs.
  int train_ = 0;
  int accumulate_ = 0;
  int evaluate_ = 0;
  int predict_ = 0;
};

// What a process should end with after `status`: 0 for success, 130 when it was interrupted, 143
// when it was told to go away and should be started again elsewhere (SIGTERM), 129 after SIGHUP, 2
// for an argument that is wrong, else 1.
int ExitCodeOf(const absl::Status& status);

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_TRAINER_H_
