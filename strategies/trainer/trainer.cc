#include "strategies/trainer/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "strategies/workers.h"

namespace tandem {
namespace {

BatchTensor AnyBatch(const Tensor& tensor) {
  std::vector<int64_t> dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
  if (!dims.empty()) dims[0] = -1;
  return {PartialShape(dims), tensor.dtype()};
}

}  // namespace

Trainer::Trainer(const Strategy& strategy, nn::LayerPtr model, LossFunction loss,
                 optimizer::OptimizerPtr optimizer, TrainerOptions options)
    : strategy_(strategy),
      model_(std::move(model)),
      loss_(std::move(loss)),
      optimizer_(std::move(optimizer)),
      options_(std::move(options)),
      step_(options_.first_step) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Prepare(const std::vector<Tensor>& batch,
                              const std::function<bool()>& wants_stop) {
  if (runner_ != nullptr) return absl::OkStatus();
  batch_.clear();
  for (const Tensor& tensor : batch) batch_.push_back(AnyBatch(tensor));
  return Build(wants_stop);
}

absl::Status Trainer::Build(const std::function<bool()>& wants_stop) {
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
  step_options.batch = batch_;
  step_options.seed = options_.seed;
  step_options.check_gradients = options_.check_gradients;
  step_options.gradient_norm = options_.gradient_norm;
  step_options.has_stop_vote = strategy_.workers() != nullptr;
  if (options_.metrics.has_value()) {
    step_options.metrics = *options_.metrics;
  } else if (IsInteger(batch_.back().dtype)) {
    step_options.metrics = {metric::Accuracy()};
    step_options.leave_out_metrics = true;
  }
  TANDEM_ASSIGN_OR_RETURN(TrainStep step,
                          BuildTrainStep(*builder, *model_, loss_, *optimizer_, step_options));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyRunner> runner, strategy_.NewRunner(*builder));
  TANDEM_RETURN_IF_ERROR(runner->InitializeUnless(wants_stop));
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

bool Trainer::HasOtherReplicas() const {
  const WorkerGroup* const workers = strategy_.workers();
  return runner_ != nullptr && workers != nullptr &&
         workers->local_replicas() != builder_->num_replicas();
}

absl::Status Trainer::Rebuild() {
  TANDEM_ASSIGN_OR_RETURN(StrategyState state, runner_->CaptureState());
  runner_.reset();
  builder_.reset();
  TANDEM_RETURN_IF_ERROR(Build());
  return runner_->TakeState(std::move(state));
}

absl::Status Trainer::CheckPrepared() const {
  if (runner_ != nullptr) return absl::OkStatus();
  return errors::FailedPrecondition(
      "the model has not been trained and has no variables yet: "
      "call Fit first");
}

absl::Status Trainer::CheckSums(const TrainingState::RunningEpoch& running) const {
  std::vector<std::string> names;
  for (const MetricPtr& metric : metrics_) names.push_back(metric->name());
  size_t count = 0;
  for (const int sums : train_step_.metric_sums) count += static_cast<size_t>(sums);
  bool fits = running.metrics == names && running.sums.metrics.size() == count;
  for (size_t i = 0; fits && i < count; ++i) {
    const Tensor& sum = running.sums.metrics[i];
    const absl::StatusOr<Output> fetched =
        builder_->graph()->GetOutput(train_step_.train.fetches[i + 1]);
    fits = sum.dtype() == kFloat64 && fetched.ok() &&
           fetched->shape().IsCompatibleWith(PartialShape(sum.shape()));
  }
  if (fits) return absl::OkStatus();
  return errors::InvalidArgument(
      "the training to resume stands in mid-epoch and has sums of the metrics ",
      absl::StrJoin(running.metrics, ", "), "; this one has ", absl::StrJoin(names, ", "),
      " (TrainerOptions::metrics). Resume it with those");
}

void Trainer::NoteMembers() {
  std::vector<MemberEvent> events;
  if (runner_ != nullptr) events = runner_->TakeMemberEvents();
  if (WorkerGroup* const workers = strategy_.workers()) {
    for (MemberEvent& event : workers->TakeEvents()) events.push_back(std::move(event));
  }
  for (MemberEvent& event : events) {
    if (!event.is_logged) {
      TANDEM_LOG(Warning) << event.member
                          << (event.kind == MemberEvent::Kind::kLeft ? " left: " : " joined: ")
                          << event.reason;
    }
    member_events_.push_back(std::move(event));
  }
}

absl::Status Trainer::MayRepeat(const absl::Status& status, int attempts, const std::string& what) {
  NoteMembers();
  if (!absl::IsAborted(status)) return status;
  if (attempts >= options_.max_step_attempts) {
    return errors::Aborted(what, " was aborted ", attempts, " times in a row: ", status.message());
  }
  TANDEM_LOG(Warning) << what << " is repeated: " << status.message();
  return absl::OkStatus();
}

StrategyRunner::Result Trainer::RunStep(int program, const StepInput& input,
                                        const std::string& what) {
  for (int attempts = 1;; ++attempts) {
    StrategyRunner::Result result = runner_->Run(program, input);
    if (result.ok() || strategy_.workers() != nullptr) return result;
    TANDEM_RETURN_IF_ERROR(MayRepeat(result.status(), attempts, what));
  }
}

namespace {

// What a worker brings to a meeting outside of Fit: nobody can join there.
class LateParty final : public WorkerGroup::Party {
 public:
  explicit LateParty(int64_t completed_step) : completed_step_(completed_step) {}

