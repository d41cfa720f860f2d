// What a batch of 64 MNIST images costs: gathered from floats, from bytes that are scaled, and put
// together from elements.
//
//   bazel run //runtime/input:input_benchmark
#include <benchmark/benchmark.h>

#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"

namespace tandem::data {
namespace {

const bool registered = RegisterMapFunction(
    "benchmark_same",
    [](const MapContext&, Element element) { return absl::StatusOr<Element>(std::move(element)); });

void Read(const Dataset& dataset, benchmark::State& state) {
  auto iterator = dataset.Repeat().Batch(64).Open();
  if (!iterator.ok()) return state.SkipWithError(iterator.status().ToString().c_str());
  for (auto _ : state) {
    absl::StatusOr<MaybeElement> batch = (*iterator)->Next();
    if (!batch.ok()) return state.SkipWithError(batch.status().ToString().c_str());
    benchmark::DoNotOptimize((**batch)[0].data());
  }
}

Dataset Floats() {
  return Dataset::FromTensors(
      {Tensor::Zeros(kFloat32, Shape({60000, 28, 28, 1})), Tensor::Zeros(kInt64, Shape({60000}))});
}

void BM_Floats(benchmark::State& state) { Read(Floats().Shuffle(60000, 1), state); }
BENCHMARK(BM_Floats);

void BM_Mnist(benchmark::State& state) {
  Read(Mnist("tools/datasets/mnist").Shuffle(60000, 1), state);
}
BENCHMARK(BM_Mnist);

void BM_Elements(benchmark::State& state) {
  Read(Floats().Shuffle(60000, 1).Map("benchmark_same"), state);
}
BENCHMARK(BM_Elements);

}  // namespace
}  // namespace tandem::data

BENCHMARK_MAIN();
