#include "strategies/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <deque>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/trainer/signals.h"

namespace tandem {
namespace {

// Payload of the status of a training that was stopped: the exit code, in decimal.
constexpr char kExitCode[] = "tandem.dev/exit_code";

BatchTensor AnyBatch(const Tensor& tensor) {
  std::vector<int64_t> dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
  if (!dims.empty()) dims[0] = -1;
  return {PartialShape(dims), tensor.dtype()};
}

// Which tensor of the batch holds a number that is not finite, for the message of a bad loss.
std::string BadInput(const std::vector<Tensor>& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dtype() != kFloat32) continue;
    for (const float value : batch[i].Elements<float>()) {
      if (std::isfinite(value)) continue;
      return absl::StrCat("; tensor ", i, " of the batch holds numbers that are not finite");
    }
  }
  return "; a lower learning rate is the likeliest cure";
}

absl::Status CheckBatch(const std::vector<Tensor>& batch) {
  if (batch.size() < 2) {
    return errors::InvalidArgument(
        "a batch to train or evaluate with has inputs and labels; there ",
        batch.size() == 1 ? "is one tensor" : "is no tensor");
  }
  for (const Tensor& tensor : batch) {
    if (tensor.shape().rank() < 1 || batch[0].shape().rank() < 1 ||
        tensor.shape().dim(0) != batch[0].shape().dim(0)) {
      return errors::InvalidArgument(
          "a batch has tensors of the shapes ", batch[0].shape().DebugString(), " and ",
          tensor.shape().DebugString(), "; the first size of all must be the same: the batch");
    }
  }
  if (batch[0].shape().dim(0) == 0) return errors::InvalidArgument("a batch has no examples");
  return absl::OkStatus();
}

absl::Status Stopped(StopReason reason, int64_t step) {
  const bool preempted = reason == StopReason::kPreempted;
  absl::Status status =
      errors::Cancelled("training was stopped after step ", step,
                        preempted ? ", since the process was told to end (SIGTERM)" : "");
  status.SetPayload(kExitCode, absl::Cord(preempted ? "143" : "130"));
  return status;
}

}  // namespace

OpenEpoch Epochs(data::Dataset dataset) {
  return [dataset = std::move(dataset)](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> opened,
                            dataset.Open(static_cast<uint64_t>(epoch)));
    std::shared_ptr<data::Iterator> iterator = std::move(opened);
    return NextBatch([iterator] { return iterator->Next(); });
  };
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (const absl::optional<absl::Cord> code = status.GetPayload(kExitCode)) {
    int value = 0;
    if (absl::SimpleAtoi(std::string(*code), &value)) return value;
  }
  return absl::IsCancelled(status) ? 130 : absl::IsInvalidArgument(status) ? 2 : 1;
}

// One call of Fit.
class Trainer::FitRun {
 public:
  FitRun(Trainer& trainer, const OpenEpoch& data, const FitOptions& options)
      : trainer_(trainer),
        data_(data),
        options_(options),
        signals_(options.handle_signals),
        steps_of_last_epoch_(options.steps_per_epoch) {}

  absl::StatusOr<std::vector<EpochResult>> Run() {
    for (const CallbackPtr& callback : options_.callbacks) {
      TANDEM_RETURN_IF_ERROR(callback->OnBegin(trainer_));
    }
    absl::Status status = Train();
    // A request is fulfilled once.
    trainer_.stop_.store(StopReason::kNone, std::memory_order_relaxed);
    for (const CallbackPtr& callback : options_.callbacks) {
      const absl::Status end = callback->OnEnd(trainer_);
      if (status.ok()) status = end;
    }
    if (!status.ok()) return status;
    return std::move(history_);
  }

 private:
  // A step that was started.
  struct Flight {
    StepInput input;
    int64_t examples = 0;
    int program = 0;
    int attempts = 1;
    double learning_rate = 0;
  };
  struct Landing {
    Flight flight;
    StrategyRunner::Result result;
  };

