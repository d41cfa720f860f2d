#include "runtime/threads/helpers.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/threads/run_tokens.h"
#include "runtime/threads/spin.h"
#include "runtime/threads/start_thread.h"

namespace tandem {

struct Helper {
  // Set by whoever took this helper from the idle ones; taken by the helper, or taken back.
  std::atomic<Errand*> call{nullptr};
  // About `call`; read by the helper only after it took the call.
  HelperPool::Token token = HelperPool::Token::kNone;

  std::atomic<bool> asleep{false};
  Mutex mu;
  CondVar wake;
};

namespace {

Errand* WaitForCall(Helper* self) {
  const auto called = [self] { return self->call.load(std::memory_order_relaxed) != nullptr; };
  while (true) {
    SpinUntil(called, [] { return RunTokens::Process().HasFree(); });
    if (!called()) {
      MutexLock lock(self->mu);
      // The caller writes `call` and then reads `asleep`; this writes `asleep` and then reads
      // `call`, all in one total order: one of the two sees the other.
      self->asleep.store(true);
      while (self->call.load() == nullptr) self->wake.Wait(self->mu);
      self->asleep.store(false);
    }
    // Null when it was taken back in between.
    if (Errand* errand = self->call.exchange(nullptr)) return errand;
  }
}

// Sends an idle helper, which the caller took from the idle ones, on its way.
void Send(Helper* helper, Errand* errand, HelperPool::Token token) {
  helper->token = token;
  helper->call.store(errand);
  if (helper->asleep.load()) {
    MutexLock lock(helper->mu);
    helper->wake.NotifyOne();
  }
}

}  // namespace

HelperPool& HelperPool::Process() {
  static HelperPool* const pool = new HelperPool;
  return *pool;
}

Helper* HelperPool::Call(Errand* errand, Token token) {
  Helper* helper = nullptr;
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      helper = idle_.back();
      idle_.pop_back();
    }
  }
  if (helper == nullptr) return Start(errand, token);
  Send(helper, errand, token);
  return helper;
}

void HelperPool::CallOrWait(Errand* errand, Token token) {
  if (Call(errand, token) != nullptr) return;
  Helper* helper = nullptr;
  {
    MutexLock lock(mu_);
    ++waiting_;
    while (idle_.empty()) became_idle_.Wait(mu_);
    --waiting_;
    helper = idle_.back();
    idle_.pop_back();
  }
  Send(helper, errand, token);
}

int HelperPool::Reserve(int wanted) {
  while (true) {
    {
      MutexLock lock(mu_);
      if (size_ >= wanted) return size_;
    }
    Helper* const helper = Start(nullptr, Token::kNone);
    MutexLock lock(mu_);
    if (helper == nullptr) return size_;
    idle_.insert(idle_.begin(), helper);  // At the cold end: it has yet to start.
    if (waiting_ > 0) became_idle_.NotifyOne();
  }
}

Helper* HelperPool::Start(Errand* errand, Token token) {
  int number = 0;
  {
    MutexLock lock(mu_);
    if (size_ >= limit_) return nullptr;
    number = size_++;
  }
  auto* const helper = new Helper;
  helper->token = token;
  helper->call.store(errand);
  std::thread thread =
      StartThread(absl::StrCat("tandem-help-", number), [this, helper] { RunHelper(helper); });
  if (thread.joinable()) {
    thread.detach();
    return helper;
  }
  delete helper;
  MutexLock lock(mu_);
  --size_;
  return nullptr;
}

bool HelperPool::TakeBack(Helper* helper, Errand* errand) {
  // Equal only while this call waits: nobody else can call with an errand of ours.
  if (!helper->call.compare_exchange_strong(errand, nullptr)) return false;
  MutexLock lock(mu_);
  // At the cold end: the helper has not woken up yet.
  idle_.insert(idle_.begin(), helper);
  if (waiting_ > 0) became_idle_.NotifyOne();
  return true;
}

void HelperPool::RunHelper(Helper* self) {
  while (true) {
    Errand* const errand = WaitForCall(self);
    if (self->token == Token::kBrought) {
      AdoptedRunToken token;
      errand->Help();
    } else {
      errand->Help();
    }
    {
      // Idle before Done: the caller may want help again at once, and another call now only waits
      // for the few instructions that are left.
      MutexLock lock(mu_);
      idle_.push_back(self);
      if (waiting_ > 0) became_idle_.NotifyOne();
    }
    errand->Done();
  }
}

int HelperPool::size() const {
  MutexLock lock(mu_);
  return size_;
}

void HelperPool::SetLimit(int limit) {
  MutexLock lock(mu_);
  limit_ = limit;
}

void HelpersDone::Arrive() {
  const unsigned before = state_.fetch_sub(kOne, std::memory_order_acq_rel);
  if (before != (kOne | kSleeps)) return;
  MutexLock lock(mu_);
  woken_ = true;
  wake_.NotifyOne();  // Under the lock: afterwards the waiter may destroy this.
}

void HelpersDone::Wait() {
  const auto all = [this] { return state_.load(std::memory_order_acquire) < kOne; };
  if (SpinUntil(all, [] { return !RunTokens::Process().HasWaiters(); })) return;
  if (state_.fetch_or(kSleeps, std::memory_order_acq_rel) < kOne) return;
  MutexLock lock(mu_);
  while (!woken_) wake_.Wait(mu_);
}

}  // namespace tandem
