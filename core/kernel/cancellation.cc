#include "core/kernel/cancellation.h"

#include <functional>
#include <thread>
#include <utility>

namespace tandem {
namespace {

uint64_t ThisThread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

}  // namespace

CancellationManager::CancellationManager(CancellationManager* parent) : parent_(parent) {
  if (parent_ == nullptr) return;
  parent_token_ = parent_->NewToken();
  if (!parent_->Register(parent_token_, [this] { Cancel(parent_->status()); })) {
    Cancel(parent_->status());
    parent_ = nullptr;
  }
}

CancellationManager::~CancellationManager() {
  if (parent_ != nullptr) parent_->Deregister(parent_token_);
}

CancellationManager::Token CancellationManager::NewToken() {
  MutexLock lock(mu_);
  return next_token_++;
}

bool CancellationManager::Register(Token token, Callback callback) {
  MutexLock lock(mu_);
  if (IsCancelled()) return false;
  callbacks_.emplace(token, std::move(callback));
  return true;
}

bool CancellationManager::Deregister(Token token) {
  MutexLock lock(mu_);
  if (callbacks_.erase(token) > 0) return true;
  while (running_ == token && running_thread_ != ThisThread()) callbacks_ended_.Wait(mu_);
  return false;
}

bool CancellationManager::TryDeregister(Token token) {
  MutexLock lock(mu_);
  return callbacks_.erase(token) > 0;
}

void CancellationManager::Cancel(absl::Status reason) {
  MutexLock lock(mu_);
  if (IsCancelled()) return;
  reason_ = reason.ok() ? absl::CancelledError("cancelled") : std::move(reason);
  cancelled_.store(true, std::memory_order_release);
  running_thread_ = ThisThread();
  while (!callbacks_.empty()) {
    auto first = callbacks_.extract(callbacks_.begin());
    running_ = first.key();
    mu_.Unlock();
    first.mapped()();
    first.mapped() = nullptr;  // What it captured goes before anybody is told that it ended.
    mu_.Lock();
    running_ = 0;
    callbacks_ended_.NotifyAll();
  }
}

absl::Status CancellationManager::status() const {
  MutexLock lock(mu_);
  return reason_;
}

}  // namespace tandem
