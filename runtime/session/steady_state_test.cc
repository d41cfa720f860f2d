// What a run costs in memory once its signature is warm: nothing for bookkeeping, however long the
// graph is.
//
// Counts calls of operator new in this program, whichever thread makes them.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size == 0 ? 1 : size) != 0) std::abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new[](size_t size) { return Allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tandem {
namespace {

// What a step costs, whatever is in it: the vector of results, and the registration of its
// cancellation with the session's.
constexpr double kPerRun = 2;

// Allocations of one warm run of the graph `scope` holds, fed with "x" and fetching `fetch`.
double AllocationsPerRun(const Scope& scope, const std::string& fetch) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  SessionOptions options;
  options.inner_parallelism = 1;
  const auto session = Session::Create(*scope.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  const auto callable = (*session)->MakeCallable({{"x"}, {fetch}, {}});
  EXPECT_TRUE(callable.ok()) << callable.status();
  constexpr int kWarmUp = 50;
  constexpr int kRuns = 200;
  // Made ahead, since the caller's own tensors are not the question.
  std::vector<std::vector<Tensor>> feeds(kWarmUp + kRuns);
  for (auto& feed : feeds) feed.push_back(Tensor::Zeros(kFloat32, Shape({8, 8})));
  int64_t before = 0;
  for (int i = 0; i < kWarmUp + kRuns; ++i) {
    if (i == kWarmUp) before = allocations.load();
    const auto results = (*callable)->Run(std::move(feeds[static_cast<size_t>(i)]));
    EXPECT_TRUE(results.ok()) << results.status();
  }
  return static_cast<double>(allocations.load() - before) / kRuns;
}

Output Chain(const Scope& scope, const char* op, int length) {
  Output value = scope.WithOpName("x").Call("Placeholder", {},
                                            {{"dtype", kFloat32}, {"shape", Shape({8, 8})}});
  for (int i = 0; i < length; ++i) {
    value = std::string(op) == "MatMul" ? scope.Call(op, {value, value}) : scope.Call(op, {value});
  }
  scope.WithOpName("last").Call("Identity", {value});
  return value;
}

double AllocationsOfChain(const char* op, int length) {
  const Scope scope = Scope::NewRoot();
  Chain(scope, op, length);
  return AllocationsPerRun(scope, "last");
}

TEST(SteadyState, NodesThatWorkInPlaceAllocateNothing) {
  const double of_short = AllocationsOfChain("Neg", 10);
  const double of_long = AllocationsOfChain("Neg", 110);
  EXPECT_EQ(of_long, of_short);
  EXPECT_LE(of_short, kPerRun);
}

// The memory of results comes from the allocator's free blocks.
TEST(SteadyState, OtherNodesReuseTheMemoryOfTheLastRun) {
  const double of_short = AllocationsOfChain("MatMul", 10);
  const double of_long = AllocationsOfChain("MatMul", 110);
  EXPECT_EQ(of_long, of_short);
  EXPECT_LE(of_short, kPerRun);
}

// Many nodes that are ready at once, so that counts and queues are at work.
TEST(SteadyState, BranchesAllocateNothing) {
  const auto measure = [](int width) {
    const Scope scope = Scope::NewRoot();
    const Output x = scope.WithOpName("x").Call("Placeholder", {},
                                                {{"dtype", kFloat32}, {"shape", Shape({8, 8})}});
    std::vector<Node*> ends;
    for (int i = 0; i < width; ++i) {
      ends.push_back(scope.WithControlDependencies({x.node}).AddNode("NoOp", {}));
    }
    scope.WithOpName("last").WithControlDependencies(ends).Call("Identity", {x});
    return AllocationsPerRun(scope, "last");
  };
  EXPECT_EQ(measure(200), measure(20));
  EXPECT_LE(measure(200), kPerRun);
}

}  // namespace
}  // namespace tandem
