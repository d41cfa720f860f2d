#include "strategies/trainer/train_step.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/apply.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/optimizer/shared_scalars.h"

namespace tandem {
namespace {

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype,
                   PartialShape shape) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", std::move(shape)}});
}

// What each replica brings to the results of a step.
struct Parts {
  PerReplica losses;
  std::vector<PerReplica> sums;  // Of all metrics, one after the other.
  PerReplica votes;              // To stop; none where nobody votes.
};

class StepBuilder {
 public:
  StepBuilder(StrategyBuilder& builder, const nn::Layer& model, const LossFunction& loss,
              const optimizer::Optimizer& optimizer, const TrainStepOptions& options)
      : builder_(builder),
        model_(model),
        loss_(loss),
        optimizer_(optimizer),
        options_(options),
        host_(builder.host_scope()) {}

  absl::StatusOr<TrainStep> Build() {
    if (options_.batch.size() < 2) {
      return errors::InvalidArgument("a batch to train with has inputs and labels; there ",
                                     options_.batch.size() == 1 ? "is one tensor" : "is none");
    }
    TANDEM_RETURN_IF_ERROR(optimizer_.Check());
    TANDEM_RETURN_IF_ERROR(AddPlaceholders());
    TANDEM_RETURN_IF_ERROR(BuildTraining("train", /*updates=*/true, result_.train));
    if (optimizer_.accumulation_steps() > 1) {
      TANDEM_RETURN_IF_ERROR(BuildTraining("accumulate", /*updates=*/false, result_.accumulate));
    }
    TANDEM_RETURN_IF_ERROR(BuildEvaluation());
    return std::move(result_);
  }

 private:
  absl::Status AddPlaceholders() {
    global_batch_size_ = Placeholder(host_, "global_batch_size", kFloat32, Shape());
    learning_rate_ = Placeholder(host_, "learning_rate", kFloat32, Shape());
    step_ = Placeholder(host_, "step", kInt64, Shape());
    if (options_.has_stop_vote) stop_vote_ = Placeholder(host_, "stop_vote", kFloat32, Shape());
    batch_.resize(options_.batch.size());
    for (size_t i = 0; i < options_.batch.size(); ++i) {
      for (int r = 0; r < builder_.num_replicas(); ++r) {
        batch_[i].push_back(Placeholder(host_, absl::StrCat("batch_", i, "/replica_", r),
                                        options_.batch[i].dtype, options_.batch[i].shape));
      }
    }
    return host_.status();
  }

  std::vector<std::string> Feeds(size_t num_tensors) const {
    std::vector<std::string> feeds;
    for (size_t i = 0; i < num_tensors; ++i) {
      for (const Output& part : batch_[i]) feeds.push_back(part.name());
    }
    return feeds;
  }

  // The model's outputs for one replica.
  absl::StatusOr<Output> Outputs(const ReplicaContext& replica, bool training) const {
    const size_t r = static_cast<size_t>(replica.replica());
    std::vector<Output> inputs;
    for (size_t i = 0; i + 1 < batch_.size(); ++i) inputs.push_back(batch_[i][r]);
    nn::CallOptions call;
    call.training = training;
    call.fused = true;
    call.seed = options_.seed;
    TANDEM_ASSIGN_OR_RETURN(const Output outputs, model_.Call(replica, "", inputs, call));
    TANDEM_RETURN_IF_ERROR(replica.scope().status());
    if (!outputs.valid()) return errors::InvalidArgument("the model gives an invalid output");
    return outputs;
  }

