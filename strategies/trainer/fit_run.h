// FitRun: one call of Fit. It trains epochs of steps (fit.cc), of which several may be in flight
// (fit_steps.cc), and writes checkpoints, from which another call goes on (fit_resume.cc). Of
// several workers one gives its state to another in the same way (fit_workers.cc). In the evaluator
// of a job it evaluates the checkpoints of the others instead (fit_evaluator.cc).
//
// Threads: that of Fit; steps end on any.
#ifndef TANDEM_STRATEGIES_TRAINER_FIT_RUN_H_
#define TANDEM_STRATEGIES_TRAINER_FIT_RUN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "strategies/trainer/fit_checkpoints.h"
#include "strategies/trainer/fit_input.h"
#include "strategies/trainer/signals.h"
#include "strategies/trainer/trainer.h"
#include "strategies/workers.h"

namespace tandem {

class Trainer::FitRun {
 public:
  // `known_steps`: how many an epoch will have; -1: not known.
  FitRun(Trainer& trainer, const OpenEpoch& data, const FitOptions& options, int64_t known_steps)
      : trainer_(trainer),
        options_(options),
        workers_(trainer.strategy_.workers()),
        signals_(options.handle_signals),
        input_(data, options.steps_per_epoch),
        first_step_(trainer.step_),
        steps_of_last_epoch_(known_steps) {}

  absl::StatusOr<std::vector<EpochResult>> Run();

 private:
  // A step that was started.
  struct Flight {
    StepInput input;
    int64_t examples = 0;
    int program = 0;
    int attempts = 1;
    double learning_rate = 0;
    std::shared_ptr<std::vector<StepTracer::Event>> trace;  // Null: not traced.
  };
  struct Landing {
    Flight flight;
    StrategyRunner::Result result;
  };

  // --- The training (fit.cc)

  absl::Status Train();
  // Trains, saves, and lets go of the other workers.
  absl::Status TrainAndSave();
  void BeginEpoch();
  absl::Status TrainEpoch();
  absl::Status EndEpoch();
  // The next batch of the epoch, or nothing at its end.
  NextBatch::Result TakeBatch(int64_t started);
  // Logs what was passed over, once unless there is more.
  void SayDamage(int64_t damaged);
  // An error (Stopped) when a signal came, or Trainer::Stop was called. Of several workers none
  // stops by itself: the request is passed on to the others (CastVote, or a preemption).
  absl::Status CheckStop();
  bool IsStopWanted() const;
  absl::Status StopNow() const;
  // Whether a training that ended with this status was stopped.
  static bool IsStop(const absl::Status& status);
  // `status` with `more` behind its message.
  static absl::Status WithMore(const absl::Status& status, absl::string_view more);
  std::string Where() const;

  // --- Steps (fit_steps.cc)

  absl::StatusOr<Flight> NewFlight(std::vector<Tensor> batch);
  static std::string NameOf(const Flight& flight);
  void TakeOff(Flight flight);
  // Nothing: no step ended before `deadline`.
  absl::optional<Landing> WaitForLanding(absl::Time deadline);
  // Waits for all steps in flight. Once there is an error, `status` or one of theirs, or the
  // training was stopped, they get FitOptions::step_grace to end, since one that is cancelled may
  // leave some variables written and others not; then they are cancelled. Gives the first error.
  absl::Status LandAll(absl::Status status);
  absl::Status Land(Landing landing);
  // Counts a step that is done and tells the callbacks.
  absl::Status Report(const Flight& flight, const std::vector<Tensor>& fetched);

  // --- What the strategy keeps beside its variables (fit_note.cc)

  // Builds the model. The error of CheckStop when somebody wants to stop meanwhile.
  absl::Status PrepareFor(const std::vector<Tensor>& batch);
  // Where the training stands, its steps in flight included, for a process that is started again.
  absl::Status KeepNote();
  // What callbacks keep, for the notes of the next epoch.
  absl::Status NoteCallbacks();
  // After the model was built: goes where an earlier life of this process has been (moved_).
  absl::Status TakeNote();

  // --- Several workers (fit_workers.cc)

  class Party;

  // Meets the others. Then this process may stand elsewhere (moved_), or be the chief.
  absl::Status Meet();
  // What follows from having met.
  absl::Status EnterGroup();
  // Runs a step with all others and counts it. A member that is lost in it costs a meeting, after
  // which the step is run again, unless this process stands elsewhere then: gives false.
  absl::StatusOr<bool> RunTogether(Flight& flight);
  // The model's first values shall be the same everywhere, on machines of any kind.
  absl::Status ShareBeginning();
  // Tells the others of a request to stop.
  float CastVote();
  // After a step that all have done: saves, or stops, if all shall.
  absl::Status EndStepTogether();
  absl::StatusOr<EpochResult> ValidateTogether();
  // All that another process needs to go on from here; and goes on from there.
  absl::StatusOr<StrategyState> Give();
  absl::Status Take(StrategyState state);
  absl::Status TakeCheckpoint();

