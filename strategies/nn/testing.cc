#include "strategies/nn/testing.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/op/gradients.h"
#include "gtest/gtest.h"
#include "strategies/local/replica_builder.h"
#include "strategies/mirrored/mirrored.h"

namespace tandem::nn {
namespace {

Tensor Wave(const Shape& shape, double frequency, double phase, double factor = 1) {
  Tensor wave(kFloat32, shape);
  double i = 0;
  for (float& value : wave.MutableElements<float>()) {
    value = static_cast<float>(factor * std::sin(frequency * i++ + phase));
  }
  return wave;
}

// With an unknown first size.
PartialShape BatchOf(const Shape& shape) {
  PartialShape batch(shape);
  if (batch.rank() > 0) batch.SetDim(0, PartialShape::kUnknownDim);
  return batch;
}

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype,
                   const PartialShape& shape) {
  return scope.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}

// Adds a gradient as it was fetched, dense or in rows, to `sum`.
void AddTo(Tensor& sum, const Tensor& values, const Tensor* indices) {
  const auto to = sum.MutableElements<float>();
  const auto from = values.Elements<float>();
  if (indices == nullptr) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    return;
  }
  const size_t row = static_cast<size_t>(sum.num_elements() / sum.shape().dim(0));
  for (size_t i = 0; i < static_cast<size_t>(indices->num_elements()); ++i) {
    const size_t at =
        static_cast<size_t>(indices->dtype() == kInt64 ? indices->Elements<int64_t>()[i]
                                                       : indices->Elements<int32_t>()[i]);
    for (size_t j = 0; j < row; ++j) to[at * row + j] += from[i * row + j];
  }
}

}  // namespace

Tensor FloatInput(int number, Shape shape, float factor) {
  return Wave(shape, 1.7, 0.3 + number, factor);
}

Tensor IntInput(int number, Shape shape, int limit) {
  Tensor input(kInt32, std::move(shape));
  int i = 0;
  for (int32_t& value : input.MutableElements<int32_t>()) value = (7 * i++ + 3 * number) % limit;
  return input;
}

Tensor VariableValue(const std::string& name, const Shape& shape) {
  int phase = 0;
  for (const char c : name) phase += c;
  Tensor value = Wave(shape, 0.9, phase % 17, 0.5);
  if (absl::EndsWith(name, "gamma") || absl::EndsWith(name, "variance")) {
    for (float& v : value.MutableElements<float>()) v += 1;
  }
  return value;
}

float LossWeight(int64_t i) {
  return static_cast<float>(std::cos(0.5 * static_cast<double>(i) + 1));
}

std::map<std::string, KerasArray> KerasCase(const std::string& name) {
  std::map<std::string, KerasArray> arrays;
  std::ifstream file("strategies/nn/testdata/keras_values.txt");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string case_name, array, sizes, word;
    words >> case_name >> array >> sizes;
    if (case_name != name) continue;
    std::vector<int64_t> dims;
    if (sizes != "-") {
      for (const absl::string_view size : absl::StrSplit(sizes, ',')) {
        EXPECT_TRUE(absl::SimpleAtoi(size, &dims.emplace_back())) << line;
      }
    }
    KerasArray& entry = arrays[array];
    entry.shape = Shape(absl::MakeConstSpan(dims));
    while (words >> word) EXPECT_TRUE(absl::SimpleAtof(word, &entry.values.emplace_back())) << line;
    EXPECT_EQ(static_cast<int64_t>(entry.values.size()), entry.shape.num_elements()) << line;
  }
  EXPECT_FALSE(arrays.empty()) << "testdata/keras_values.txt has no case " << name;
  return arrays;
}

void ExpectNear(const Tensor& actual, const KerasArray& expected, const std::string& what,
                float tolerance) {
  ASSERT_EQ(actual.dtype(), kFloat32) << what;
  ASSERT_EQ(actual.shape(), expected.shape) << what;
  const auto values = actual.Elements<float>();
  for (size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_NEAR(values[i], expected.values[i], tolerance * (1 + std::abs(expected.values[i])))
        << what << ", value " << i;
  }
}

void ExpectNear(const Tensor& actual, const Tensor& expected, const std::string& what,
                float tolerance) {
  const auto values = expected.Elements<float>();
  ExpectNear(actual, KerasArray{expected.shape(), {values.begin(), values.end()}}, what, tolerance);
}

