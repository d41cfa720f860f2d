// Kernels alone, on one thread: what an element costs.
//
//   Copy        memcpy of 1M floats, for comparison: what memory allows
//   AddV2       1M floats, a row or a column broadcast over 1024 x 1024, and scalars
//   Functions   of 1M floats
//   Sum         over each axis of 1024 x 1024 floats
#include <cstring>

#include "benchmark/benchmark.h"
#include "kernels/math/prepared_op.h"

namespace tandem::testing {
namespace {

constexpr int64_t kSide = 1024;

Tensor Ramp(Shape shape) {
  Tensor tensor(kFloat32, std::move(shape));
  float value = -2;
  for (float& x : tensor.MutableElements<float>()) {
    x = value;
    value = value > 2 ? -2 : value + 0.001f;
  }
  return tensor;
}

void RunFor(benchmark::State& state, const char* op, const std::vector<Tensor>& inputs,
            AttrMap attrs = {}) {
  InlineRunner runner;
  auto prepared = PreparedOp::Make(op, inputs, std::move(attrs), &runner);
  if (!prepared.ok()) {
    state.SkipWithError(std::string(prepared.status().message()).c_str());
    return;
  }
  for (auto _ : state) {
    auto output = (*prepared)->Run(inputs);
    benchmark::DoNotOptimize(output->data());
  }
  state.SetItemsProcessed(state.iterations() * inputs[0].num_elements());
}

void Copy(benchmark::State& state) {
  const Tensor x = Ramp({kSide, kSide});
  for (auto _ : state) {
    Tensor y(kFloat32, x.shape());
    std::memcpy(y.mutable_data(), x.data(), x.num_bytes());
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * x.num_elements());
}
BENCHMARK(Copy);

void AddEqual(benchmark::State& state) {
  RunFor(state, "AddV2", {Ramp({kSide, kSide}), Ramp({kSide, kSide})});
}
void AddRow(benchmark::State& state) {
  RunFor(state, "AddV2", {Ramp({kSide, kSide}), Ramp({kSide})});
}
void AddColumn(benchmark::State& state) {
  RunFor(state, "AddV2", {Ramp({kSide, kSide}), Ramp({kSide, 1})});
}
void AddShortRow(benchmark::State& state) {
  RunFor(state, "AddV2", {Ramp({kSide * kSide / 8, 8}), Ramp({8})});
}
void AddScalar(benchmark::State& state) {
  RunFor(state, "AddV2", {Ramp({kSide, kSide}), Ramp({})});
}
void AddScalars(benchmark::State& state) { RunFor(state, "AddV2", {Ramp({}), Ramp({})}); }
BENCHMARK(AddEqual);
BENCHMARK(AddRow);
BENCHMARK(AddColumn);
BENCHMARK(AddShortRow);
BENCHMARK(AddScalar);
BENCHMARK(AddScalars);

void Function(benchmark::State& state, const char* op) {
  RunFor(state, op, {Ramp({kSide, kSide})});
}
BENCHMARK_CAPTURE(Function, Exp, "Exp");
BENCHMARK_CAPTURE(Function, Tanh, "Tanh");
BENCHMARK_CAPTURE(Function, Sigmoid, "Sigmoid");
BENCHMARK_CAPTURE(Function, Sin, "Sin");
BENCHMARK_CAPTURE(Function, Sqrt, "Sqrt");
BENCHMARK_CAPTURE(Function, Erf, "Erf");

void CastTo(benchmark::State& state, DataType to) {
  RunFor(state, "Cast", {Ramp({kSide, kSide})}, {{"DstT", to}});
}
BENCHMARK_CAPTURE(CastTo, Float16, kFloat16);
BENCHMARK_CAPTURE(CastTo, Bfloat16, kBfloat16);
BENCHMARK_CAPTURE(CastTo, Int32, kInt32);

void Sum(benchmark::State& state, std::vector<int32_t> axes) {
  RunFor(state, "Sum", {Ramp({kSide, kSide}), Tensor::Vector<int32_t>(absl::MakeConstSpan(axes))});
}
BENCHMARK_CAPTURE(Sum, Rows, {1});
BENCHMARK_CAPTURE(Sum, Columns, {0});
BENCHMARK_CAPTURE(Sum, All, {0, 1});
void ShortColumns(benchmark::State& state) {
  RunFor(state, "Sum", {Ramp({kSide * kSide / 8, 8}), Tensor::Vector<int32_t>({0})});
}
void ShortRows(benchmark::State& state) {
  RunFor(state, "Sum", {Ramp({kSide * kSide / 8, 8}), Tensor::Vector<int32_t>({1})});
}
BENCHMARK(ShortColumns);
BENCHMARK(ShortRows);

}  // namespace
}  // namespace tandem::testing

BENCHMARK_MAIN();