  // Adds this replica's part of the loss and the metrics; gives its part of the loss.
  absl::StatusOr<Output> AddParts(const ReplicaContext& replica, Output outputs, Parts& parts) {
    const size_t r = static_cast<size_t>(replica.replica());
    const Output labels = batch_.back()[r];
    const Scope scope = replica.scope().SubScope("loss");
    TANDEM_ASSIGN_OR_RETURN(const Output examples, loss_(scope, labels, outputs));
    TANDEM_RETURN_IF_ERROR(scope.status());
    if (!examples.valid()) return errors::InvalidArgument("the loss gives an invalid output");
    const Output sum = scope.Call("Sum", {examples, scope.Constant(0)});
    const Output total = sum.valid() && sum.dtype() != kFloat32
                             ? scope.Call("Cast", {sum}, {{"DstT", kFloat32}})
                             : sum;
    const Output loss = scope.Call("RealDiv", {total, global_batch_size_});
    TANDEM_RETURN_IF_ERROR(scope.status());
    if (!loss.shape().IsCompatibleWith(PartialShape({}))) {
      return errors::InvalidArgument("the loss gives numbers of shape ",
                                     examples.shape().DebugString(),
                                     "; one for each example is wanted: [batch]");
    }
    parts.losses.push_back(loss);
    size_t next = 0;
    std::vector<int> counts;
    std::vector<MetricPtr> fitting;
    for (const MetricPtr& metric : options_.metrics) {
      if (metric == nullptr) return errors::InvalidArgument("one of the metrics is null");
      const Scope metric_scope = replica.scope().SubScope(metric->name());
      absl::StatusOr<std::vector<Output>> sums = metric->Sums(metric_scope, labels, outputs);
      if (!sums.ok() && options_.leave_out_metrics && metric_scope.status().ok()) continue;
      if (!sums.ok()) {
        return WithContext(sums.status(), absl::StrCat("metric '", metric->name(), "'"));
      }
      TANDEM_RETURN_IF_ERROR(metric_scope.status());
      fitting.push_back(metric);
      counts.push_back(static_cast<int>(sums->size()));
      for (const Output& one : *sums) {
        if (!one.valid()) {
          return errors::InvalidArgument("metric '", metric->name(), "' gives an invalid output");
        }
        if (one.dtype() != kFloat32) {
          return errors::InvalidArgument("metric '", metric->name(), "' gives a sum of type ",
                                         DataTypeName(one.dtype()),
                                         "; sums are float32 (Metric::Sums): Cast it");
        }
        if (next == parts.sums.size()) parts.sums.emplace_back();
        parts.sums[next++].push_back(one);
      }
    }
    result_.metrics = std::move(fitting);
    result_.metric_sums = std::move(counts);
    return loss;
  }

