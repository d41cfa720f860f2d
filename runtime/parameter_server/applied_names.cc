#include "runtime/parameter_server/applied_names.h"

#include <algorithm>
#include <iterator>

#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

// The range that `sequence` lies in or that comes before it; end: there is none.
template <typename Ranges>
auto RangeAtOrBefore(Ranges& ranges, int64_t sequence) {
  auto after = ranges.upper_bound(sequence);
  return after == ranges.begin() ? ranges.end() : std::prev(after);
}

}  // namespace

AppliedNames::Known AppliedNames::Look(const PushId& id) const {
  const auto found = clients_.find(id.client());
  if (found == clients_.end()) return Known::kNew;
  const Client& client = found->second;
  if (client.in_progress.count(id.sequence()) > 0) return Known::kInProgress;
  if (id.sequence() < client.finished_below) return Known::kApplied;
  const auto range = RangeAtOrBefore(client.ranges, id.sequence());
  return range != client.ranges.end() && id.sequence() <= range->second ? Known::kApplied
                                                                        : Known::kNew;
}

bool AppliedNames::FinishBelow(const PushId& id) {
  Client& client = Use(id.client());
  if (id.finished_below() <= client.finished_below) return false;
  client.finished_below = id.finished_below();
  ForgetBelow(client, client.finished_below);
  return true;
}

absl::Status AppliedNames::Begin(const PushId& id, int64_t tag) {
  Client& client = Use(id.client());
  const auto names = static_cast<int64_t>(client.ranges.size() + client.in_progress.size());
  if (names >= limits_.max_ranges) {
    return errors::ResourceExhausted("the pushes of client ", id.client(), " from sequence ",
                                     client.finished_below, " on lie in ", names,
                                     " ranges, and no more are kept; its finished_below must grow");
  }
  client.in_progress[id.sequence()].tag = tag;
  return absl::OkStatus();
}

int64_t AppliedNames::Tag(const PushId& id) const {
  return clients_.at(id.client()).in_progress.at(id.sequence()).tag;
}

void AppliedNames::Wait(const PushId& id, int64_t waiter) {
  clients_.at(id.client()).in_progress.at(id.sequence()).waiters.push_back(waiter);
}

void AppliedNames::StopWaiting(const PushId& id, int64_t waiter) {
  const auto client = clients_.find(id.client());
  if (client == clients_.end()) return;
  const auto found = client->second.in_progress.find(id.sequence());
  if (found == client->second.in_progress.end()) return;
  auto& waiters = found->second.waiters;
  waiters.erase(std::remove(waiters.begin(), waiters.end(), waiter), waiters.end());
}

void AppliedNames::MarkApplied(const PushId& id) {
  Client& client = Use(id.client());
  client.newest = std::max(client.newest, id.sequence());
  if (id.sequence() >= client.finished_below) Add(client, id.sequence());
}

std::vector<int64_t> AppliedNames::End(const PushId& id) {
  const auto client = clients_.find(id.client());
  if (client == clients_.end()) return {};
  const auto found = client->second.in_progress.find(id.sequence());
  if (found == client->second.in_progress.end()) return {};
  std::vector<int64_t> waiters = std::move(found->second.waiters);
  client->second.in_progress.erase(found);
  return waiters;
}

std::vector<AppliedSequences> AppliedNames::Save() const {
  std::vector<AppliedSequences> saved;
  for (const auto& [number, client] : clients_) {
    if (client.newest == 0 && client.finished_below == 0) continue;
    AppliedSequences& applied = saved.emplace_back();
    applied.set_client(number);
    applied.set_finished_below(client.finished_below);
    applied.set_newest(client.newest);
    for (const auto& [first, last] : client.ranges) {
      applied.add_first(first);
      applied.add_last(last);
    }
  }
  return saved;
}

absl::Status AppliedNames::Load(const std::vector<AppliedSequences>& applied) {
  std::map<uint64_t, Client> loaded;
  for (const AppliedSequences& one : applied) {
    const auto refuse = [&](const auto&... what) {
      return errors::InvalidArgument("the names of client ", one.client(), ": ", what...);
    };
    const auto [client, is_new] = loaded.try_emplace(one.client());
    if (!is_new) return refuse("they are there twice");
    if (one.finished_below() < 0 || one.newest() < 0) return refuse("a number below 0");
    if (one.first_size() != one.last_size()) {
      return refuse(one.first_size(), " ranges begin and ", one.last_size(), " end");
    }
    client->second.finished_below = one.finished_below();
    client->second.newest = one.newest();
    int64_t before = std::max<int64_t>(one.finished_below() - 1, 0);
    for (int i = 0; i < one.first_size(); ++i) {
      if (one.first(i) <= before || one.last(i) < one.first(i) || one.last(i) > one.newest()) {
        return refuse("range ", i, ", from ", one.first(i), " to ", one.last(i), ", comes after ",
                      before, " and goes up to ", one.newest(), " at most");
      }
      before = one.last(i);
      client->second.ranges.emplace(one.first(i), one.last(i));
    }
  }
  // What is on its way stays so.
  for (auto& [number, client] : clients_) {
    if (!client.in_progress.empty()) loaded[number].in_progress = std::move(client.in_progress);
  }
  clients_ = std::move(loaded);
  return absl::OkStatus();
}

std::vector<PushId> AppliedNames::Newest() const {
  std::vector<PushId> newest;
  for (const auto& [number, client] : clients_) {
    if (client.newest == 0) continue;
    PushId& id = newest.emplace_back();
    id.set_client(number);
    id.set_sequence(client.newest);
    id.set_finished_below(client.finished_below);
  }
  return newest;
}

AppliedNames::Client& AppliedNames::Use(uint64_t number) {
  const auto found = clients_.find(number);
  if (found == clients_.end() && static_cast<int64_t>(clients_.size()) >= limits_.max_clients) {
    auto oldest = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      if (!it->second.in_progress.empty()) continue;
      if (oldest == clients_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
    }
    if (oldest != clients_.end()) clients_.erase(oldest);
  }
  Client& client = found == clients_.end() ? clients_[number] : found->second;
  client.last_use = ++uses_;
  return client;
}

void AppliedNames::Add(Client& client, int64_t sequence) {
  auto range = RangeAtOrBefore(client.ranges, sequence);
  if (range != client.ranges.end() && sequence <= range->second) return;
  if (range != client.ranges.end() && range->second == sequence - 1) {
    range->second = sequence;
  } else {
    range = client.ranges.emplace(sequence, sequence).first;
  }
  const auto next = std::next(range);
  if (next == client.ranges.end() || next->first != sequence + 1) return;
  range->second = next->second;
  client.ranges.erase(next);
}

void AppliedNames::ForgetBelow(Client& client, int64_t below) {
  while (!client.ranges.empty() && client.ranges.begin()->first < below) {
    const auto [first, last] = *client.ranges.begin();
    client.ranges.erase(client.ranges.begin());
    if (last >= below) client.ranges.emplace(below, last);
  }
}

}  // namespace tandem::parameter_server
