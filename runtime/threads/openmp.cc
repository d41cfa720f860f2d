// The OpenMP runtime that oneDNN meets: six entry points over Tandem's helpers and run tokens.
//
// Why. The packaged oneDNN runs its loops on OpenMP, that is, on libgomp. libgomp keeps a team of
// threads for every thread that calls in, never shares them, and lets idle ones spin: with two
// replicas on two cores, four threads fight, and a convolution of 0.5 ms was seen to take 8 ms. It
// also reads its settings before main, so a program cannot mend that. But oneDNN needs only
//
//     GOMP_parallel         run a function once for each member of a team
//     GOMP_barrier          wait for all members
//     omp_get_thread_num, omp_get_num_threads, omp_get_max_threads, omp_in_parallel
//
// which are defined here. A dynamic linker takes the first definition in its search order: the
// executable's, then those of its libraries, breadth first. libgomp is a library of a library and
// comes late, so these definitions win, provided that an executable which contains them exports
// them (the BUILD rule's linkopts). CheckOpenMpIsOurs() finds out.
//
// What OpenMP promises and oneDNN relies on: a team has exactly the size that was asked for (a
// primitive cuts its work for the number of threads that it was created with), and a region inside
// a region has one member. And one thing that no standard promises: all members run at the same
// time. oneDNN's weight gradients meet in barriers of their own, spin loops in generated code that
// this file never hears of. (A first version ran members one after another on the caller's thread
// when cores were busy; it hung there.)
//
// How. Gangs: a team starts when each member has a thread and a run token, and keeps them to its
// end. The caller has one token; it takes the rest at one stroke if so many are free. Otherwise it
// waits for its turn to collect them, holding none, and then collects one by one, holding those
// that it has. So gangs cannot deadlock, however many there are: one collects at a time; what it
// waits for is held by threads that compute and by gangs that are complete, and both end without
// needing another token. No member gives its token up inside the region, not even in GOMP_barrier,
// since others may spin for it.
//
// A team that is larger than the number of tokens (a primitive that was made when there were more)
// takes them all, and its other members run without: slow, but right.
//
// A gang that must wait leaves cores idle until it is complete. So whoever creates primitives for n
// threads should mean it: replicas that share the cores divide them (ScopedInnerParallelism).
//
// What is computed does not depend on any of this: a member's work follows from its index and the
// size of the team alone.
//
// The limit of this file: a program that is compiled with -fopenmp itself, or loads another library
// that is, needs more of OpenMP than this and would get the rest from libgomp, whose teams know
// nothing of these. So no OpenMP pragmas in Tandem.
#include "runtime/threads/openmp.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/threads/helpers.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/spin.h"

namespace tandem {
namespace {

using RegionFunction = void (*)(void*);

class Team;

// Which member of which team this thread runs.
struct Member {
  Team* team = nullptr;
  int index = 0;
  int size = 1;
  bool in_parallel = false;  // Some region around this point has more than one member.
};
thread_local Member current;

struct {
  std::atomic<int64_t> teams{0};
  std::atomic<int64_t> barriers{0};
} counts;

void Count(std::atomic<int64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// Takes `more` tokens of the process, all for the same gang, besides the one that the calling
// thread holds. REQUIRES: 1 + more <= capacity.
class TokenCollector {
 public:
  static TokenCollector& Process() {
    static TokenCollector* const collector = new TokenCollector;
    return *collector;
  }

  void Collect(int more) {
    RunTokens& tokens = RunTokens::Process();
    if (tokens.TryAcquire(more)) return;
    WaitForTurn();
    for (int i = 0; i < more; ++i) tokens.Acquire();
    MutexLock lock(mu_);
    taken_ = false;
    turn_.NotifyOne();
  }

 private:
  void WaitForTurn() {
    {
      MutexLock lock(mu_);
      if (!taken_) {
        taken_ = true;
        return;
      }
    }
    ScopedRunTokenRelease released;
    MutexLock lock(mu_);
    while (taken_) turn_.Wait(mu_);
    taken_ = true;
  }

  Mutex mu_;
  CondVar turn_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
};

class Team final : public Errand {
 public:
  Team(RegionFunction function, void* data, int size)
      : function_(function), data_(data), size_(size), parallelism_(InnerParallelism()) {}

  // On the caller's thread, with a run token. Returns when all members have ended.
  void Run() {
    const int with_token = std::min(size_, RunTokens::Process().capacity());
    TokenCollector::Process().Collect(with_token - 1);
    CallHelpers(with_token);
    RunMember(0);
    done_.Wait();
  }

  // On a helper.
  void Help() override {
    ScopedInnerParallelism as_the_caller(parallelism_);
    RunMember(next_.fetch_add(1, std::memory_order_relaxed));
  }
  void Done() override { done_.Arrive(); }

  // On the thread of a member.
  void Barrier() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      Count(counts.barriers);
      arrived_.store(0, std::memory_order_relaxed);
      // Writes round_ and then reads sleepers_; a sleeper writes sleepers_ and then reads round_.
      round_.store(round + 1);
      if (sleepers_.load() > 0) {
        MutexLock lock(mu_);
        round_ended_.NotifyAll();
      }
      return;
    }
    if (SpinUntil([&] { return round_.load(std::memory_order_acquire) != round; },
                  [] { return true; })) {
      return;
    }
    MutexLock lock(mu_);
    sleepers_.fetch_add(1);
    while (round_.load() == round) round_ended_.Wait(mu_);
    sleepers_.fetch_sub(1);
  }

