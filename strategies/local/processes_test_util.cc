#include "strategies/local/processes_test_util.h"

#include <cstring>

#include "core/op/gradients.h"

namespace tandem::testing {
namespace {

Tensor Numbers(const std::vector<float>& values) {
  return Tensor::Vector<float>(absl::MakeConstSpan(values));
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

}  // namespace

Output Placeholder(const Scope& scope, const std::string& name, DataType dtype,
                   PartialShape shape) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", dtype}, {"shape", std::move(shape)}});
}

std::vector<float> Floats(const Tensor& tensor) {
  const auto values = tensor.Elements<float>();
  return {values.begin(), values.end()};
}

void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(SameBits(got[i], expected[i]))
        << i << ": " << got[i].DebugString() << " and " << expected[i].DebugString();
  }
}

std::vector<Tensor> StateOf(LocalRunner& runner) {
  const auto state = runner.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  std::vector<Tensor> values;
  if (!state.ok()) return values;
  for (const auto& [name, value] : *state) values.push_back(value);
  return values;
}

float ValueOf(Job& job, int process, const std::string& name) {
  const auto value = job.process(process).runner->ReadVariable(name);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? value->ScalarValue<float>() : -12345.f;
}

VariableSpec ScalarVariable(const std::string& name, Synchronization synchronization,
                            Aggregation aggregation) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = Shape({});
  spec.initializer = [](const Scope& scope) { return scope.Constant(0.0f); };
  spec.trainable = false;
  spec.synchronization = synchronization;
  spec.aggregation = aggregation;
  return spec;
}

Program Step(std::function<absl::Status(const ReplicaContext& replica, Output part)> replica_fn,
             std::function<absl::Status(StrategyBuilder& builder, RunSignature& signature)> end) {
  return [=](StrategyBuilder& builder) -> absl::StatusOr<RunSignature> {
    RunSignature signature;
    const Scope host = builder.host_scope();
    const Output step = Placeholder(host, "step", kInt64, PartialShape({}));
    TANDEM_RETURN_IF_ERROR(builder.BeginStep("test", step));
    TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) {
      signature.feeds.push_back(absl::StrCat("part/replica_", replica.replica()));
      const Output part = Placeholder(host, signature.feeds.back(), kFloat32, PartialShape({-1}));
      return replica_fn(replica, part);
    }));
    signature.feeds.push_back("step");
    TANDEM_RETURN_IF_ERROR(end(builder, signature));
    TANDEM_ASSIGN_OR_RETURN(const Node* done, builder.EndStep());
    signature.targets = {done->name()};
    return signature;
  };
}

StepInput InputOf(const std::vector<float>& batch, int64_t step) {
  StepInput input;
  input.step = step;
  input.batch = {Numbers(batch)};
  input.values = {Tensor::Scalar<int64_t>(step)};
  return input;
}

Output SumOf(const Scope& scope, const Output& part) {
  return scope.Call("Sum", {part, scope.Constant(0)});
}

absl::StatusOr<RunSignature> TrainingStep(StrategyBuilder& builder) {
  constexpr float kRate = 1.0f / 32;
  const Scope host = builder.host_scope();
  VariableSpec spec;
  spec.name = "weights";
  spec.shape = Shape({3});
  spec.initializer = [](const Scope& scope) { return scope.Constant({1.0f, -2.0f, 3.0f}); };
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* weights, builder.Variable(spec));
  spec.name = "table";
  spec.shape = Shape({5, 2});
  spec.initializer = [](const Scope& scope) {
    return scope.Constant(Tensor::FromValues<float>(Shape({5, 2}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 0}));
  };
  TANDEM_ASSIGN_OR_RETURN(const StrategyVariable* table, builder.Variable(spec));
  TANDEM_RETURN_IF_ERROR(builder.BeginStep("train"));
  RunSignature signature;
  std::vector<std::string> feeds_of_rows;
  PerReplica linear;
  PerReplica counts;
  std::vector<PerReplicaGradient> gradients(2);
  TANDEM_RETURN_IF_ERROR(builder.Run([&](const ReplicaContext& replica) -> absl::Status {
    const Scope& scope = replica.scope();
    signature.feeds.push_back(absl::StrCat("x/replica_", replica.replica()));
    feeds_of_rows.push_back(absl::StrCat("rows/replica_", replica.replica()));
    const Output x = Placeholder(host, signature.feeds.back(), kFloat32, PartialShape({-1, 3}));
    const Output rows = Placeholder(host, feeds_of_rows.back(), kInt32, PartialShape({-1}));
    const Output w = replica.Read(*weights);
    const Output t = replica.Read(*table);
    const Output axis = scope.Constant({1});
    const Output sums =
        scope.Call("AddV2", {scope.Call("Sum", {scope.Call("Mul", {x, w}), axis}),
                             scope.Call("Sum", {scope.Call("GatherV2", {t, rows, 0}), axis})});
    const Output loss = SumOf(scope, scope.Call("Square", {sums}));
    TANDEM_RETURN_IF_ERROR(scope.status());
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> own,
                            AddGradients(builder.graph(), {loss}, {w, t}));
    EXPECT_TRUE(own[1].is_sparse());
    for (size_t i = 0; i < 2; ++i) gradients[i].push_back(own[i]);
    linear.push_back(SumOf(scope, sums));
    counts.push_back(scope.Call("Size", {rows}));
    return scope.status();
  }));
  signature.feeds.insert(signature.feeds.end(), feeds_of_rows.begin(), feeds_of_rows.end());
  TANDEM_ASSIGN_OR_RETURN(const auto reduced, builder.ReduceGradients(gradients));
  EXPECT_FALSE(reduced[0][0].is_sparse());
  EXPECT_TRUE(reduced[1][0].is_sparse());
  TANDEM_RETURN_IF_ERROR(builder.Update(
      *weights, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Output gradient = reduced[0][static_cast<size_t>(copy)].values;
        return scope.AddNode("AssignSubVariableOp", {handle, scope.Call("Mul", {gradient, kRate})});
      }));
  TANDEM_RETURN_IF_ERROR(builder.Update(
      *table, [&](const Scope& scope, Output handle, int copy) -> absl::StatusOr<Node*> {
        const Gradient& gradient = reduced[1][static_cast<size_t>(copy)];
        return scope.AddNode("ResourceScatterAdd", {handle, gradient.indices,
                                                    scope.Call("Mul", {gradient.values, -kRate})});
      }));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Output> results,
                          builder.ReduceAllToHost(Reduction::kSum, {linear, counts}));
  for (const Output& result : results) signature.fetches.push_back(result.name());
  TANDEM_ASSIGN_OR_RETURN(const Node* done, builder.EndStep());
  signature.targets = {done->name()};
  return signature;
}

StepInput TrainingInput(int64_t size) {
  Tensor x(kFloat32, Shape({size, 3}));
  Tensor rows(kInt32, Shape({size}));
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      x.MutableElements<float>()[static_cast<size_t>(i * 3 + j)] =
          static_cast<float>((i * 5 + j * 3) % 4 - 1);
    }
    rows.MutableElements<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 3 % 5);
  }
  StepInput input;
  input.batch = {x, rows};
  return input;
}

}  // namespace tandem::testing
