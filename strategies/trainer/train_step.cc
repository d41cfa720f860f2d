#include "strategies/trainer/train_step.h"

#include <utility>

#include "core/base/status.h"
#include "core/op/gradients.h"

namespace tandem {
namespace {

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype,
                   PartialShape shape) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", std::move(shape)}});
}

// The sum of the examples' losses and the number of right answers of one replica, both float32.
struct Parts {
  Output loss;
  Output right;
};

absl::StatusOr<Parts> LossAndRight(const Scope& scope, const LossFunction& loss, Output labels,
                                   Output outputs, Output global_batch_size) {
  TANDEM_ASSIGN_OR_RETURN(const Output examples, loss(scope, labels, outputs));
  Parts parts;
  const Output axis = scope.Constant(0);
  parts.loss = scope.Call("RealDiv", {scope.Call("Sum", {examples, axis}), global_batch_size});
  if (IsInteger(labels.dtype())) {
    const Output answer = scope.Call("ArgMax", {outputs, scope.Constant(-1)},
                                     {{"output_type", labels.dtype() == kInt64 ? kInt64 : kInt32}});
    const Output is_right =
        scope.Call("Cast", {scope.Call("Equal", {answer, labels})}, {{"DstT", kFloat32}});
    parts.right = scope.Call("Sum", {is_right, axis});
  } else {
    parts.right = scope.Constant(0.0f);
  }
  TANDEM_RETURN_IF_ERROR(scope.status());
  return parts;
}

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
    global_batch_size_ = Placeholder(host_, "global_batch_size", kFloat32, Shape());
    learning_rate_ = Placeholder(host_, "learning_rate", kFloat32, Shape());
    step_ = Placeholder(host_, "step", kFloat32, Shape());
    for (int i = 0; i < builder_.num_replicas(); ++i) {
      inputs_.push_back(Placeholder(host_, absl::StrCat("input_", i), options_.input_dtype,
                                    options_.input_shape));
      labels_.push_back(Placeholder(host_, absl::StrCat("label_", i), options_.label_dtype,
                                    options_.label_shape));
    }
    TANDEM_RETURN_IF_ERROR(host_.status());
    TrainStep step;
    TANDEM_RETURN_IF_ERROR(BuildTraining(step));
    TANDEM_RETURN_IF_ERROR(BuildEvaluation(step));
    step.initializer = builder_.initializer();
    for (auto* signature : {&step.train, &step.evaluate}) {
      for (size_t i = 0; i < inputs_.size(); ++i) signature->feeds.push_back(inputs_[i].name());
      for (size_t i = 0; i < labels_.size(); ++i) signature->feeds.push_back(labels_[i].name());
      signature->feeds.push_back(global_batch_size_.name());
    }
    for (const Output& input : inputs_) step.predict.feeds.push_back(input.name());
    step.train.feeds.push_back(learning_rate_.name());
    step.train.feeds.push_back(step_.name());
    return step;
  }

 private:
  absl::Status BuildTraining(TrainStep& step) {
    PerReplica losses;
    PerReplica rights;
    // Of each variable, the gradient at each replica.
    std::vector<PerReplicaGradient> gradients;
    const auto replica_fn = [&](const ReplicaContext& replica) -> absl::Status {
      const size_t r = static_cast<size_t>(replica.replica());
      nn::CallOptions call;
      call.training = true;
      call.seed = options_.seed;
      TANDEM_ASSIGN_OR_RETURN(const Output outputs, model_.Call(replica, "", inputs_[r], call));
      TANDEM_ASSIGN_OR_RETURN(const Parts parts,
                              LossAndRight(replica.scope().SubScope("loss"), loss_, labels_[r],
                                           outputs, global_batch_size_));
      losses.push_back(parts.loss);
      rights.push_back(parts.right);
      variables_.clear();
      std::vector<Output> values;
      for (StrategyVariable* variable : builder_.variables()) {
        if (!variable->spec().trainable) continue;
        variables_.push_back(variable);
        values.push_back(replica.Read(*variable));
      }
      TANDEM_RETURN_IF_ERROR(replica.scope().status());
      TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> mine,
                              AddGradients(builder_.graph(), {parts.loss}, values));
      gradients.resize(variables_.size());
      for (size_t i = 0; i < mine.size(); ++i) gradients[i].push_back(mine[i]);
      return absl::OkStatus();
    };
    TANDEM_RETURN_IF_ERROR(builder_.Run(replica_fn));
    TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder_.ReduceGradients(gradients));
    std::vector<Node*> updates;
    for (size_t i = 0; i < variables_.size(); ++i) {
      const StrategyVariable& variable = *variables_[i];
      if (!reduced[i][0].exists()) continue;  // The loss does not depend on it.
      TANDEM_RETURN_IF_ERROR(optimizer_.CreateSlots(builder_, variable));
      TANDEM_RETURN_IF_ERROR(
          builder_.Update(variable, [&](const Scope& scope, Output, int copy) -> absl::Status {
            TANDEM_ASSIGN_OR_RETURN(
                Node * update,
                optimizer_.Update(builder_, scope.SubScope(variable.name()), variable, copy,
                                  reduced[i][static_cast<size_t>(copy)], {learning_rate_, step_}));
            updates.push_back(update);
            return absl::OkStatus();
          }));
    }
    Node* const train =
        host_.WithControlDependencies(updates).WithOpName("train").AddNode("NoOp", {});
    TANDEM_RETURN_IF_ERROR(host_.status());
    TANDEM_ASSIGN_OR_RETURN(const Output loss, builder_.ReduceToHost(ReduceOp::kSum, losses));
    TANDEM_ASSIGN_OR_RETURN(const Output right, builder_.ReduceToHost(ReduceOp::kSum, rights));
    step.train.fetches = {loss.name(), right.name()};
    step.train.targets = {train->name()};
    return absl::OkStatus();
  }

  absl::Status BuildEvaluation(TrainStep& step) {
    PerReplica losses;
    PerReplica rights;
    const auto replica_fn = [&](const ReplicaContext& replica) -> absl::Status {
      const size_t r = static_cast<size_t>(replica.replica());
      const ReplicaContext evaluated = replica.WithScope(replica.scope().SubScope("evaluate"));
      nn::CallOptions call;
      call.seed = options_.seed;
      TANDEM_ASSIGN_OR_RETURN(const Output outputs, model_.Call(evaluated, "", inputs_[r], call));
      step.predict.fetches.push_back(outputs.name());
      TANDEM_ASSIGN_OR_RETURN(const Parts parts,
                              LossAndRight(evaluated.scope().SubScope("loss"), loss_, labels_[r],
                                           outputs, global_batch_size_));
      losses.push_back(parts.loss);
      rights.push_back(parts.right);
      return absl::OkStatus();
    };
    TANDEM_RETURN_IF_ERROR(builder_.Run(replica_fn));
    TANDEM_ASSIGN_OR_RETURN(const Output loss, builder_.ReduceToHost(ReduceOp::kSum, losses));
    TANDEM_ASSIGN_OR_RETURN(const Output right, builder_.ReduceToHost(ReduceOp::kSum, rights));
    step.evaluate.fetches = {loss.name(), right.name()};
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
  std::vector<Output> inputs_;
  std::vector<Output> labels_;
  std::vector<StrategyVariable*> variables_;  // The trainable ones.
};

}  // namespace