 private:
  void RunMember(int index) {
    const Member outer = current;
    current = {this, index, size_, true};
    function_(data_);
    current = outer;
  }

  void CallHelpers(int with_token) {
    // Where the system refuses more threads, two teams with a part of the helpers each would wait
    // for the other's: only one calls at a time. The teams that run need nothing to end.
    static Mutex& turn = *new Mutex;
    MutexLock lock(turn);
    for (int i = 1; i < size_; ++i) {
      done_.Expect();
      HelperPool::Process().CallOrWait(
          this, i < with_token ? HelperPool::Token::kBrought : HelperPool::Token::kNone);
    }
  }

  const RegionFunction function_;
  void* const data_;
  const int size_;
  const int parallelism_;  // The caller's; members are told the same.

  std::atomic<int> next_{1};  // The index of the next helper that begins.
  HelpersDone done_;

  std::atomic<int> arrived_{0};
  std::atomic<unsigned> round_{0};
  std::atomic<int> sleepers_{0};
  Mutex mu_;
  CondVar round_ended_;
};

// An address in this object file, for CheckOpenMpIsOurs: the address of an exported function might
// be another library's.
const char anchor = 0;

}  // namespace

absl::Status CheckOpenMpIsOurs() {
  Dl_info here, found;
  if (dladdr(&anchor, &here) == 0) return errors::Internal("dladdr does not know its own caller");
  std::string foreign;
  for (const char* name : {"GOMP_parallel", "GOMP_barrier", "omp_get_max_threads",
                           "omp_get_num_threads", "omp_get_thread_num", "omp_in_parallel"}) {
    void* const symbol = dlsym(RTLD_DEFAULT, name);
    const bool known = symbol != nullptr && dladdr(symbol, &found) != 0;
    if (known && found.dli_fbase == here.dli_fbase) continue;
    absl::StrAppend(&foreign, foreign.empty() ? "" : ", ", name, " (",
                    known ? found.dli_fname : "nowhere", ")");
  }
  if (foreign.empty()) return absl::OkStatus();
  return errors::FailedPrecondition(
      "OpenMP's entry points are taken from elsewhere than Tandem's ", here.dli_fname, ": ",
      foreign,
      "; link the program with -Wl,--export-dynamic-symbol for each, put Tandem before every "
      "library that brings libgomp, and do not preload libgomp");
}

OpenMpCounts GetOpenMpCounts() {
  return {counts.teams.load(std::memory_order_relaxed),
          counts.barriers.load(std::memory_order_relaxed)};
}

}  // namespace tandem

// The names and signatures that compilers and oneDNN expect.
#define TANDEM_OPENMP_ENTRY extern "C" __attribute__((visibility("default")))

// Runs `function(data)` once for each member of a team of `num_threads` (0: as many as
// omp_get_max_threads() says). `flags` is the clause proc_bind, a hint.
TANDEM_OPENMP_ENTRY void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads,
                                       unsigned flags) {
  using namespace tandem;  // NOLINT
  (void)flags;
  int size = num_threads == 0 ? InnerParallelism() : static_cast<int>(num_threads);
  if (size > 1 && !current.in_parallel) {
    // Fewer than asked for, where the system refuses threads: OpenMP allows it. Kernels that count
    // on their number (oneDNN's) ask for no more than their plan has reserved.
    size = std::min(size, 1 + HelperPool::Process().Reserve(size - 1));
  }
  if (size <= 1 || current.in_parallel) {
    const Member outer = current;
    current = {nullptr, 0, 1, outer.in_parallel};
    function(data);
    current = outer;
    return;
  }
  Count(counts.teams);
  ScopedRunToken token;
  Team(function, data, size).Run();
}

TANDEM_OPENMP_ENTRY void GOMP_barrier() {
  if (tandem::current.team != nullptr) tandem::current.team->Barrier();
}

TANDEM_OPENMP_ENTRY int omp_get_max_threads() { return tandem::InnerParallelism(); }
TANDEM_OPENMP_ENTRY int omp_get_num_threads() { return tandem::current.size; }
TANDEM_OPENMP_ENTRY int omp_get_thread_num() { return tandem::current.index; }
TANDEM_OPENMP_ENTRY int omp_in_parallel() { return tandem::current.in_parallel; }
