#include "runtime/threads/inner_loop.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "absl/container/inlined_vector.h"
#include "core/base/log.h"
#include "runtime/threads/helpers.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

// A thread must have this much to do, or it is not worth a call: a helper that spins costs the
// caller 1 to 2 microseconds, one that sleeps a system call of about 5, and comes 50 or more later.
constexpr double kLeastNanosecondsPerThread = 20'000;

// Pieces for each thread: enough that one that comes late or is interrupted leaves its share to
// the others, and still some microseconds each.
constexpr int64_t kPiecesPerThread = 4;

// Pieces of many cheap units begin at multiples of this, so that two threads rarely write to the
// same cache line (64 bytes: 16 floats, 64 bools).
constexpr int64_t kUnitsPerLine = 64;

thread_local int inner_parallelism = 0;  // 0: not set.

class Loop final : public Errand {
 public:
  Loop(int64_t total, int threads, ParallelRunner::Body body)
      : total_(total), piece_(PieceSize(total, threads)), body_(body) {}

  void Run(int helpers) {
    HelperPool& pool = HelperPool::Process();
    RunTokens& tokens = RunTokens::Process();
    absl::InlinedVector<Helper*, 16> called;
    called.reserve(static_cast<size_t>(helpers));  // Nothing may throw while helpers are called.
    while (helpers-- > 0 && tokens.TryAcquire()) {
      done_.Expect();
      Helper* const helper = pool.Call(this, HelperPool::Token::kBrought);
      if (helper == nullptr) {
        done_.ExpectOneLess();
        tokens.Release();
        break;
      }
      called.push_back(helper);
    }
    TakePieces();
    for (Helper* helper : called) {
      if (!pool.TakeBack(helper, this)) continue;
      done_.ExpectOneLess();
      tokens.Release();
    }
    done_.Wait();
    if (thrown_) std::rethrow_exception(thrown_);
  }

  void Help() override { TakePieces(); }
  void Done() override { done_.Arrive(); }

 private:
  static int64_t PieceSize(int64_t total, int threads) {
    const int64_t pieces = threads * kPiecesPerThread;
    const int64_t size = total / pieces + (total % pieces != 0);
    if (size < 4 * kUnitsPerLine) return size;
    return (size + kUnitsPerLine - 1) / kUnitsPerLine * kUnitsPerLine;
  }

  void TakePieces() {
    ScopedInnerParallelism inline_only(1);
    while (true) {
      // Ends above total_ by at most one piece a thread.
      const int64_t begin = next_.fetch_add(piece_, std::memory_order_relaxed);
      if (begin >= total_) return;
      try {
        body_(begin, std::min(total_ - begin, piece_) + begin);
      } catch (...) {
        // The caller's own kernel is told, once nobody works for it any more. Other pieces end
        // soon.
        if (!has_thrown_.exchange(true)) thrown_ = std::current_exception();
        next_.store(total_, std::memory_order_relaxed);
        return;
      }
    }
  }

  const int64_t total_;
  const int64_t piece_;
  const ParallelRunner::Body body_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> has_thrown_{false};
  std::exception_ptr thrown_;  // Written by the first whose body throws; read after all are done.
  HelpersDone done_;
};

class Runner final : public ParallelRunner {
 public:
  int parallelism() const override { return InnerParallelism(); }

  void For(int64_t total, double nanoseconds_per_unit, Body body) override {
    if (total <= 0) return;
    const double worth = total * nanoseconds_per_unit / kLeastNanosecondsPerThread;
    // A cost that is not a number compares false, and the loop runs inline.
    int threads = 1;
    if (worth >= 2 && total > 1 && InnerParallelism() > 1) {
      threads = std::min<double>(
          {worth, static_cast<double>(InnerParallelism()), static_cast<double>(total)});
    }
    if (threads == 1) return body(0, total);
    ScopedRunToken token;
    Loop(total, threads, body).Run(threads - 1);
  }
};

}  // namespace

int InnerParallelism() {
  return inner_parallelism != 0 ? inner_parallelism : RunTokens::Process().capacity();
}

int ReserveParallelism(int threads) {
  const int got = 1 + HelperPool::Process().Reserve(threads - 1);
  if (got >= threads) return threads;
  TANDEM_LOG(Warning) << "kernels compute with " << got << " instead of " << threads
                      << " threads: the system refuses more (ulimit -u, pids.max)";
  return got;
}

ScopedInnerParallelism::ScopedInnerParallelism(int threads) : outer_(inner_parallelism) {
  inner_parallelism = std::max(threads, 1);
}

ScopedInnerParallelism::~ScopedInnerParallelism() { inner_parallelism = outer_; }

ParallelRunner* InnerLoopRunner() {
  static Runner* const runner = new Runner;
  return runner;
}

}  // namespace tandem