absl::StatusOr<std::unique_ptr<TestModel>> TestModel::Create(LayerPtr model,
                                                             const std::vector<Tensor>& examples,
                                                             TestModelOptions options) {
  auto test = std::unique_ptr<TestModel>(new TestModel());
  test->options_ = options;
  TANDEM_RETURN_IF_ERROR(test->Build(*model, examples));
  return test;
}

absl::Status TestModel::Build(const Layer& model, const std::vector<Tensor>& examples) {
  ReplicaBuilderOptions mirrored;
  for (int i = 0; i < options_.replicas; ++i) {
    mirrored.devices.push_back(absl::StrCat("/device:", options_.device, ":", i));
  }
  TANDEM_ASSIGN_OR_RETURN(builder_, NewMirroredBuilder(mirrored));
  const Scope host = builder_->host_scope();
  const Output step = Placeholder(host, "step", kInt64, Shape());
  TANDEM_RETURN_IF_ERROR(builder_->BeginStep("train", options_.numbered_steps ? step : Output()));
  const auto replica_fn = [&](const ReplicaContext& context) -> absl::Status {
    Replica& replica = replicas_.emplace_back();
    const std::string suffix = absl::StrCat("_", context.replica());
    std::vector<Output> xs;
    for (size_t i = 0; i < examples.size(); ++i) {
      replica.inputs.push_back(Placeholder(host, absl::StrCat("input_", i, suffix),
                                           examples[i].dtype(), BatchOf(examples[i].shape())));
      if (examples[i].dtype() == kFloat32) xs.push_back(replica.inputs.back());
    }
    num_float_inputs_ = xs.size();
    CallOptions call;
    call.training = options_.training;
    call.fused = options_.fused;
    call.seed = options_.seed;
    TANDEM_ASSIGN_OR_RETURN(replica.outputs, model.Call(context, "", replica.inputs, call));
    replica.weights =
        Placeholder(host, absl::StrCat("weights", suffix), kFloat32, replica.outputs.shape());
    const Output loss = context.scope().Call("Mul", {replica.outputs, replica.weights});
    trained_.clear();
    std::vector<Output> variables;
    for (StrategyVariable* variable : builder_->variables()) {
      if (!variable->spec().trainable) continue;
      trained_.push_back(variable);
      variables.push_back(context.Read(*variable));
    }
    xs.insert(xs.begin(), variables.begin(), variables.end());
    TANDEM_RETURN_IF_ERROR(context.scope().status());
    TANDEM_ASSIGN_OR_RETURN(replica.gradients, AddGradients(builder_->graph(), {loss}, xs));
    return absl::OkStatus();
  };
  TANDEM_RETURN_IF_ERROR(builder_->Run(replica_fn));
  TANDEM_ASSIGN_OR_RETURN(Node* const done, builder_->EndStep());
  done_ = done->name();
  for (const StrategyVariable* variable : builder_->variables()) {
    const VariableSpec& spec = variable->spec();
    const Output value =
        Placeholder(host, "value/" + spec.name, spec.dtype, PartialShape(spec.shape));
    std::vector<Node*> assigned;
    for (int copy = 0; copy < variable->num_copies(); ++copy) {
      const Scope scope = builder_->CopyScope(copy);
      scope.WithOpName(absl::StrCat("read_", copy, "/", spec.name))
          .Call("ReadVariableOp", {variable->handle(copy)}, {{"dtype", spec.dtype}});
      assigned.push_back(scope.AddNode("AssignVariableOp", {variable->handle(copy), value}));
    }
    TANDEM_RETURN_IF_ERROR(host.status());
    host.WithControlDependencies(assigned).WithOpName("set/" + spec.name).AddNode("NoOp", {});
  }
  TANDEM_RETURN_IF_ERROR(host.status());
  SessionOptions session;
  TANDEM_ASSIGN_OR_RETURN(session.devices,
                          DeviceSet::Create({{options_.device, options_.replicas}}));
  session.collective_groups = {{kReplicaGroup, options_.replicas}};
  TANDEM_ASSIGN_OR_RETURN(session_, Session::Create(*builder_->graph(), session));
  return session_->Run({}, {}, {builder_->initializer()}).status();
}

