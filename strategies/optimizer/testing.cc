#include "strategies/optimizer/testing.h"

#include <utility>

#include "core/base/status.h"
#include "core/tensor/float16.h"
#include "strategies/mirrored/mirrored.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/apply.h"

namespace tandem::optimizer {
namespace {

template <typename T>
Tensor Convert(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DataTypeOf<T>(), shape);
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, double>) {
      tensor.MutableElements<T>()[i] = values[i];
    } else {
      tensor.MutableElements<T>()[i] = static_cast<T>(static_cast<float>(values[i]));
    }
  }
  return tensor;
}

template <typename T>
std::vector<double> Convert(const Tensor& tensor) {
  std::vector<double> values;
  for (const T& element : tensor.Elements<T>()) {
    if constexpr (std::is_same_v<T, double>) {
      values.push_back(element);
    } else {
      values.push_back(static_cast<float>(element));
    }
  }
  return values;
}

}  // namespace

Tensor FromDoubles(DataType dtype, const Shape& shape, const std::vector<double>& values) {
  switch (dtype) {
    case kFloat64:
      return Convert<double>(shape, values);
    case kFloat16:
      return Convert<Float16>(shape, values);
    case kBfloat16:
      return Convert<Bfloat16>(shape, values);
    default:
      return Convert<float>(shape, values);
  }
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case kFloat64:
      return Convert<double>(tensor);
    case kFloat16:
      return Convert<Float16>(tensor);
    case kBfloat16:
      return Convert<Bfloat16>(tensor);
    default:
      return Convert<float>(tensor);
  }
}

absl::StatusOr<std::unique_ptr<TestTraining>> TestTraining::Create(
    OptimizerPtr optimizer, const std::vector<TestVariable>& variables,
    const TestTrainingOptions& options) {
  auto training =
      std::unique_ptr<TestTraining>(new TestTraining(std::move(optimizer), variables, options));
  TANDEM_RETURN_IF_ERROR(training->Build());
  return training;
}

absl::Status TestTraining::Build() {
  ReplicaBuilderOptions mirrored;
  mirrored.devices = options_.devices;
  TANDEM_ASSIGN_OR_RETURN(builder_, NewMirroredBuilder(mirrored));
  const Scope host = builder_->host_scope();
  const auto placeholder = [&](const std::string& name, DataType dtype, PartialShape shape) {
    return host.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  };
  const Output learning_rate = placeholder("learning_rate", kFloat32, Shape());
  const Output step = placeholder("step", kInt64, Shape());
  std::vector<StrategyVariable*> variables;
  std::vector<std::vector<Gradient>> gradients;
  for (const TestVariable& test : test_variables_) {
    VariableSpec spec;
    spec.name = test.name;
    spec.dtype = options_.dtype;
    spec.shape = test.shape;
    const Tensor initial = FromDoubles(spec.dtype, spec.shape, test.initial);
    spec.initializer = [initial](const Scope& scope) { return scope.Constant(initial); };
    TANDEM_ASSIGN_OR_RETURN(StrategyVariable * variable, builder_->Variable(spec));
    variables.push_back(variable);
    PartialShape shape(test.shape);
    if (test.is_sparse) shape.SetDim(0, PartialShape::kUnknownDim);
    Gradient gradient(placeholder(test.name + "/gradient", spec.dtype, shape));
    if (test.is_sparse) gradient.indices = placeholder(test.name + "/rows", kInt64, {-1});
    gradients.emplace_back(static_cast<size_t>(builder_->num_copies()), gradient);
  }
  if (optimizer_->accumulation_steps() > 1) {
    TANDEM_RETURN_IF_ERROR(builder_->BeginStep("accumulate", step));
    TANDEM_RETURN_IF_ERROR(AccumulateGradients(*builder_, *optimizer_, variables, gradients));
    TANDEM_ASSIGN_OR_RETURN(Node* const accumulate, builder_->EndStep());
    accumulate_ = accumulate->name();
  }
  TANDEM_RETURN_IF_ERROR(builder_->BeginStep("train", step));
  TANDEM_RETURN_IF_ERROR(
      ApplyGradients(*builder_, *optimizer_, variables, gradients, learning_rate, step));
  TANDEM_ASSIGN_OR_RETURN(Node* const train, builder_->EndStep());
  train_ = train->name();
  for (const StrategyVariable* variable : builder_->variables()) {
    for (int copy = 0; copy < variable->num_copies(); ++copy) {
      builder_->CopyScope(copy)
          .WithOpName(absl::StrCat("read_", copy, "/", variable->name()))
          .Call("ReadVariableOp", {variable->handle(copy)}, {{"dtype", variable->spec().dtype}});
    }
  }
  TANDEM_RETURN_IF_ERROR(host.status());

  SessionOptions session;
  const int devices = static_cast<int>(options_.devices.size());
  TANDEM_ASSIGN_OR_RETURN(session.devices, DeviceSet::Create({{kCpu, devices}, {kSim, devices}}));
  TANDEM_ASSIGN_OR_RETURN(session_, Session::Create(*builder_->graph(), session));
  return session_->Run({}, {}, {builder_->initializer()}).status();
}

absl::Status TestTraining::Step(const std::vector<TestGradient>& gradients) {
  const bool updates = IsUpdateStep(*optimizer_, step_);
  Session::Feeds feeds;
  if (updates) {
    feeds = {{"learning_rate",
              Tensor::Scalar<float>(static_cast<float>(optimizer_->LearningRate(step_)))},
             {"step", Tensor::Scalar<int64_t>(step_)}};
  }
  ++step_;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const TestVariable& variable = test_variables_[i];
    Shape shape = variable.shape;
    if (variable.is_sparse) {
      Shape::Dims dims(shape.dims().begin(), shape.dims().end());
      dims[0] = static_cast<int64_t>(gradients[i].rows.size());
      TANDEM_ASSIGN_OR_RETURN(shape, Shape::FromDims(dims));
      feeds.emplace_back(variable.name + "/rows",
                         Tensor::Vector<int64_t>(absl::MakeConstSpan(gradients[i].rows)));
    }
    feeds.emplace_back(variable.name + "/gradient",
                       FromDoubles(options_.dtype, shape, gradients[i].values));
  }
  return session_->Run(feeds, {}, {updates ? train_ : accumulate_}).status();
}

absl::StatusOr<std::vector<double>> TestTraining::Read(const std::string& name, int copy) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                          session_->Run({}, {absl::StrCat("read_", copy, "/", name)}));
  return ToDoubles(values[0]);
}

int TestTraining::CountNodes(absl::string_view op) const {
  int count = 0;
  for (const Node* node : graph().nodes()) count += node->op().name == op ? 1 : 0;
  return count;
}

}  // namespace tandem::optimizer
