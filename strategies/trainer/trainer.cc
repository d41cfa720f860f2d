#include "strategies/trainer/trainer.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// The first element of replica `replica` of `replicas` in a batch of `size`: the least i with
// floor(i·replicas/size) >= replica.
int64_t FirstOf(int64_t replica, int64_t replicas, int64_t size) {
  return (replica * size + replicas - 1) / replicas;
}

absl::Status CheckBatch(const std::vector<Tensor>& batch) {
  if (batch.size() != 2) {
    return errors::InvalidArgument("a batch has ", batch.size(),
                                   " tensors; inputs and labels are wanted");
  }
  if (batch[0].shape().rank() < 1 || batch[1].shape().rank() < 1 ||
      batch[0].shape().dim(0) != batch[1].shape().dim(0)) {
    return errors::InvalidArgument("a batch has inputs of shape ", batch[0].shape().DebugString(),
                                   " and labels of shape ", batch[1].shape().DebugString(),
                                   "; their first sizes must be equal");
  }
  return absl::OkStatus();
}

PartialShape AnyBatch(const Tensor& tensor) {
  PartialShape shape(tensor.shape());
  shape.SetDim(0, PartialShape::kUnknownDim);
  return shape;
}

// Sums over an epoch.
class Totals {
 public:
  void Add(const std::vector<Tensor>& fetched, int64_t examples) {
    loss_ += static_cast<double>(fetched[0].ScalarValue<float>()) * static_cast<double>(examples);
    right_ += static_cast<double>(fetched[1].ScalarValue<float>());
    examples_ += examples;
  }
  EpochResult Result(absl::Duration duration) const {
    const double count = static_cast<double>(std::max<int64_t>(examples_, 1));
    return {loss_ / count, right_ / count, examples_, duration};
  }

 private:
  double loss_ = 0;
  double right_ = 0;
  int64_t examples_ = 0;
};

}  // namespace

OpenEpoch Epochs(data::Dataset dataset) {
  return [dataset = std::move(dataset)](int epoch) -> absl::StatusOr<NextBatch> {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<data::Iterator> opened,
                            dataset.Open(static_cast<uint64_t>(epoch)));
    // Shared, because functions are copied.
    return NextBatch([iterator = std::shared_ptr<data::Iterator>(std::move(opened))] {
      return iterator->Next();
    });
  };
}

Trainer::Trainer(const Strategy& strategy, nn::LayerPtr model, LossFunction loss,
                 optimizer::OptimizerPtr optimizer, TrainerOptions options)
    : strategy_(strategy),
      model_(std::move(model)),
      loss_(std::move(loss)),
      optimizer_(std::move(optimizer)),
      options_(options),
      step_(options.first_step) {}

Trainer::~Trainer() = default;

absl::Status Trainer::Prepare(const std::vector<Tensor>& batch) {
  TANDEM_RETURN_IF_ERROR(CheckBatch(batch));
  if (session_ != nullptr) return absl::OkStatus();
  // Into locals first: a trainer that failed here is as it was before.
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<StrategyBuilder> builder, strategy_.NewBuilder());
  TrainStepOptions step_options;
  step_options.input_shape = AnyBatch(batch[0]);
  step_options.input_dtype = batch[0].dtype();
  step_options.label_shape = AnyBatch(batch[1]);
  step_options.label_dtype = batch[1].dtype();
  step_options.seed = options_.seed;
  TANDEM_ASSIGN_OR_RETURN(const TrainStep step,
                          BuildTrainStep(*builder, *model_, loss_, *optimizer_, step_options));
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                          Session::Create(*builder->graph(), strategy_.session_options()));
  TANDEM_RETURN_IF_ERROR(session->Run({}, {}, {step.initializer}).status());
  TANDEM_ASSIGN_OR_RETURN(train_, session->MakeCallable(step.train));
  TANDEM_ASSIGN_OR_RETURN(evaluate_, session->MakeCallable(step.evaluate));
  TANDEM_ASSIGN_OR_RETURN(predict_, session->MakeCallable(step.predict));
  builder_ = std::move(builder);
  session_ = std::move(session);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Trainer::FeedsFor(const std::vector<Tensor>& batch) const {
  TANDEM_RETURN_IF_ERROR(CheckBatch(batch));
  const int64_t size = batch[0].shape().dim(0);
  const int replicas = builder_->num_replicas();
  std::vector<Tensor> feeds;
  for (const Tensor& whole : batch) {
    for (int r = 0; r < replicas; ++r) {
      feeds.push_back(whole.Slice(FirstOf(r, replicas, size), FirstOf(r + 1, replicas, size)));
    }
  }
  feeds.push_back(Tensor::Scalar<float>(static_cast<float>(size)));
  return feeds;
}

