#include "runtime/collective/in_process.h"

#include <utility>

#include "core/base/status.h"

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

void InProcessCollectives::AllReduce(const CollectiveRequest& request, std::vector<Tensor> values,
                                     CancellationManager* cancellation, Done done) {
  if (request.group_size < 1 || request.rank < 0 || request.rank >= request.group_size) {
    done(errors::InvalidArgument("all-reduce '", request.node, "': rank ", request.rank,
                                 " in a group of ", request.group_size));
    return;
  }
  if (request.group_size == 1) {
    done(std::move(values));
    return;
  }
  const Key key(request.group, request.instance, request.step);
  // Registered before anybody can see this member: once the others do, they may end the step, and
  // the cancellation with it.
  const CancellationManager::Token token = cancellation->NewToken();
  if (!cancellation->Register(token,
                              [this, key, cancellation] { Abort(key, cancellation->status()); })) {
    done(cancellation->status());
    return;
  }
  std::shared_ptr<Operation> operation;
  absl::Status status;
  {
    MutexLock lock(mu_);
    std::shared_ptr<Operation>& entry = pending_[key];
    if (entry == nullptr) {
      entry = std::make_shared<Operation>();
      entry->reduction = request.reduction;
      entry->missing = request.group_size;
      entry->members.resize(static_cast<size_t>(request.group_size));
    }
    if (static_cast<int>(entry->members.size()) != request.group_size ||
        entry->reduction != request.reduction) {
      status = errors::InvalidArgument("all-reduce '", request.node, "': group '", request.group,
                                       "' has ", entry->members.size(), " members for others and ",
                                       request.group_size, " here, or another reduction");
    } else if (entry->members[static_cast<size_t>(request.rank)].arrived) {
      status = errors::InvalidArgument("all-reduce '", request.node, "': rank ", request.rank,
                                       " of group '", request.group, "' came already, from '",
                                       entry->members[static_cast<size_t>(request.rank)].node, "'");
    } else {
      for (const Member& other : entry->members) {
        if (other.arrived && status.ok()) {
          status = CheckFit(request.node, values, other.node, other.values);
        }
      }
      Member& member = entry->members[static_cast<size_t>(request.rank)];
      member.arrived = true;
      member.node = request.node;
      member.values = std::move(values);
      member.cancellation = cancellation;
      member.token = token;
      member.done = std::move(done);
      // The callback may have run already, and found nobody.
      if (status.ok() && cancellation->IsCancelled()) status = cancellation->status();
      if (--entry->missing == 0 && status.ok()) {
        operation = std::move(entry);
        pending_.erase(key);
      }
    }
  }
  if (done) {  // Not taken: the member could not even join.
    cancellation->TryDeregister(token);
    done(status);
    return;
  }
  if (!status.ok()) {
    Abort(key, status);
    return;
  }
  if (operation == nullptr) return;  // Others are missing.

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

void InProcessCollectives::Abort(const Key& key, const absl::Status& status) {
  std::shared_ptr<Operation> operation;
  {
    MutexLock lock(mu_);
    const auto found = pending_.find(key);
    if (found == pending_.end()) return;
    operation = std::move(found->second);
    pending_.erase(found);
  }
  for (Member& member : operation->members) {
    if (!member.arrived) continue;
    member.cancellation->TryDeregister(member.token);
    member.done(status);
  }
}

}  // namespace tandem
