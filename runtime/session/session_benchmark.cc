// What a run and an op cost beyond their kernels. Aims: 2 µs for a run of one op, 100 ns an op in a
// chain.
//
//   BM_PlainCall       what the rest is compared with: a function of two scalar tensors that adds
//                      them into a fresh one, called through a pointer
//   BM_OneAdd          a run by names: one add of a fed scalar
//   BM_OneAddCallable  the same with names resolved ahead
//   BM_Chain           a chain of scalar adds; items are ops
//   BM_Loop            a loop of TensorFlow 1 counting to 1,000; items are iterations
//   BM_While           a functional loop of 1,000 turns that each add three times
//   BM_Runs            the same turns as runs of a callable
#include "benchmark/benchmark.h"
#include "core/graph/scope.h"
#include "kernels/testing/functions.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

Tensor AddScalars(const Tensor& a, const Tensor& b) {
  Tensor sum(kFloat32, Shape());
  sum.MutableElements<float>()[0] = a.ScalarValue<float>() + b.ScalarValue<float>();
  return sum;
}

void BM_PlainCall(benchmark::State& state) {
  Tensor (*volatile add)(const Tensor&, const Tensor&) = AddScalars;
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) benchmark::DoNotOptimize(add(one, one));
}
BENCHMARK(BM_PlainCall);

void BM_OneAdd(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  auto session = *Session::Create(*s.graph());
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) benchmark::DoNotOptimize(session->Run({{"x", one}}, {"y"}));
}
BENCHMARK(BM_OneAdd);

void BM_OneAddCallable(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  auto session = *Session::Create(*s.graph());
  auto callable = *session->MakeCallable({{"x"}, {"y"}, {}});
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) benchmark::DoNotOptimize(callable->Run({one}));
}
BENCHMARK(BM_OneAddCallable);

void BM_Chain(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  Output y = x;
  for (int i = 0; i < state.range(0); ++i) y = s.Call("AddV2", {y, x});
  s.WithOpName("y").Call("Identity", {y});
  auto session = *Session::Create(*s.graph());
  auto callable = *session->MakeCallable({{"x"}, {"y"}, {}});
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) benchmark::DoNotOptimize(callable->Run({one}));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Chain)->Arg(100)->Arg(1000)->Arg(10000);

void BM_Loop(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const AttrMap frame = {{"frame_name", "loop"}};
  const Output enter = s.Call("Enter", {s.Constant(0)}, frame);
  NodeSpec spec;
  spec.name = "merge";
  spec.op = "Merge";
  spec.inputs = {enter};
  spec.attrs = {{"N", 2}, {"T", kInt32}};
  spec.first_missing_input = 1;
  Node* const merge = *s.graph()->AddNode(spec);
  const Output go_on = s.Call("LoopCond", {s.Call("Less", {merge->output(0), 1000})});
  const std::vector<Output> branches = s.CallMulti("Switch", {merge->output(0), go_on});
  const Output next = s.Call("NextIteration", {s.Call("AddV2", {branches[1], 1})});
  if (!s.graph()->SetInput(merge, 1, next).ok()) state.SkipWithError("the loop does not close");
  s.WithOpName("y").Call("Exit", {branches[0]});
  auto session = *Session::Create(*s.graph());
  auto callable = *session->MakeCallable({{}, {"y"}, {}});
  for (auto _ : state) benchmark::DoNotOptimize(callable->Run({}));
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(BM_Loop);

constexpr int kTurns = 1000;

Output Turn(const Scope& scope, Output value) {
  for (int i = 0; i < 3; ++i) value = scope.Call("AddV2", {value, 1.0f});
  return value;
}

void BM_While(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  const testing::Outputs ends = testing::CountedLoop(
      s, "loop", kTurns, {x},
      [](const Scope& inside, const testing::Outputs& values) -> testing::Outputs {
        return {Turn(inside, values[1])};
      });
  s.WithOpName("y").Call("Identity", {ends[0]});
  auto session = *Session::Create(*s.graph());
  auto callable = *session->MakeCallable({{"x"}, {"y"}, {}});
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) benchmark::DoNotOptimize(callable->Run({one}));
  state.SetItemsProcessed(state.iterations() * kTurns);
}
BENCHMARK(BM_While);

void BM_Runs(benchmark::State& state) {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("y").Call("Identity", {Turn(s, x)});
  auto session = *Session::Create(*s.graph());
  auto callable = *session->MakeCallable({{"x"}, {"y"}, {}});
  const Tensor one = Tensor::Scalar<float>(1);
  for (auto _ : state) {
    for (int i = 0; i < kTurns; ++i) benchmark::DoNotOptimize(callable->Run({one}));
  }
  state.SetItemsProcessed(state.iterations() * kTurns);
}
BENCHMARK(BM_Runs);

}  // namespace
}  // namespace tandem

BENCHMARK_MAIN();