  std::string occupation() const override { return "an evaluation or prediction"; }
  int64_t completed_step() const override { return completed_step_; }
  absl::StatusOr<StrategyState> Give() override { return Refusal(); }
  absl::Status Take(StrategyState) override { return Refusal(); }
  absl::Status TakeCheckpoint() override { return Refusal(); }
  absl::Status CheckStop() const override { return absl::OkStatus(); }

 private:
  static absl::Status Refusal() {
    return errors::FailedPrecondition(
        "a worker came to an evaluation or prediction outside of Fit with another state than the "
        "others have; members can join while Fit runs");
  }

  const int64_t completed_step_;
};

}  // namespace

absl::Status Trainer::MeetOutsideFit() {
  LateParty party(step_ - 1);
  const absl::Status met = strategy_.workers()->Meet(party);
  NoteMembers();
  TANDEM_RETURN_IF_ERROR(met);
  return HasOtherReplicas() ? Rebuild() : absl::OkStatus();
}

absl::StatusOr<EpochResult> Trainer::Evaluate(const OpenEpoch& data) {
  for (int attempts = 1;; ++attempts) {
    absl::StatusOr<EpochResult> result =
        EvaluateUnlessStopped(data, [] { return absl::OkStatus(); });
    if (result.ok() || strategy_.workers() == nullptr) return result;
    TANDEM_RETURN_IF_ERROR(MayRepeat(result.status(), attempts, "an evaluation"));
    TANDEM_RETURN_IF_ERROR(MeetOutsideFit());
  }
}

absl::StatusOr<EpochResult> Trainer::EvaluateUnlessStopped(
    const OpenEpoch& data, absl::FunctionRef<absl::Status()> check_stop) {
  TANDEM_RETURN_IF_ERROR(CheckPrepared());
  if (!data) return errors::InvalidArgument("there is no data to evaluate: OpenEpoch is empty");
  TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data(0));
  if (!next) return errors::InvalidArgument("the data to evaluate has an empty NextBatch");
  const absl::Time begin = absl::Now();
  EpochTotals totals(metrics_, train_step_.metric_sums);
  for (int64_t number = 1;; ++number) {
    TANDEM_RETURN_IF_ERROR(check_stop());
    TANDEM_ASSIGN_OR_RETURN(absl::optional<std::vector<Tensor>> batch, next());
    if (!batch.has_value()) break;
    TANDEM_RETURN_IF_ERROR(CheckBatch(*batch));
    StepInput input;
    const int64_t examples = (*batch)[0].shape().dim(0);
    input.step = step_;
    input.batch = *std::move(batch);
    input.values = {Tensor::Scalar<float>(static_cast<float>(examples))};
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                            RunStep(evaluate_, input, absl::StrCat("batch ", number)));
    totals.Add(fetched, examples);
  }
  if (totals.examples() == 0) return errors::InvalidArgument("the data set to evaluate is empty");
  EpochResult result = totals.Result(absl::Now() - begin);
  result.damaged = next.damaged();
  return result;
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
  StrategyRunner::Result run = RunStep(predict_, input, "a prediction");
  for (int attempts = 1; !run.ok() && strategy_.workers() != nullptr; ++attempts) {
    TANDEM_RETURN_IF_ERROR(MayRepeat(run.status(), attempts, "a prediction"));
    TANDEM_RETURN_IF_ERROR(MeetOutsideFit());
    run = RunStep(predict_, input, "a prediction");
  }
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, std::move(run));
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

std::vector<std::string> Trainer::TrainableVariableNames() const {
  std::vector<std::string> names;
  if (builder_ == nullptr) return names;
  for (const StrategyVariable* variable : builder_->variables()) {
    if (variable->spec().trainable) names.push_back(variable->name());
  }
  return names;
}

const Graph* Trainer::graph() const { return builder_ == nullptr ? nullptr : builder_->graph(); }

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
