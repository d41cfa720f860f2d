// Transposition and gather beside memcpy of the same bytes, on one thread.
//
// Workloads
//   Copy/BYTES                    memcpy
//   Transpose/BATCH/ROWS/COLUMNS  [batch, rows, columns] of float with perm (0, 2, 1)
//   TransposeBytes/SIZE           a 1024×1024 matrix of elements of SIZE bytes
//   NhwcToNchw/CHANNELS           [16, 56, 56, channels] of float
//   Gather/WIDTH                  65,536 random rows of WIDTH floats out of 100,000
//   Concat/WIDTH                  two [16384, WIDTH] of float along the last axis
#include <cstring>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/array/rows.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

void ReportBytes(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Copy(benchmark::State& state) {
  std::vector<char> from(static_cast<size_t>(state.range(0)), 1);
  std::vector<char> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  ReportBytes(state, state.range(0));
}
BENCHMARK(Copy)->Arg(1 << 18)->Arg(1 << 22)->Arg(12845056)->Arg(1 << 25);

void RunTranspose(benchmark::State& state, DataType dtype, int64_t batch, int64_t rows,
                  int64_t columns) {
  const int64_t bytes = batch * rows * columns * static_cast<int64_t>(DataTypeSize(dtype));
  std::vector<char> from(static_cast<size_t>(bytes), 1);
  std::vector<char> to(from.size());
  InlineRunner parallel;
  for (auto _ : state) {
    CopyStrided(parallel, dtype, to.data(), from.data(),
                {{batch, rows * columns, rows * columns}, {columns, rows, 1}, {rows, 1, columns}});
    benchmark::ClobberMemory();
  }
  ReportBytes(state, bytes);
}

void Transpose(benchmark::State& state) {
  RunTranspose(state, kFloat32, state.range(0), state.range(1), state.range(2));
}
BENCHMARK(Transpose)
    ->Args({1, 256, 256})
    ->Args({1, 1024, 1024})
    ->Args({1, 1000, 1000})
    ->Args({64, 128, 64})
    ->Args({1, 1 << 20, 8});

void TransposeBytes(benchmark::State& state) {
  const DataType dtype = state.range(0) == 1   ? kInt8
                         : state.range(0) == 2 ? kBfloat16
                         : state.range(0) == 4 ? kFloat32
                         : state.range(0) == 8 ? kFloat64
                                               : kComplex128;
  RunTranspose(state, dtype, 1, 1024, 1024);
}
BENCHMARK(TransposeBytes)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16);

void NhwcToNchw(benchmark::State& state) {
  RunTranspose(state, kFloat32, 16, 56 * 56, state.range(0));
}
BENCHMARK(NhwcToNchw)->Arg(3)->Arg(64);

void Gather(benchmark::State& state) {
  constexpr int64_t kRows = 65536;
  constexpr int64_t kTable = 100000;
  const int64_t width = state.range(0);
  std::vector<float> table(static_cast<size_t>(kTable * width), 1);
  std::vector<float> to(static_cast<size_t>(kRows * width));
  std::vector<int64_t> rows(kRows);
  std::mt19937 random(1);
  for (int64_t& row : rows) row = static_cast<int64_t>(random() % kTable);
  for (auto _ : state) {
    GatherRows(kFloat32, to.data(), table.data(), width, rows.data(), kRows);
    benchmark::ClobberMemory();
  }
  ReportBytes(state, kRows * width * int64_t{sizeof(float)});
}
BENCHMARK(Gather)->Arg(1)->Arg(4)->Arg(16)->Arg(64)->Arg(256);

void Concat(benchmark::State& state) {
  constexpr int64_t kRows = 16384;
  const int64_t width = state.range(0);
  std::vector<float> from(static_cast<size_t>(kRows * width), 1);
  std::vector<float> to(from.size() * 2);
  InlineRunner parallel;
  for (auto _ : state) {
    for (int64_t i = 0; i < 2; ++i) {
      CopyStrided(parallel, kFloat32, to.data() + i * width, from.data(),
                  {{kRows, 2 * width, width}, {width, 1, 1}});
    }
    benchmark::ClobberMemory();
  }
  ReportBytes(state, 2 * kRows * width * int64_t{sizeof(float)});
}
BENCHMARK(Concat)->Arg(1)->Arg(4)->Arg(10)->Arg(64);

}  // namespace
}  // namespace tandem::array

BENCHMARK_MAIN();
