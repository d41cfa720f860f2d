// What a batch of 64 MNIST images costs: gathered from floats, from bytes that are scaled, put
// together from elements, and parsed from a file of tf.Examples, one by one or as a batch.
//
//   bazel run //runtime/input:input_benchmark
#include <benchmark/benchmark.h>

#include "runtime/input/dataset.h"
#include "runtime/input/functions.h"
#include "runtime/input/write_records.h"

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

// 10,000 images of float32 and their labels.
absl::StatusOr<std::string> WriteExamples() {
  const std::string path = TemporaryPath("/tmp/input_benchmark");
  const auto iterator = Floats().Take(10000).Open();
  if (!iterator.ok()) return iterator.status();
  const auto written =
      WriteRecords(**iterator, PosixFileSystem(), path, {.features = {"image", "label"}});
  return written.ok() ? absl::StatusOr<std::string>(path) : written.status();
}

template <bool kBatched>
void BM_Examples(benchmark::State& state) {
  const absl::StatusOr<std::string> path = WriteExamples();
  if (!path.ok()) return state.SkipWithError(path.status().ToString().c_str());
  const std::vector<FeatureSpec> features = {FeatureSpec::Fixed("image", kFloat32, {28, 28, 1}),
                                             FeatureSpec::Fixed("label", kInt64, {})};
  const Dataset records = Dataset::Records({*path}).Repeat();
  const auto iterator = kBatched ? records.Batch(64).ParseExamples(features).Open()
                                 : records.ParseExamples(features).Batch(64).Open();
  if (!iterator.ok()) return state.SkipWithError(iterator.status().ToString().c_str());
  for (auto _ : state) {
    const absl::StatusOr<MaybeElement> batch = (*iterator)->Next();
    if (!batch.ok()) return state.SkipWithError(batch.status().ToString().c_str());
    benchmark::DoNotOptimize((**batch)[0].data());
  }
  PosixFileSystem()->Remove(*path).IgnoreError();
}
BENCHMARK_TEMPLATE(BM_Examples, false);
BENCHMARK_TEMPLATE(BM_Examples, true);

}  // namespace
}  // namespace tandem::data

BENCHMARK_MAIN();