  // All in one reduction, where it takes one.
  absl::Status AddFetches(Parts parts, RunSignature& signature) {
    std::vector<PerReplica> values = {std::move(parts.losses)};
    for (PerReplica& sums : parts.sums) values.push_back(std::move(sums));
    if (!parts.votes.empty()) values.push_back(std::move(parts.votes));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> sums,
                            builder_.ReduceAllToHost(Reduction::kSum, values));
    for (const Output& sum : sums) signature.fetches.push_back(sum.name());
    return absl::OkStatus();
  }

  // A process has one vote, which its first replica casts.
  absl::Status AddVote(const ReplicaContext& replica, Parts& parts) const {
    if (!options_.has_stop_vote) return absl::OkStatus();
    parts.votes.push_back(replica.replica() == 0 ? stop_vote_ : host_.Constant(0.0f));
    return host_.status();
  }

  absl::Status BuildTraining(const std::string& name, bool updates, RunSignature& signature) {
    TANDEM_RETURN_IF_ERROR(builder_.BeginStep(name, step_));
    Parts parts;
    std::vector<StrategyVariable*> variables;  // The trainable ones.
    std::vector<PerReplicaGradient> gradients;
    const auto replica_fn = [&](const ReplicaContext& replica) -> absl::Status {
      TANDEM_ASSIGN_OR_RETURN(const Output outputs, Outputs(replica, /*training=*/true));
      TANDEM_ASSIGN_OR_RETURN(const Output loss, AddParts(replica, outputs, parts));
      TANDEM_RETURN_IF_ERROR(AddVote(replica, parts));
      variables.clear();
      for (StrategyVariable* variable : builder_.variables()) {
        if (variable->spec().trainable) variables.push_back(variable);
      }
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> mine, replica.Gradients(loss, variables));
      gradients.resize(variables.size());
      for (size_t i = 0; i < mine.size(); ++i) gradients[i].push_back(mine[i]);
      return absl::OkStatus();
    };
    TANDEM_RETURN_IF_ERROR(builder_.Run(replica_fn));
    if (variables.empty()) {
      return errors::InvalidArgument("the model has no variable that could be trained");
    }
    if (absl::c_none_of(gradients, [](const PerReplicaGradient& g) { return g[0].exists(); })) {
      return errors::InvalidArgument(
          "the loss depends on no variable that is trained: there is nothing to learn");
    }
    TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder_.ReduceGradients(gradients));
    if (updates) {
      TANDEM_RETURN_IF_ERROR(optimizer::ApplyGradients(builder_, optimizer_, variables, reduced,
                                                       learning_rate_, step_));
    } else {
      TANDEM_RETURN_IF_ERROR(
          optimizer::AccumulateGradients(builder_, optimizer_, variables, reduced));
    }
    // Before the step ends: if one of these reductions fails, nothing may have changed.
    TANDEM_RETURN_IF_ERROR(AddFetches(std::move(parts), signature));
    TANDEM_ASSIGN_OR_RETURN(Node * done, builder_.EndStep());
    if (options_.gradient_norm) TANDEM_RETURN_IF_ERROR(AddGradientNorm(reduced, signature));
    if (options_.check_gradients) {
      TANDEM_RETURN_IF_ERROR(CheckGradients(variables, reduced, signature));
    }
    signature.targets = {done->name()};
    signature.feeds = Feeds(batch_.size());
    for (const Output& value : {global_batch_size_, learning_rate_, step_, stop_vote_}) {
      if (value.valid()) signature.feeds.push_back(value.name());
    }
    return absl::OkStatus();
  }

  absl::Status AddGradientNorm(const std::vector<std::vector<Gradient>>& reduced,
                               RunSignature& signature) {
    const Scope scope = builder_.CopyScope(0).SubScope("gradient_norm");
    std::vector<Gradient> gradients;
    for (const std::vector<Gradient>& copies : reduced) gradients.push_back(copies[0]);
    const Output norm = optimizer::GlobalNorm(scope, std::move(gradients));
    TANDEM_RETURN_IF_ERROR(scope.status());
    const Output result = optimizer::CastTo(scope, norm, kFloat32);
    TANDEM_RETURN_IF_ERROR(scope.status());
    signature.fetches.push_back(result.name());
    return absl::OkStatus();
  }

  absl::Status CheckGradients(const std::vector<StrategyVariable*>& variables,
                              const std::vector<std::vector<Gradient>>& reduced,
                              RunSignature& signature) {
    const Scope scope = builder_.CopyScope(0).SubScope("check_gradients");
    InputList finite;
    result_.gradient_names.clear();
    for (size_t i = 0; i < variables.size(); ++i) {
      const Gradient& gradient = reduced[i][0];
      if (!gradient.exists()) continue;
      const Output flat = scope.Call("Reshape", {gradient.values, Tensor::Vector<int32_t>({-1})});
      finite.emplace_back(scope.Call("All", {scope.Call("IsFinite", {flat}), scope.Constant(0)}));
      result_.gradient_names.push_back(variables[i]->name());
    }
    const Output all = scope.Call("Pack", finite);
    TANDEM_RETURN_IF_ERROR(scope.status());
    signature.fetches.push_back(all.name());
    return absl::OkStatus();
  }

  absl::Status BuildEvaluation() {
    TANDEM_RETURN_IF_ERROR(builder_.BeginStep("evaluate"));
    Parts parts;
    PerReplica all_outputs;
    const auto replica_fn = [&](const ReplicaContext& replica) -> absl::Status {
      const ReplicaContext evaluated = replica.WithScope(replica.scope().SubScope("evaluate"));
      TANDEM_ASSIGN_OR_RETURN(const Output outputs, Outputs(evaluated, /*training=*/false));
      all_outputs.push_back(outputs);
      return AddParts(evaluated, outputs, parts).status();
    };
    TANDEM_RETURN_IF_ERROR(builder_.Run(replica_fn));
    TANDEM_RETURN_IF_ERROR(builder_.EndStep().status());
    TANDEM_RETURN_IF_ERROR(AddFetches(std::move(parts), result_.evaluate));
    result_.evaluate.feeds = Feeds(batch_.size());
    result_.evaluate.feeds.push_back(global_batch_size_.name());
    TANDEM_ASSIGN_OR_RETURN(const Output joined, builder_.GatherToHost(all_outputs, 0));
    result_.predict.fetches = {joined.name()};
    result_.predict.feeds = Feeds(batch_.size() - 1);
    return absl::OkStatus();
  }

  StrategyBuilder& builder_;
  const nn::Layer& model_;
  const LossFunction& loss_;
  const optimizer::Optimizer& optimizer_;
  const TrainStepOptions& options_;
  const Scope host_;
  Output global_batch_size_;
  Output learning_rate_;
  Output step_;
  Output stop_vote_;  // Invalid: nobody votes.
  std::vector<PerReplica> batch_;
  TrainStep result_;
};

}  // namespace

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

absl::StatusOr<TrainStep> BuildTrainStep(StrategyBuilder& builder, const nn::Layer& model,
                                         const LossFunction& loss,
                                         const optimizer::Optimizer& optimizer,
                                         const TrainStepOptions& options) {
  return StepBuilder(builder, model, loss, optimizer, options).Build();
}

}  // namespace tandem
