// What fusion saves. Each benchmark runs with no pass, with all, and with all but one:
//
//   Cnn       a training step of the CNN of tools/demo: batch 64, Adam
//   Mlp       a training step of 784-512-512-10, batch 64, momentum
//   Predict   the CNN forward alone
//   Gelu      x Φ(x) by its formula with tanh, 9 ops, on that many numbers
//   Updates   Adam on that many variables of that many numbers
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "core/passes/optimize.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

Tensor Numbers(const Shape& shape, float scale) {
  Tensor tensor(kFloat32, shape);
  uint32_t state = 1;
  for (float& x : tensor.MutableElements<float>()) {
    state = state * 1664525u + 1013904223u;
    x = (static_cast<float>(state >> 8) / (1 << 23) - 1) * scale;
  }
  return tensor;
}

// A model under construction: its variables, and what initializes and updates them.
class Model {
 public:
  Scope s = Scope::NewRoot();

  Output Variable(const Shape& shape, float scale) {
    const Output v = s.Call(
        "VarHandleOp", {},
        {{"dtype", kFloat32}, {"shape", shape}, {"shared_name", absl::StrCat("v", inits_.size())}});
    inits_.push_back(s.AddNode("AssignVariableOp", {v, Numbers(shape, scale)}));
    return v;
  }
  Output Trained(const Shape& shape) {
    handles_.push_back(Variable(shape, 0.1f));
    values_.push_back(s.Call("ReadVariableOp", {handles_.back()}, {{"dtype", kFloat32}}));
    return values_.back();
  }
  Output Dense(const Output& x, int64_t inputs, int64_t units) {
    const Output product = s.Call("MatMul", {x, Trained({inputs, units})});
    return s.Call("BiasAdd", {product, Trained({units})});
  }
  // The CNN's logits; the input is "x".
  Output Cnn() {
    Output y = Placeholder("x", {PartialShape::kUnknownDim, 28, 28, 1});
    y = s.Call("Conv2D", {y, Trained({3, 3, 1, 64})},
               {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "VALID"}});
    y = s.Call("Relu", {s.Call("BiasAdd", {y, Trained({64})})});
    const std::vector<int64_t> two = {1, 2, 2, 1};
    y = s.Call("MaxPool", {y}, {{"ksize", two}, {"strides", two}, {"padding", "VALID"}});
    y = s.Call("Reshape", {y, {-1, 13 * 13 * 64}});
    y = s.Call("Relu", {Dense(y, 13 * 13 * 64, 128)});
    return s.WithOpName("logits").Call("Identity", {Dense(y, 128, 10)});
  }
  Output Mlp() {
    Output y = Placeholder("x", {PartialShape::kUnknownDim, 784});
    y = s.Call("Relu", {Dense(y, 784, 512)});
    y = s.Call("Relu", {Dense(y, 512, 512)});
    return Dense(y, 512, 10);
  }
  // "train" updates the variables from the loss of the logits with "label".
  void Train(const Output& logits, bool adam) {
    const Output label = s.WithOpName("label").Call(
        "Placeholder", {},
        {{"dtype", kInt32}, {"shape", PartialShape({PartialShape::kUnknownDim})}});
    const Output loss = s.WithOpName("loss").Call(
        "Mean", {s.Call("SparseSoftmaxCrossEntropyWithLogits", {logits, label}), 0});
    const auto gradients = AddGradients(s.graph(), {loss}, values_);
    if (!gradients.ok()) return s.UpdateStatus(gradients.status());
    std::vector<Node*> updates;
    for (size_t i = 0; i < handles_.size(); ++i) {
      updates.push_back(Update(handles_[i], (*gradients)[i].values, values_[i].shape(), adam));
    }
    s.WithControlDependencies(updates).WithOpName("train").AddNode("NoOp", {});
  }
  Node* Update(const Output& handle, const Output& gradient, const PartialShape& shape, bool adam) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    const Shape slot{absl::MakeConstSpan(dims)};
    if (!adam) {
      return s.AddNode("ResourceApplyMomentum",
                       {handle, Variable(slot, 0), 0.001f, gradient, 0.9f});
    }
    const Output m = Variable(slot, 0);
    const Output v = Variable(slot, 0);
    // As the optimizers of strategies/ have it.
    const Output step = s.Constant(100.0f);
    return s.AddNode("ResourceApplyAdam",
                     {handle, m, v, s.Call("Pow", {0.9f, step}), s.Call("Pow", {0.999f, step}),
                      1e-4f, 0.9f, 0.999f, 1e-7f, gradient});
  }
  Output Placeholder(const std::string& name, const PartialShape& shape) {
    return s.WithOpName(name).Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", shape}});
  }
  std::vector<Node*> inits() const { return inits_; }

 private:
  std::vector<Node*> inits_;
  std::vector<Output> handles_;
  std::vector<Output> values_;
};