absl::StatusOr<std::vector<EpochResult>> Trainer::Fit(const OpenEpoch& data,
                                                      const FitOptions& options) {
  std::vector<EpochResult> history;
  stop_.store(false, std::memory_order_relaxed);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data(epoch));
    const absl::Time begin = absl::Now();
    Totals totals;
    TrainingProgress progress;
    progress.epoch = epoch;
    for (;;) {
      TANDEM_ASSIGN_OR_RETURN(const absl::optional<std::vector<Tensor>> batch, next());
      if (!batch.has_value()) break;
      TANDEM_RETURN_IF_ERROR(Prepare(*batch));
      TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> feeds, FeedsFor(*batch));
      feeds.push_back(Tensor::Scalar<float>(static_cast<float>(optimizer_->LearningRate(step_))));
      feeds.push_back(Tensor::Scalar<float>(static_cast<float>(step_ + 1)));
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, train_->Run(std::move(feeds)));
      ++step_;
      totals.Add(fetched, (*batch)[0].shape().dim(0));
      if (options.stop_on_non_finite_loss && !std::isfinite(fetched[0].ScalarValue<float>())) {
        return errors::FailedPrecondition("the loss is ", fetched[0].ScalarValue<float>(),
                                          " in step ", step_, " (epoch ", epoch + 1,
                                          "); a lower learning rate is the likeliest cure");
      }
      const EpochResult so_far = totals.Result(absl::Now() - begin);
      ++progress.step;
      progress.examples = so_far.examples;
      progress.loss = so_far.loss;
      progress.accuracy = so_far.accuracy;
      progress.elapsed = so_far.duration;
      const bool go_on = !options.on_step || options.on_step(progress);
      if (!go_on || stop_.load(std::memory_order_relaxed)) {
        return errors::Cancelled("training was stopped after step ", step_);
      }
    }
    if (progress.step == 0) {
      return errors::InvalidArgument("epoch ", epoch + 1,
                                     " has no batch: the data set is empty, or its batches are "
                                     "larger than the data and incomplete ones are dropped");
    }
    history.push_back(totals.Result(absl::Now() - begin));
    if (options.on_epoch && !options.on_epoch(epoch, history.back())) break;
  }
  return history;
}

absl::StatusOr<EpochResult> Trainer::Evaluate(const OpenEpoch& data) {
  TANDEM_ASSIGN_OR_RETURN(const NextBatch next, data(0));
  const absl::Time begin = absl::Now();
  Totals totals;
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(const absl::optional<std::vector<Tensor>> batch, next());
    if (!batch.has_value()) break;
    if (session_ == nullptr) {
      return errors::FailedPrecondition("the model has not been trained: call Fit first");
    }
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> feeds, FeedsFor(*batch));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, evaluate_->Run(std::move(feeds)));
    totals.Add(fetched, (*batch)[0].shape().dim(0));
  }
  const EpochResult result = totals.Result(absl::Now() - begin);
  if (result.examples == 0) return errors::InvalidArgument("the data set to evaluate is empty");
  return result;
}

absl::StatusOr<Tensor> Trainer::Predict(const Tensor& inputs) {
  if (session_ == nullptr) {
    return errors::FailedPrecondition("the model has not been trained: call Fit first");
  }
  if (inputs.shape().rank() < 1) {
    return errors::InvalidArgument("inputs of shape ", inputs.shape().DebugString(),
                                   "; the first size must be the batch");
  }
  const int64_t size = inputs.shape().dim(0);
  const int replicas = builder_->num_replicas();
  std::vector<Tensor> feeds;
  for (int r = 0; r < replicas; ++r) {
    feeds.push_back(inputs.Slice(FirstOf(r, replicas, size), FirstOf(r + 1, replicas, size)));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> parts, predict_->Run(std::move(feeds)));
  if (replicas == 1) return parts[0];
  int64_t rows = 0;
  for (const Tensor& part : parts) {
    if (part.shape().rank() < 1 ||
        part.shape().dims().subspan(1) != parts[0].shape().dims().subspan(1)) {
      return errors::InvalidArgument(
          "the model gives outputs of shape ", parts[0].shape().DebugString(), " and ",
          part.shape().DebugString(), " on two replicas; the batch must come first");
    }
    rows += part.shape().dim(0);
  }
  if (rows != size) {
    return errors::InvalidArgument("the model gives ", rows, " outputs for ", size, " inputs");
  }
  Shape shape = parts[0].shape();
  shape.SetDim(0, size);
  TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(parts[0].dtype(), shape));
  char* to = static_cast<char*>(whole.mutable_data());
  for (const Tensor& part : parts) {
    if (part.num_bytes() > 0) std::memcpy(to, part.data(), part.num_bytes());
    to += part.num_bytes();
  }
  return whole;
}

absl::StatusOr<Tensor> Trainer::Variable(const std::string& name) {
  if (builder_ == nullptr) {
    return errors::FailedPrecondition("the model has no variables yet: call Fit first");
  }
  for (const StrategyVariable* variable : builder_->variables()) {
    if (variable->name() != name) continue;
    const std::string read = absl::StrCat(name, "/read_for_user");
    TANDEM_RETURN_IF_ERROR(session_->Extend([&](Graph& graph) -> absl::Status {
      if (graph.FindNode(read) != nullptr) return absl::OkStatus();
      const Scope scope = Scope::ForGraph(&graph).WithDevice(builder_->device_of_copy(0));
      scope.WithOpName(read).Call("ReadVariableOp",
                                  {graph.FindNode(variable->handle(0).node->name())},
                                  {{"dtype", variable->spec().dtype}});
      return scope.status();
    }));
    TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, session_->Run({}, {read}));
    return values[0];
  }
  return errors::NotFound("there is no variable '", name, "'", DidYouMean(name, VariableNames()));
}

std::vector<std::string> Trainer::VariableNames() const {
  std::vector<std::string> names;
  if (builder_ == nullptr) return names;
  for (const StrategyVariable* variable : builder_->variables()) names.push_back(variable->name());
  return names;
}

}  // namespace tandem
