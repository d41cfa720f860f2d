#include "runtime/collective/in_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/threads/start_thread.h"

namespace tandem {
namespace {

// What keeps a member from taking part with another one; OK when they fit.
absl::Status CheckFit(const std::string& node, const std::vector<Tensor>& values,
                      const std::string& other_node, const std::vector<Tensor>& other) {
  if (values.size() != other.size()) {
    return errors::InvalidArgument("all-reduce: '", node, "' brings ", values.size(), " values, '",
                                   other_node, "' brings ", other.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].dtype() != other[i].dtype() || values[i].shape() != other[i].shape()) {
      return errors::InvalidArgument(
          "all-reduce: value ", i, " of '", node, "' is ", DataTypeName(values[i].dtype()),
          values[i].shape().DebugString(), ", that of '", other_node, "' is ",
          DataTypeName(other[i].dtype()), other[i].shape().DebugString(),
          "; every member must reduce the same type and shape");
    }
  }
  return absl::OkStatus();
}

}  // namespace

InProcessCollectives::~InProcessCollectives() {
  {
    MutexLock lock(mu_);
    ends_ = true;
    watcher_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void InProcessCollectives::DeclareGroup(const std::string& name, int size) {
  std::vector<Key> former;
  {
    MutexLock lock(mu_);
    if (size > 1 && timeout_ != absl::InfiniteDuration() && !thread_.joinable()) {
      thread_ = StartThread("collectives", [this] { Watch(); });
    }
    CollectiveGroup& group = groups_[name];
    group.size = size;
    ++group.generation;
    for (const auto& [key, operation] : pending_) {
      if (std::get<0>(key) == name) former.push_back(key);
    }
  }
  for (const Key& key : former) {
    Abort(key, errors::Aborted("the members of group '", name, "' changed"));
  }
}

absl::StatusOr<CollectiveGroup> InProcessCollectives::Group(const std::string& name) const {
  TANDEM_ASSIGN_OR_RETURN(const CollectiveGroup local, LocalGroup(name));
  return between_ == nullptr ? local : between_->Describe(local);
}

absl::StatusOr<CollectiveGroup> InProcessCollectives::LocalGroup(const std::string& name) const {
  MutexLock lock(mu_);
  const auto found = groups_.find(name);
  if (found != groups_.end()) return found->second;
  return errors::NotFound(
      "there is no group '", name, "' of replicas in this session; it has ",
      groups_.empty() ? "none" : absl::StrJoin(groups_, ", ", [](std::string* out, const auto& g) {
        out->append(g.first);
      }));
}

const char* InProcessCollectives::NameOf(Kind kind) {
  return kind == Kind::kAllReduce ? "all-reduce" : "all-gather";
}

absl::Status InProcessCollectives::JoinLocked(Kind kind, const CollectiveRequest& request,
                                              Operation& operation, std::vector<Tensor>& values) {
  if (operation.kind != kind || operation.reduction != request.reduction) {
    return errors::InvalidArgument(NameOf(kind), " '", request.node, "' of group '", request.group,
                                   "' asks for another reduction than other members do");
  }
  Member& member = operation.members[static_cast<size_t>(request.member)];
  if (member.arrived) {
    return errors::InvalidArgument(NameOf(kind), " '", request.node, "': member ", request.member,
                                   " of group '", request.group, "' came already, from '",
                                   member.node, "'");
  }
  for (const Member& other : operation.members) {
    if (other.arrived) {
      TANDEM_RETURN_IF_ERROR(CheckFit(request.node, values, other.node, other.values));
    }
  }
  member.arrived = true;
  member.node = request.node;
  member.values = std::move(values);
  return absl::OkStatus();
}

void InProcessCollectives::AllReduce(const CollectiveRequest& request, std::vector<Tensor> values,
                                     CancellationManager* cancellation, Done done) {
  const absl::StatusOr<CollectiveGroup> group = LocalGroup(request.group);
  if (!group.ok()) {
    done(WithContext(group.status(), request.node));
    return;
  }
  if (request.member < 0 || request.member >= group->size) {
    done(errors::InvalidArgument("all-reduce '", request.node, "': member ", request.member,
                                 " of group '", request.group, "', which has ", group->size));
    return;
  }
  if (group->size == 1 && between_ == nullptr) {
    done(std::move(values));
    return;
  }
  Join(Kind::kAllReduce, request, group->generation, group->size, std::move(values), cancellation,
       std::move(done));
}

void InProcessCollectives::AllGatherRows(const CollectiveRequest& request,
                                         std::vector<Tensor> values,
                                         CancellationManager* cancellation, Done done) {
  const absl::StatusOr<CollectiveGroup> group = LocalGroup(request.group);
  if (!group.ok()) {
    done(WithContext(group.status(), request.node));
    return;
  }
  if (request.member != 0) {
    done(errors::InvalidArgument("all-gather '", request.node, "': member ", request.member,
                                 " of group '", request.group,
                                 "' takes part; only member 0 of a process does"));
    return;
  }
  for (const Tensor& value : values) {
    if (value.shape().rank() > 0) continue;
    done(errors::InvalidArgument("all-gather '", request.node, "' of a scalar, which has no rows"));
    return;
  }
  if (between_ == nullptr) {
    done(std::move(values));
    return;
  }
  Join(Kind::kAllGatherRows, request, group->generation, /*size=*/1, std::move(values),
       cancellation, std::move(done));
}

void InProcessCollectives::Join(Kind kind, const CollectiveRequest& request, int64_t generation,
                                int size, std::vector<Tensor> values,
                                CancellationManager* cancellation, Done done) {
  const Key key(request.group, generation, request.instance, request.step);
  // Registered before anybody can see this member: once the others do, they may end the step, and
  // the cancellation with it.
  const CancellationManager::Token token = cancellation->NewToken();
  if (!cancellation->Register(token,
                              [this, key, cancellation] { Abort(key, cancellation->status()); })) {
    Abort(key, cancellation->status());
    done(cancellation->status());
    return;
  }
  std::shared_ptr<Operation> operation;
  absl::Status status;
  {
    MutexLock lock(mu_);
    const auto aborted = aborted_.find(key);
    if (aborted != aborted_.end()) {
      status = aborted->second;
    } else if (groups_[request.group].generation != generation) {
      // Since this member looked. Whoever changed the group has ended those that it found already.
      status = errors::Aborted("the members of group '", request.group, "' changed");
    } else {
      std::shared_ptr<Operation>& entry = pending_[key];
      if (entry == nullptr) {
        entry = std::make_shared<Operation>();
        entry->kind = kind;
        entry->reduction = request.reduction;
        entry->begun = std::chrono::steady_clock::now();
        if (watcher_is_idle_) watcher_.NotifyOne();
        entry->missing = size;
        entry->members.resize(static_cast<size_t>(size));
      }
      status = JoinLocked(kind, request, *entry, values);
      if (status.ok()) {
        Member& member = entry->members[static_cast<size_t>(request.member)];
        member.cancellation = cancellation;
        member.token = token;
        member.done = std::move(done);
        // The callback may have run already, and found nobody.
        if (cancellation->IsCancelled()) status = cancellation->status();
        if (--entry->missing == 0 && status.ok()) {
          operation = entry;
          if (between_ == nullptr) {
            pending_.erase(key);
          } else {
            operation->is_across = true;
          }
        }
      }
    }
  }
  if (!status.ok()) Abort(key, status);
  if (done) {  // Not taken: the member could not even join.
    cancellation->TryDeregister(token);
    done(status);
    return;
  }
  if (operation == nullptr) return;  // Others are missing, or all were told.
  if (between_ != nullptr) {
    StartAcross(key, request, operation);
    return;
  }

  for (Member& member : operation->members) {
    // A callback that runs at this moment finds the operation gone; nothing to wait for.
    member.cancellation->TryDeregister(member.token);
  }
  std::vector<Tensor> results;
  const size_t count = operation->members[0].values.size();
  for (size_t i = 0; i < count && status.ok(); ++i) {
    std::vector<const Tensor*> parts;
    for (const Member& member : operation->members) parts.push_back(&member.values[i]);
    absl::StatusOr<Tensor> reduced = ReduceAlongTree(operation->reduction, parts);
    status = reduced.status();
    if (status.ok()) results.push_back(*std::move(reduced));
  }
  for (Member& member : operation->members) {
    member.values.clear();
    if (status.ok()) {
      member.done(results);
    } else {
      member.done(status);
    }
  }
}

void InProcessCollectives::StartAcross(const Key& key, const CollectiveRequest& request,
                                       const std::shared_ptr<Operation>& operation) {
  std::vector<std::vector<Tensor>> values;
  for (Member& member : operation->members) values.push_back(std::move(member.values));
  auto done = [this, key, operation](absl::StatusOr<std::vector<Tensor>> results) {
    EndAcross(key, operation, results);
  };
  BetweenProcesses::Cancel cancel =
      operation->kind == Kind::kAllReduce
          ? between_->AllReduce(request, std::move(values), std::move(done))
          : between_->AllGatherRows(request, std::move(values[0]), std::move(done));
  // From here on this object may be gone.
  absl::Status cancelled;
  {
    MutexLock lock(operation->across.mu);
    operation->across.cancel = cancel;
    cancelled = operation->across.cancelled;
  }
  // By somebody who came too early to find how.
  if (!cancelled.ok()) cancel(cancelled);
}

void InProcessCollectives::EndAcross(const Key& key, const std::shared_ptr<Operation>& operation,
                                     const absl::StatusOr<std::vector<Tensor>>& results) {
  {
    MutexLock lock(mu_);
    pending_.erase(key);
    if (!results.ok()) RememberLocked(key, results.status());
  }
  for (Member& member : operation->members) member.cancellation->TryDeregister(member.token);
  for (Member& member : operation->members) member.done(results);
}

void InProcessCollectives::RememberLocked(const Key& key, const absl::Status& status) {
  constexpr size_t kRemembered = 1024;
  if (aborted_.emplace(key, status).second) abort_order_.push_back(key);
  if (abort_order_.size() > kRemembered) {
    aborted_.erase(abort_order_.front());
    abort_order_.pop_front();
  }
}

void InProcessCollectives::Watch() {
  for (;;) {
    Late late;
    {
      MutexLock lock(mu_);
      if (ends_) return;
      const absl::Duration wait = FindLateLocked(late);
      if (late.empty()) {
        watcher_is_idle_ = wait == absl::InfiniteDuration();
        watcher_.WaitUntil(mu_, watcher_is_idle_ ? absl::InfiniteFuture() : absl::Now() + wait);
        watcher_is_idle_ = false;
      }
    }
    for (const auto& [key, status] : late) Abort(key, status);
  }
}

absl::Duration InProcessCollectives::FindLateLocked(Late& late) {
  const auto now = std::chrono::steady_clock::now();
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [key, operation] : pending_) {
    const absl::Duration age = absl::FromChrono(now - operation->begun);
    if (age < timeout_ / 3) {
      next = std::min(next, timeout_ / 3 - age);
      continue;
    }
    std::vector<size_t> missing;
    const Member* waiting = nullptr;
    for (size_t i = 0; i < operation->members.size(); ++i) {
      const Member& member = operation->members[i];
      if (member.arrived) waiting = &member;
      if (!member.arrived) missing.push_back(i);
    }
    // One that could not join is about to abort the operation.
    if (waiting == nullptr || missing.empty()) continue;
    const std::string text = absl::StrCat(
        "all-reduce '", waiting->node, "' waits for member ", absl::StrJoin(missing, ", "), " of ",
        operation->members.size(), " of group '", std::get<0>(key), "'");
    if (!std::exchange(operation->was_reported, true)) {
      TANDEM_LOG(Warning) << text << " since " << absl::FormatDuration(timeout_ / 3) << "; after "
                          << absl::FormatDuration(timeout_) << " the step fails";
    }
    if (age < timeout_) {
      next = std::min(next, timeout_ - age);
      continue;
    }
    late.emplace_back(key, errors::DeadlineExceeded(
                               text, ", which has not come for ", absl::FormatDuration(timeout_),
                               ": it is stuck, or is slower than the others by more than "
                               "the timeout of collectives allows"));
  }
  return next;
}

void InProcessCollectives::Abort(const Key& key, const absl::Status& status) {
  std::shared_ptr<Operation> operation;
  {
    MutexLock lock(mu_);
    // Also when nobody has come yet: the others will.
    RememberLocked(key, status);
    const auto found = pending_.find(key);
    if (found == pending_.end()) return;
    operation = found->second;
    if (!operation->is_across) pending_.erase(found);
  }
  if (operation->is_across) {
    // Ends by EndAcross, when the memory is in nobody's hands any more.
    BetweenProcesses::Cancel cancel;
    {
      MutexLock lock(operation->across.mu);
      operation->across.cancelled = status;
      cancel = operation->across.cancel;
    }
    if (cancel) cancel(status);
    return;
  }
  for (Member& member : operation->members) {
    if (!member.arrived) continue;
    member.cancellation->TryDeregister(member.token);
    member.done(status);
  }
}

}  // namespace tandem
