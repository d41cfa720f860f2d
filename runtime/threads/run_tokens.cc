#include "runtime/threads/run_tokens.h"

#include <cassert>
#include <chrono>

#include "runtime/threads/cpu_count.h"

namespace tandem {
namespace {

// For how long a waiter may be overtaken. A thread that starts and ends regions of 0.1 ms then runs
// some of them in a row before another takes its place, and the change costs little.
constexpr std::chrono::milliseconds kPatience{1};

thread_local bool holds_token = false;

}  // namespace

RunTokens::RunTokens(int capacity) : capacity_(capacity), free_(capacity) {}

RunTokens& RunTokens::Process() {
  // Never destroyed: parked threads may touch it while the process exits.
  static RunTokens* const tokens = new RunTokens(CpuCount());
  return *tokens;
}

void RunTokens::NoteHeld(int free_now) {
  const int held = capacity() - free_now;
  int most = high_water_.load(std::memory_order_relaxed);
  while (held > most && !high_water_.compare_exchange_weak(most, held, std::memory_order_relaxed)) {
  }
}

bool RunTokens::TryTake(int count) {
  int free = free_.load();
  while (free >= count) {
    if (free_.compare_exchange_weak(free, free - count)) {
      NoteHeld(free - count);
      return true;
    }
  }
  return false;
}

bool RunTokens::TryAcquire(int count) {
  return count == 0 || (!closed_.load(std::memory_order_relaxed) && TryTake(count));
}

void RunTokens::Acquire() {
  if (TryAcquire()) return;
  Waiter self;
  MutexLock lock(mu_);
  // Release adds to free_ and then reads waiting_; this writes waiting_ and then reads free_. All
  // four in one total order, so that one of the two sees the other.
  waiting_.store(static_cast<int>(queue_.size()) + 1);
  if (queue_.empty() && TryTake(1)) {
    waiting_.store(0);
    return;
  }
  queue_.push_back(&self);
  const auto end_of_patience = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    while (!self.granted && !self.woken) self.wake.Wait(mu_);
    if (self.granted) return;  // Whoever granted took it out of the queue.
    self.woken = false;
    if (TryTake(1)) {
      assert(queue_.front() == &self);
      queue_.pop_front();
      waiting_.store(static_cast<int>(queue_.size()));
      if (!queue_.empty() && HasFree()) WakeFrontLocked();
      return;
    }
    // Overtaken. The next Release wakes this thread again, or, once it has waited for long, gives
    // the token to it and to nobody else.
    if (std::chrono::steady_clock::now() < end_of_patience && free_.load() <= 0) continue;
    self.starving = true;
    closed_.store(true);
    if (free_.load() > 0) WakeFrontLocked();  // It came back before the door was closed.
  }
}

void RunTokens::WakeFrontLocked() {
  while (!queue_.empty()) {
    Waiter* const front = queue_.front();
    if (!front->starving) {
      if (!front->woken) {
        front->woken = true;
        front->wake.NotifyOne();
      }
      return;
    }
    if (!TryTake(1)) return;
    queue_.pop_front();
    waiting_.store(static_cast<int>(queue_.size()));
    closed_.store(false);
    front->granted = true;
    front->wake.NotifyOne();  // Under the lock: afterwards the waiter may be gone.
    if (!HasFree()) return;
  }
}

void RunTokens::Release() {
  free_.fetch_add(1);
  if (waiting_.load() == 0) return;
  MutexLock lock(mu_);
  WakeFrontLocked();
}

void RunTokens::ResetHighWater() {
  high_water_.store(capacity() - free_.load(), std::memory_order_relaxed);
}

void RunTokens::SetCapacity(int capacity) {
  assert(capacity >= 1);
  const int before = capacity_.exchange(capacity);
  free_.fetch_add(capacity - before);
  MutexLock lock(mu_);
  WakeFrontLocked();
}

bool ThisThreadHoldsRunToken() { return holds_token; }

ScopedRunToken::ScopedRunToken() : took_(!holds_token) {
  if (!took_) return;
  RunTokens::Process().Acquire();
  holds_token = true;
}

ScopedRunToken::~ScopedRunToken() {
  if (!took_) return;
  assert(holds_token);
  holds_token = false;
  RunTokens::Process().Release();
}

AdoptedRunToken::AdoptedRunToken() {
  assert(!holds_token);
  holds_token = true;
}

AdoptedRunToken::~AdoptedRunToken() {
  assert(holds_token);
  holds_token = false;
  RunTokens::Process().Release();
}

ScopedRunTokenRelease::ScopedRunTokenRelease() : gave_up_(holds_token) {
  if (!gave_up_) return;
  holds_token = false;
  RunTokens::Process().Release();
}

ScopedRunTokenRelease::~ScopedRunTokenRelease() {
  if (!gave_up_) return;
  assert(!holds_token);
  RunTokens::Process().Acquire();
  holds_token = true;
}

}  // namespace tandem