absl::StatusOr<TestModel::Result> TestModel::Run(const std::vector<std::vector<Tensor>>& inputs,
                                                 int64_t step) {
  Session::Feeds feeds = {{"step", Tensor::Scalar(step)}};
  std::vector<std::string> fetches;
  int64_t at = 0;  // Outputs of the replicas before.
  for (size_t r = 0; r < replicas_.size(); ++r) {
    Replica& replica = replicas_[r];
    for (size_t i = 0; i < replica.inputs.size(); ++i) {
      feeds.emplace_back(replica.inputs[i].name(), inputs[r][i]);
    }
    PartialShape shape = replica.outputs.shape();
    if (shape.has_rank() && shape.rank() > 0 && shape.dim(0) < 0) {
      shape.SetDim(0, inputs[r][0].shape().dim(0));
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape known, shape.ToShape());
    Tensor weights(kFloat32, known);
    for (float& weight : weights.MutableElements<float>()) weight = LossWeight(at++);
    feeds.emplace_back(replica.weights.name(), weights);
    fetches.push_back(replica.outputs.name());
    for (const Gradient& gradient : replica.gradients) {
      if (!gradient.exists()) continue;
      fetches.push_back(gradient.values.name());
      if (gradient.is_sparse()) fetches.push_back(gradient.indices.name());
    }
  }
  RunOptions run;
  run.timeout = absl::Seconds(60);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched,
                          session_->Run(run, feeds, fetches, {done_}, nullptr));
  Result result;
  size_t next = 0;
  for (const Replica& replica : replicas_) {
    result.outputs.push_back(fetched[next++]);
    std::vector<Tensor>& of_inputs = result.input_gradients.emplace_back(num_float_inputs_);
    for (size_t i = 0; i < replica.gradients.size(); ++i) {
      const Gradient& gradient = replica.gradients[i];
      if (!gradient.exists()) continue;
      const Tensor& values = fetched[next++];
      const Tensor* const indices = gradient.is_sparse() ? &fetched[next++] : nullptr;
      if (i >= trained_.size()) {
        of_inputs[i - trained_.size()] = values;
        continue;
      }
      Tensor& sum = result.gradients[trained_[i]->name()];
      if (!sum.is_valid()) sum = Tensor::Zeros(kFloat32, trained_[i]->spec().shape);
      AddTo(sum, values, indices);
    }
  }
  return result;
}

absl::Status TestModel::SetVariables() {
  for (const StrategyVariable* variable : builder_->variables()) {
    const std::string& name = variable->name();
    TANDEM_RETURN_IF_ERROR(
        session_
            ->Run({{"value/" + name, VariableValue(name, variable->spec().shape)}}, {},
                  {"set/" + name})
            .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TestModel::Read(const std::string& name, int copy) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> value,
                          session_->Run({}, {absl::StrCat("read_", copy, "/", name)}));
  return value[0].Clone();
}

std::vector<std::string> TestModel::VariableNames() const {
  std::vector<std::string> names;
  for (const StrategyVariable* variable : builder_->variables()) names.push_back(variable->name());
  return names;
}

std::vector<std::string> TestModel::TrainedNames() const {
  std::vector<std::string> names;
  for (const StrategyVariable* variable : trained_) names.push_back(variable->name());
  return names;
}

bool TestModel::IsSparse(const std::string& name) const {
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (trained_[i]->name() == name) return replicas_[0].gradients[i].is_sparse();
  }
  ADD_FAILURE() << name << " is not trained";
  return false;
}

absl::Status ErrorOf(LayerPtr model, const std::vector<Tensor>& inputs, TestModelOptions options) {
  return TestModel::Create(std::move(model), inputs, options).status();
}

absl::Status ErrorOf(LayerPtr model, DataType dtype, const PartialShape& shape) {
  const absl::StatusOr<std::unique_ptr<StrategyBuilder>> builder =
      NewMirroredBuilder({.devices = {"/device:CPU:0"}});
  if (!builder.ok()) return builder.status();
  return (*builder)->Run([&](const ReplicaContext& context) {
    const Output input = Placeholder(context.scope(), "input", dtype, shape);
    return model->Call(context, "", {input}, {}).status();
  });
}

}  // namespace tandem::nn
