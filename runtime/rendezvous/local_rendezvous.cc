#include "runtime/rendezvous/local_rendezvous.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {
namespace {

struct Waiter {
  Rendezvous::Received received;
  CancellationManager* cancellation = nullptr;
  CancellationManager::Token token = 0;

  // Whoever takes a waiter out of the table answers it, outside the lock.
  void Answer(absl::StatusOr<Rendezvous::Entry> entry) {
    if (cancellation != nullptr) cancellation->Deregister(token);
    received(std::move(entry));
  }
};

}  // namespace

struct LocalRendezvous::State {
  // Done when it holds neither.
  struct Meeting {
    absl::optional<Entry> entry;
    std::unique_ptr<Waiter> waiter;
    bool was_left = false;  // Who waited was cancelled: what comes is for nobody.
  };

  Mutex mu;
  absl::Status reason ABSL_GUARDED_BY(mu);  // Not OK: aborted.
  absl::flat_hash_map<std::string, Meeting> meetings ABSL_GUARDED_BY(mu);
};

LocalRendezvous::LocalRendezvous() : state_(std::make_shared<State>()) {}

LocalRendezvous::~LocalRendezvous() { Abort(errors::Cancelled("the step has ended")); }

absl::Status LocalRendezvous::Send(absl::string_view key, Entry entry) {
  std::unique_ptr<Waiter> waiter;
  {
    MutexLock lock(state_->mu);
    if (!state_->reason.ok()) return state_->reason;
    const auto [found, is_new] = state_->meetings.try_emplace(std::string(key));
    State::Meeting& meeting = found->second;
    if (is_new) {
      meeting.entry = std::move(entry);
      return absl::OkStatus();
    }
    if (meeting.was_left) return absl::OkStatus();
    if (meeting.waiter == nullptr) {
      return errors::Aborted("'", key, "' was sent a second time in one step");
    }
    waiter = std::move(meeting.waiter);
  }
  waiter->Answer(std::move(entry));
  return absl::OkStatus();
}

void LocalRendezvous::Receive(absl::string_view key, CancellationManager* cancellation,
                              Received received) {
  absl::StatusOr<Entry> answer = Entry();
  {
    MutexLock lock(state_->mu);
    const auto [found, is_new] = state_->meetings.try_emplace(std::string(key));
    State::Meeting& meeting = found->second;
    if (!state_->reason.ok()) {
      answer = state_->reason;
    } else if (meeting.entry) {
      answer = *std::move(meeting.entry);
      meeting.entry.reset();
    } else if (!is_new) {
      answer = errors::Aborted("'", key, "' was asked for a second time in one step");
    } else {
      auto waiter = std::make_unique<Waiter>();
      waiter->received = std::move(received);
      waiter->cancellation = cancellation;
      bool waits = true;
      if (cancellation != nullptr) {
        waiter->token = cancellation->NewToken();
        // Runs outside the manager's lock; should it run at once, it waits for this one.
        waits = cancellation->Register(waiter->token,
                                       [state = state_, cancellation, name = std::string(key)] {
                                         std::unique_ptr<Waiter> cancelled;
                                         {
                                           MutexLock inner(state->mu);
                                           const auto at = state->meetings.find(name);
                                           if (at == state->meetings.end()) return;
                                           cancelled = std::move(at->second.waiter);
                                           at->second.was_left |= cancelled != nullptr;
                                         }
                                         if (cancelled != nullptr)
                                           cancelled->received(cancellation->status());
                                       });
      }
      if (waits) {
        meeting.waiter = std::move(waiter);
        return;
      }
      received = std::move(waiter->received);
      answer = cancellation->status();
    }
  }
  received(std::move(answer));
}

void LocalRendezvous::Abort(absl::Status reason) {
  std::vector<std::unique_ptr<Waiter>> waiters;
  {
    MutexLock lock(state_->mu);
    if (!state_->reason.ok()) return;
    state_->reason = reason;
    for (auto& [key, meeting] : state_->meetings) {
      if (meeting.waiter != nullptr) waiters.push_back(std::move(meeting.waiter));
      meeting.entry.reset();
    }
    state_->meetings.clear();
  }
  for (const std::unique_ptr<Waiter>& waiter : waiters) waiter->Answer(reason);
}

}  // namespace tandem