namespace loss {

LossFunction SparseSoftmaxCrossEntropy() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    const Output loss = scope.Call("SparseSoftmaxCrossEntropyWithLogits", {outputs, labels});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return loss;
  };
}

LossFunction MeanSquaredError() {
  return [](const Scope& scope, Output labels, Output outputs) -> absl::StatusOr<Output> {
    const Output squares = scope.Call("SquaredDifference", {outputs, labels});
    // [batch, rest] by way of a reshape, so that any rank will do.
    const Output rows =
        scope.Call("StridedSlice", {scope.Call("Shape", {squares}), Tensor::Vector<int32_t>({0}),
                                    Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({1})});
    const Output flat_shape =
        scope.Call("ConcatV2", {rows, Tensor::Vector<int32_t>({-1}), Tensor::Scalar<int32_t>(0)});
    const Output loss = scope.Call(
        "Mean", {scope.Call("Reshape", {squares, flat_shape}), Tensor::Scalar<int32_t>(1)});
    TANDEM_RETURN_IF_ERROR(scope.status());
    return loss;
  };
}

}  // namespace loss

absl::StatusOr<TrainStep> BuildTrainStep(StrategyBuilder& builder, const nn::Layer& model,
                                         const LossFunction& loss,
                                         const optimizer::Optimizer& optimizer,
                                         const TrainStepOptions& options) {
  return StepBuilder(builder, model, loss, optimizer, options).Build();
}

}  // namespace tandem