  // --- The evaluator (fit_evaluator.cc)

  struct Evaluated {
    std::string prefix;
    int64_t step = 0;
    bool is_last = false;  // The training was over when it was written.
    EpochResult result;
  };
  absl::StatusOr<std::vector<EpochResult>> EvaluateCheckpoints();
  // Evaluates the newest checkpoint, unless it is `newest`, which it becomes. Nothing: there is no
  // other one.
  absl::StatusOr<absl::optional<Evaluated>> EvaluateNewest(std::string& newest);

  // --- Checkpoints (fit_resume.cc)

  // Goes where the training was, but for the variables, which the first batch brings, and what
  // callbacks keep.
  absl::Status Resume();
  // `where` it was, for messages.
  absl::Status GoTo(TrainingState state, const std::string& where);
  bool IsPending() const;
  // Once the model is built. Does nothing when there is nothing to restore.
  absl::Status RestoreVariables();
  // InvalidArgument: the optimizer is not the one that the training began with.
  absl::Status CheckOptimizer() const;
  // The same where no batch is left to be trained with: the variables shall be there all the same.
  absl::Status RestoreWithoutBatch();
  // Where the training stands, but for the variables. Steps in flight count as done.
  absl::StatusOr<TrainingState> CaptureProgress() const;
  // All that a checkpoint has. REQUIRES: no step is in flight.
  absl::StatusOr<NamedTensors> Capture();
  // Once. InvalidArgument: no epoch will have FitOptions::checkpoint_metric. REQUIRES: the model is
  // built.
  absl::Status CheckCheckpointMetric();
  // After a step was started.
  absl::Status SaveIfDue();
  absl::Status SaveAfterEpoch(const EpochResult& result);
  // Saves once more after success and when the training was stopped, and waits for what is being
  // written. Gives what the training ends with.
  absl::Status EndCheckpoints(const absl::Status& status);

  Trainer& trainer_;
  const FitOptions& options_;
  WorkerGroup* const workers_;  // Null: there is one process.
  const StopOnSignals signals_;
  std::unique_ptr<FitCheckpoints> checkpoints_;  // Null: there are none.
  FitInput input_;
  std::vector<EpochResult> history_;
  bool ends_ = false;  // A callback wants no more.
  bool is_metric_checked_ = false;
  int epoch_ = 0;
  int64_t damage_said_ = 0;
  // All steps that were started are in the variables: none was cancelled, none failed.
  bool are_variables_whole_ = true;

  // The epoch that the training to resume was in, and what the variables do not say, until the
  // variables are restored.
  absl::optional<TrainingState::RunningEpoch> running_;
  StrategyState details_;
  std::string where_;                                            // It was, for messages.
  std::string resumed_;                                          // What the log says then.
  absl::optional<TrainingState::TrainedWith> optimizer_before_;  // To be compared then.
  // Until the callbacks have begun.
  bool have_callbacks_begun_ = false;
  std::map<std::string, StrategyState> kept_callbacks_;

  // Notes of an earlier call of Fit are not of this one.
  const int64_t first_step_;
  bool has_looked_for_note_ = false;
  bool is_noted_ = false;  // The variables are there; the rest is to be taken from running_.
  std::map<std::string, StrategyState> noted_callbacks_;

  // Of another worker: its variables, and the batch that it was about to train.
  absl::optional<StrategyState> taken_;
  absl::optional<std::vector<Tensor>> given_batch_;
  // The step that is to be run again after the meeting.
  const Flight* repeated_ = nullptr;
  bool moved_ = false;  // This process stands elsewhere since the last meeting.
  bool has_been_in_group_ = false;
  bool shares_beginning_ = false;  // Before the next step.
  bool has_asked_to_leave_ = false;
  bool stop_is_voted_ = false;  // In the last step.

  // Of the epoch.
  TrainingProgress progress_;
  absl::optional<EpochTotals> totals_;
  absl::Time begin_;
  int64_t steps_of_last_epoch_;

  int in_flight_ = 0;
  Mutex mu_;
  CondVar landing_;
  std::deque<Landing> landed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_TRAINER_FIT_RUN_H_