// Runs fetches and targets with these passes.
void Measure(benchmark::State& state, Model& model, const std::string& passes,
             const Session::Feeds& feeds, const std::vector<std::string>& fetches,
             const std::vector<std::string>& targets) {
  model.s.WithControlDependencies(model.inits()).WithOpName("init").AddNode("NoOp", {});
  SessionOptions options;
  absl::Status status = model.s.status();
  status.Update(SwitchPasses(passes, &options.optimize));
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  auto session = *Session::Create(*model.s.graph(), options);
  status.Update(session->Run({}, {}, {"init"}).status());
  RunSignature signature{{}, fetches, targets};
  std::vector<Tensor> values;
  for (const auto& [name, value] : feeds) {
    signature.feeds.push_back(name);
    values.push_back(value);
  }
  auto callable = session->MakeCallable(signature);
  status.Update(callable.status());
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  for (auto _ : state) {
    const auto result = (*callable)->Run(values);
    if (!result.ok()) return state.SkipWithError(result.status().ToString().c_str());
    benchmark::DoNotOptimize(result->data());
  }
}

Tensor Labels(int64_t batch) {
  Tensor labels(kInt32, Shape({batch}));
  int32_t next = 0;
  for (int32_t& label : labels.MutableElements<int32_t>()) label = next++ % 10;
  return labels;
}

constexpr int64_t kBatch = 64;

void Cnn(benchmark::State& state, const std::string& passes) {
  Model model;
  model.Train(model.Cnn(), /*adam=*/true);
  Measure(state, model, passes, {{"x", Numbers({kBatch, 28, 28, 1}, 1)}, {"label", Labels(kBatch)}},
          {"loss"}, {"train"});
}

void Mlp(benchmark::State& state, const std::string& passes) {
  Model model;
  model.Train(model.Mlp(), /*adam=*/false);
  Measure(state, model, passes, {{"x", Numbers({kBatch, 784}, 1)}, {"label", Labels(kBatch)}},
          {"loss"}, {"train"});
}

void Predict(benchmark::State& state, const std::string& passes) {
  Model model;
  model.Cnn();
  Measure(state, model, passes, {{"x", Numbers({kBatch, 28, 28, 1}, 1)}}, {"logits"}, {});
}

void Gelu(benchmark::State& state, const std::string& passes) {
  Model model;
  Scope& s = model.s;
  const Output x = model.Placeholder("x", {PartialShape::kUnknownDim});
  const Output cube = s.Call("Mul", {s.Call("Square", {x}), x});
  const Output inner =
      s.Call("Mul", {s.Call("AddV2", {x, s.Call("Mul", {cube, 0.044715f})}), 0.7978845608f});
  const Output gate = s.Call("AddV2", {s.Call("Tanh", {inner}), 1.0f});
  s.WithOpName("y").Call("Mul", {s.Call("Mul", {x, 0.5f}), gate});
  const Tensor numbers = Numbers({state.range(0)}, 3);
  Measure(state, model, passes, {{"x", numbers}}, {"y"}, {});
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Updates(benchmark::State& state, const std::string& passes) {
  Model model;
  std::vector<Node*> updates;
  for (int64_t i = 0; i < state.range(0); ++i) {
    const Shape shape({state.range(1)});
    const Output gradient = model.s.Constant(Numbers(shape, 1));
    updates.push_back(model.Update(model.Variable(shape, 1), gradient, PartialShape(shape), true));
  }
  model.s.WithControlDependencies(updates).WithOpName("train").AddNode("NoOp", {});
  Measure(state, model, passes, {}, {}, {"train"});
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

#define TANDEM_MODEL_BENCHMARK_(Name)                                                    \
  BENCHMARK_CAPTURE(Name, no_pass, "none")->UseRealTime();                               \
  BENCHMARK_CAPTURE(Name, all_passes, "all")->UseRealTime();                             \
  BENCHMARK_CAPTURE(Name, without_bias, "all,-fuse_bias_and_activation")->UseRealTime(); \
  BENCHMARK_CAPTURE(Name, without_elementwise, "all,-fuse_elementwise")->UseRealTime();  \
  BENCHMARK_CAPTURE(Name, without_updates, "all,-fuse_updates")->UseRealTime()
TANDEM_MODEL_BENCHMARK_(Cnn);
TANDEM_MODEL_BENCHMARK_(Mlp);
TANDEM_MODEL_BENCHMARK_(Predict);
#undef TANDEM_MODEL_BENCHMARK_

BENCHMARK_CAPTURE(Gelu, no_pass, "none")->RangeMultiplier(8)->Range(64, 1 << 21)->UseRealTime();
BENCHMARK_CAPTURE(Gelu, fused, "all")->RangeMultiplier(8)->Range(64, 1 << 21)->UseRealTime();
#define TANDEM_UPDATE_BENCHMARK_(name, passes)      \
  BENCHMARK_CAPTURE(Updates, name, passes)          \
      ->ArgsProduct({{10, 100}, {64, 1000, 20000}}) \
      ->UseRealTime()
TANDEM_UPDATE_BENCHMARK_(no_pass, "none");
TANDEM_UPDATE_BENCHMARK_(merged, "all,-fuse_updates");
TANDEM_UPDATE_BENCHMARK_(fused, "all");
#undef TANDEM_UPDATE_BENCHMARK_

}  // namespace
}  // namespace tandem

BENCHMARK_MAIN();