  absl::Status Train() {
    for (int epoch = 0; epoch < options_.epochs && !ends_; ++epoch) {
      TANDEM_RETURN_IF_ERROR(CheckStop());
      TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data_(epoch));
      if (!next) return errors::InvalidArgument("epoch ", epoch + 1, " has an empty NextBatch");
      progress_ = TrainingProgress();
      progress_.epoch = epoch;
      progress_.epochs = options_.epochs;
      progress_.steps = steps_of_last_epoch_;
      begin_ = absl::Now();
      totals_.reset();
      const absl::Status status = TrainEpoch(next);
      // Nothing may be in flight when the callers look at the variables.
      const absl::Status rest = LandAll();
      TANDEM_RETURN_IF_ERROR(status);
      TANDEM_RETURN_IF_ERROR(rest);
      if (progress_.step == 0) {
        return errors::InvalidArgument("epoch ", epoch + 1,
                                       " has no batch: the data set is empty, or its batches are "
                                       "larger than the data and incomplete ones are dropped");
      }
      TANDEM_RETURN_IF_ERROR(CheckStop());
      if (!ends_) steps_of_last_epoch_ = progress_.step;
      TANDEM_RETURN_IF_ERROR(EndEpoch(epoch));
    }
    return absl::OkStatus();
  }

  absl::Status TrainEpoch(const NextBatch& next) {
    bool has_more = true;
    while (has_more && !ends_) {
      TANDEM_RETURN_IF_ERROR(CheckStop());
      TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, next());
      has_more = batch.has_value();
      if (!has_more) break;
      TANDEM_RETURN_IF_ERROR(CheckBatch(*batch));
      TANDEM_RETURN_IF_ERROR(trainer_.Prepare(*batch));
      if (!totals_.has_value()) {
        totals_.emplace(trainer_.metrics_, trainer_.train_step_.metric_sums);
      }
      TANDEM_ASSIGN_OR_RETURN(Flight flight, NewFlight(*std::move(batch)));
      if (trainer_.runner_->max_steps_in_flight() == 1) {
        // On this thread, without a hand-over.
        StrategyRunner::Result result = trainer_.runner_->Run(flight.program, flight.input);
        TANDEM_RETURN_IF_ERROR(Land({std::move(flight), std::move(result)}));
        continue;
      }
      TakeOff(std::move(flight));
      while (in_flight_ >= trainer_.runner_->max_steps_in_flight()) {
        TANDEM_RETURN_IF_ERROR(Land(WaitForLanding()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Flight> NewFlight(std::vector<Tensor> batch) {
    Flight flight;
    flight.examples = batch[0].shape().dim(0);
    flight.input.step = trainer_.step_;
    flight.learning_rate = trainer_.optimizer_->LearningRate(flight.input.step);
    if (!std::isfinite(flight.learning_rate) || flight.learning_rate < 0) {
      return errors::InvalidArgument("the learning rate of step ", flight.input.step + 1, Where(),
                                     " is ", flight.learning_rate,
                                     "; a schedule gives numbers from 0 up");
    }
    ++trainer_.step_;
    flight.input.batch = std::move(batch);
    flight.program = optimizer::IsUpdateStep(*trainer_.optimizer_, flight.input.step)
                         ? trainer_.train_
                         : trainer_.accumulate_;
    flight.input.values = {Tensor::Scalar<float>(static_cast<float>(flight.examples)),
                           Tensor::Scalar<float>(static_cast<float>(flight.learning_rate)),
                           Tensor::Scalar<int64_t>(flight.input.step)};
    return flight;
  }

  void TakeOff(Flight flight) {
    ++in_flight_;
    StepInput input = flight.input;
    const int program = flight.program;
    trainer_.runner_->Start(
        program, std::move(input),
        [this, flight = std::move(flight)](StrategyRunner::Result result) mutable {
          MutexLock lock(mu_);
          landed_.push_back({std::move(flight), std::move(result)});
          landing_.NotifyOne();  // Under the lock: this may end when it is released.
        });
  }

  Landing WaitForLanding() {
    MutexLock lock(mu_);
    // Belongs to the steps, which end when the strategy's deadlines say so.
    while (landed_.empty()) landing_.Wait(mu_);
    Landing landing = std::move(landed_.front());
    landed_.pop_front();
    --in_flight_;
    return landing;
  }

  // Waits for all steps in flight. The first error is returned; the others' steps end as well.
  absl::Status LandAll() {
    absl::Status first;
    while (in_flight_ > 0) {
      const absl::Status status = Land(WaitForLanding());
      if (first.ok()) first = status;
    }
    return first;
  }

  absl::Status Land(Landing landing) {
    while (!landing.result.ok()) {
      NoteMembers();
      const absl::Status& status = landing.result.status();
      if (!absl::IsAborted(status)) return status;
      Flight& flight = landing.flight;
      if (flight.attempts >= options_.max_step_attempts) {
        return errors::Aborted("step ", flight.input.step + 1, " was aborted ", flight.attempts,
                               " times in a row: ", status.message());
      }
      ++flight.attempts;
      TANDEM_LOG(Warning) << "step " << flight.input.step + 1
                          << " is repeated: " << status.message();
      if (trainer_.runner_->max_steps_in_flight() > 1) {
        TakeOff(std::move(flight));
        return absl::OkStatus();
      }
      landing.result = trainer_.runner_->Run(flight.program, flight.input);
    }
    return Report(landing.flight, *landing.result);
  }

  void NoteMembers() {
    for (MemberEvent& event : trainer_.runner_->TakeMemberEvents()) {
      TANDEM_LOG(Warning) << event.member
                          << (event.kind == MemberEvent::Kind::kLeft ? " left: " : " joined: ")
                          << event.reason;
      trainer_.member_events_.push_back(std::move(event));
    }
  }

  absl::Status Report(const Flight& flight, const std::vector<Tensor>& fetched) {
    totals_->Add(fetched, flight.examples);
    const int64_t step = flight.input.step + 1;
    if (trainer_.options_.check_gradients) {
      const auto finite = fetched.back().Elements<bool>();
      for (size_t i = 0; i < finite.size(); ++i) {
        if (finite[i]) continue;
        return errors::FailedPrecondition("the gradient of variable '",
                                          trainer_.train_step_.gradient_names[i],
                                          "' is not finite in step ", step, Where(),
                                          ", with a loss of ", fetched[0].ScalarValue<float>());
      }
    }
    const float loss = fetched[0].ScalarValue<float>();
    if (options_.stop_on_non_finite_loss && !std::isfinite(loss)) {
      return errors::FailedPrecondition(
          "the loss is ", loss, " in step ", step, Where(), BadInput(flight.input.batch),
          ", and TrainerOptions::check_gradients tells which gradient went bad first");
    }
    ++progress_.step;
    progress_.examples = totals_->examples();
    progress_.loss = totals_->loss();
    progress_.learning_rate = flight.learning_rate;
    progress_.elapsed = absl::Now() - begin_;
    if (!options_.callbacks.empty() || options_.on_step) progress_.metrics = totals_->metrics();
    if (options_.on_step && !options_.on_step(progress_)) ends_ = true;
    for (const CallbackPtr& callback : options_.callbacks) {
      TANDEM_ASSIGN_OR_RETURN(const Callback::Next next, callback->OnStep(trainer_, progress_));
      if (next == Callback::Next::kStop) ends_ = true;
    }
    return absl::OkStatus();
  }

  std::string Where() const { return absl::StrCat(" (epoch ", progress_.epoch + 1, ")"); }

  absl::Status EndEpoch(int epoch) {
    EpochResult result = totals_->Result(absl::Now() - begin_);
    if (options_.validation.has_value()) {
      absl::StatusOr<EpochResult> validation = trainer_.Evaluate(*options_.validation);
      if (!validation.ok()) return WithContext(validation.status(), "validation");
      result.validation = std::make_shared<EpochResult>(*std::move(validation));
    }
    history_.push_back(result);
    if (options_.on_epoch && !options_.on_epoch(epoch, result)) ends_ = true;
    for (const CallbackPtr& callback : options_.callbacks) {
      TANDEM_ASSIGN_OR_RETURN(const Callback::Next next,
                              callback->OnEpoch(trainer_, epoch, result));
      if (next == Callback::Next::kStop) ends_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckStop() const {
    StopReason reason = trainer_.stop_.load(std::memory_order_relaxed);
    const int signal = signals_.received();
    if (signal != 0) {
      reason = signal == SIGTERM ? StopReason::kPreempted : StopReason::kInterrupted;
    }
    if (reason == StopReason::kNone) return absl::OkStatus();
    return Stopped(reason, trainer_.step_);
  }

  Trainer& trainer_;
  const OpenEpoch& data_;
  const FitOptions& options_;
  const StopOnSignals signals_;
  std::vector<EpochResult> history_;
  bool ends_ = false;  // A callback wants no more.

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

Trainer::Trainer(const Strategy& strategy, nn::LayerPtr model, LossFunction loss,
                 optimizer::OptimizerPtr optimizer, TrainerOptions options)
    : strategy_(strategy),
      model_(std::move(model)),
      loss_(std::move(loss)),
      optimizer_(std::move(optimizer)),
      options_(std::move(options)),
      step_(options_.first_step) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Prepare(const std::vector<Tensor>& batch) {
  if (runner_ != nullptr) return absl::OkStatus();
  if (model_ == nullptr || optimizer_ == nullptr || !loss_) {
    return errors::InvalidArgument("a trainer needs a model, a loss and an optimizer; ",
                                   model_ == nullptr       ? "the model"
                                   : optimizer_ == nullptr ? "the optimizer"
                                                           : "the loss",
                                   " is missing");
  }
  // Into locals first: a trainer that failed here is as it was before.
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyBuilder> builder, strategy_.NewBuilder());
  TrainStepOptions step_options;
  for (const Tensor& tensor : batch) step_options.batch.push_back(AnyBatch(tensor));
  step_options.seed = options_.seed;
  step_options.check_gradients = options_.check_gradients;
  if (options_.metrics.has_value()) {
    step_options.metrics = *options_.metrics;
  } else if (IsInteger(batch.back().dtype())) {
    step_options.metrics = {metric::Accuracy()};
    step_options.leave_out_metrics = true;
  }
  TANDEM_ASSIGN_OR_RETURN(TrainStep step,
                          BuildTrainStep(*builder, *model_, loss_, *optimizer_, step_options));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyRunner> runner, strategy_.NewRunner(*builder));
  TANDEM_RETURN_IF_ERROR(runner->Initialize());
  TANDEM_ASSIGN_OR_RETURN(train_, runner->AddProgram(step.train));
  if (!step.accumulate.fetches.empty()) {
    TANDEM_ASSIGN_OR_RETURN(accumulate_, runner->AddProgram(step.accumulate));
  }
  TANDEM_ASSIGN_OR_RETURN(evaluate_, runner->AddProgram(step.evaluate));
  TANDEM_ASSIGN_OR_RETURN(predict_, runner->AddProgram(step.predict));
  metrics_ = step.metrics;
  train_step_ = std::move(step);
  builder_ = std::move(builder);
  runner_ = std::move(runner);
  return absl::OkStatus();
}

absl::Status Trainer::CheckPrepared() const {
  if (runner_ != nullptr) return absl::OkStatus();
  return errors::FailedPrecondition(
      "the model has not been trained and has no variables yet: "
      "call Fit first");
}

absl::StatusOr<std::vector<EpochResult>> Trainer::Fit(const OpenEpoch& data,
                                                      const FitOptions& options) {
  if (options.epochs < 0) {
    return errors::InvalidArgument("training shall last ", options.epochs, " epochs");
  }
  if (!data) return errors::InvalidArgument("there is no data to train with: OpenEpoch is empty");
  if (absl::c_linear_search(options.callbacks, nullptr)) {
    return errors::InvalidArgument("one of the callbacks is null");
  }
  return FitRun(*this, data, options).Run();
}

absl::StatusOr<std::vector<EpochResult>> Trainer::Fit(const data::Dataset& data,
                                                      const FitOptions& options) {
  FitOptions with_steps = options;
  if (with_steps.steps_per_epoch < 0) {
    TANDEM_ASSIGN_OR_RETURN(const int64_t steps, data.Cardinality());
    with_steps.steps_per_epoch = std::max<int64_t>(steps, -1);  // Below: not known, or no end.
  }
  return Fit(Epochs(data), with_steps);
}

absl::StatusOr<EpochResult> Trainer::Evaluate(const OpenEpoch& data) {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  if (!data) return errors::InvalidArgument("there is no data to evaluate: OpenEpoch is empty");
  TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data(0));
  if (!next) return errors::InvalidArgument("the data to evaluate has an empty NextBatch");
  const absl::Time begin = absl::Now();
  EpochTotals totals(metrics_, train_step_.metric_sums);
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, next());
    if (!batch.has_value()) break;
    TANDEM_RETURN_IF_ERROR(CheckBatch(*batch));
    StepInput input;
    const int64_t examples = (*batch)[0].shape().dim(0);
    input.step = step_;
    input.batch = *std::move(batch);
    input.values = {Tensor::Scalar<float>(static_cast<float>(examples))};
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                            runner_->Run(evaluate_, std::move(input)));
    totals.Add(fetched, examples);
  }
  if (totals.examples() == 0) return errors::InvalidArgument("the data set to evaluate is empty");
  return totals.Result(absl::Now() - begin);
}

