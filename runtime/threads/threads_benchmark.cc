// What the parts of runtime/threads cost, and a convolution of the MNIST CNN on top of them.
//
//   Token            a scope that takes a run token and gives it back
//   Schedule         a closure through the executor's pool, from call to end
//   Loop/hot         a For of two pieces of 25 us on two threads; the helper still spins
//   Loop/cold        the same after 1 ms of silence: the helper sleeps
//   Region/hot, /cold  the same two for an empty OpenMP region of two members
//   Conv             forward, 64x28x28x1 with 64 filters 3x3, at 1 or 2 threads, from 1 or 2
//   callers
//                    at once; the time that passed, divided by the convolutions of all callers
//
// With libgomp instead: LD_PRELOAD=libgomp.so.1 (Conv only; the check below then says so).
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "benchmark/benchmark.h"
#include "dnnl.hpp"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/openmp.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/thread_pool.h"

extern "C" void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned);
// libgomp's, when it was preloaded; it has a thread count for each calling thread too.
extern "C" __attribute__((weak)) void omp_set_num_threads(int);

namespace tandem {
namespace {

void Work(double microseconds) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

void Token(benchmark::State& state) {
  for (auto _ : state) ScopedRunToken token;
}
BENCHMARK(Token);

void Schedule(benchmark::State& state) {
  for (auto _ : state) {
    std::atomic<bool> ran{false};
    ExecutorPool().Schedule([&] { ran = true; });
    while (!ran) {
    }
  }
}
BENCHMARK(Schedule)->UseRealTime();

// Times `body` alone, after silence if `cold`.
template <typename Body>
void Measure(benchmark::State& state, bool cold, Body body) {
  for (auto _ : state) {
    if (cold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto start = std::chrono::steady_clock::now();
    body();
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

void Loop(benchmark::State& state, bool cold) {
  ScopedInnerParallelism two(2);
  Measure(state, cold, [] {
    InnerLoopRunner()->For(2, 25'000, [](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Work(25);
    });
  });
}
BENCHMARK_CAPTURE(Loop, hot, false)->UseManualTime();
BENCHMARK_CAPTURE(Loop, cold, true)->UseManualTime();

void Region(benchmark::State& state, bool cold) {
  Measure(state, cold, [] { GOMP_parallel([](void*) {}, nullptr, 2, 0); });
}
BENCHMARK_CAPTURE(Region, hot, false)->UseManualTime();
BENCHMARK_CAPTURE(Region, cold, true)->UseManualTime();

void Conv(benchmark::State& state) {
  using dnnl::memory;
  const int threads = static_cast<int>(state.range(0));
  ScopedInnerParallelism limit(threads);
  if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto any = [](const memory::dims& dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
  };
  dnnl::convolution_forward::primitive_desc conv(
      {dnnl::prop_kind::forward_training,
       dnnl::algorithm::convolution_direct,
       {{64, 1, 28, 28}, memory::data_type::f32, memory::format_tag::nchw},  // NHWC too: C is 1
       any({64, 1, 3, 3}),
       any({64, 64, 28, 28}),
       {1, 1},
       {1, 1},
       {1, 1}},
      engine);
  state.SetLabel(conv.impl_info_str());
  memory x(conv.src_desc(), engine), w(conv.weights_desc(), engine), y(conv.dst_desc(), engine);
  dnnl::convolution_forward primitive(conv);
  for (auto _ : state) {
    // As an executor does; a replica's next kernel takes the token anew.
    ScopedRunToken token;
    primitive.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream.wait();
  }
}
BENCHMARK(Conv)->ArgName("omp_threads")->Arg(1)->Arg(2)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (absl::Status ours = tandem::CheckOpenMpIsOurs(); !ours.ok()) std::cerr << ours << "\n";
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