absl::StatusOr<Tensor> Trainer::Predict(std::vector<Tensor> inputs) {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  if (inputs.empty() || inputs[0].shape().rank() < 1) {
    return errors::InvalidArgument(
        inputs.empty() ? "there are no inputs to predict from"
                       : absl::StrCat("inputs of shape ", inputs[0].shape().DebugString(),
                                      "; the first size must be the batch"));
  }
  const int64_t size = inputs[0].shape().dim(0);
  StepInput input;
  input.step = step_;
  input.batch = std::move(inputs);
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, runner_->Run(predict_, std::move(input)));
  if (outputs[0].shape().rank() < 1 || outputs[0].shape().dim(0) != size) {
    return errors::InvalidArgument("the model gives outputs of shape ",
                                   outputs[0].shape().DebugString(), " for ", size,
                                   " inputs; the batch must come first");
  }
  return std::move(outputs[0]);
}

absl::StatusOr<Tensor> Trainer::Variable(const std::string& name) {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  return runner_->ReadVariable(name);
}

std::vector<std::string> Trainer::VariableNames() const {
  std::vector<std::string> names;
  if (builder_ == nullptr) return names;
  for (const StrategyVariable* variable : builder_->variables()) names.push_back(variable->name());
  return names;
}

absl::StatusOr<StrategyState> Trainer::CaptureState() {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  return runner_->CaptureState();
}

absl::Status Trainer::RestoreState(const StrategyState& state) {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  return runner_->RestoreState(state);
}

std::vector<MemberEvent> Trainer::TakeMemberEvents() { return std::exchange(member_events_, {}); }

}  // namespace tandem
