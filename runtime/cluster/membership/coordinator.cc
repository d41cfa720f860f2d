#include "runtime/cluster/membership/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::membership {
namespace {

// What a generation keeps for its members is small: addresses, keys, settings.
constexpr size_t kMostValueBytes = size_t{1} << 20;
constexpr size_t kMostValues = 10000;
// A message that names more helps nobody.
constexpr int kMostMissing = 10;
// Two refusals this far apart are no accident of one moment.
constexpr absl::Duration kBetweenRefusals = absl::Milliseconds(150);

}  // namespace

std::string Describe(const MemberInfo& member) {
  return absl::StrCat(member.name(), " at ", member.address(), " (",
                      member.host().empty() ? "" : absl::StrCat("host ", member.host(), ", "),
                      "pid ", member.pid(), ")");
}

bool IsSame(const MemberInfo& a, const MemberInfo& b) {
  return a.name() == b.name() && a.incarnation() == b.incarnation();
}

const MemberInfo* FindMember(const Generation& generation, const std::string& name,
                             uint64_t incarnation) {
  for (const MemberInfo& member : generation.members()) {
    if (member.name() == name && member.incarnation() == incarnation) return &member;
  }
  return nullptr;
}

Coordinator::Coordinator(const MembershipOptions* options, Generation generation, absl::Time now)
    : options_(*options),
      generation_(std::move(generation)),
      formed_(now),
      fence_raised_(!options->has_fence) {
  for (const MemberInfo& member : generation_.members()) {
    Peer& peer = members_[member.name()];
    peer.info = member;
    peer.heard = now;
    peer.report.set_completed_step(-1);
  }
}

void Coordinator::Break(std::string reason) {
  if (!broken_.empty()) return;
  broken_ = std::move(reason);
  news_ = true;
}

void Coordinator::Lose(Peer& peer, const std::string& why) {
  if (peer.gone) return;
  peer.gone = true;
  Break(absl::StrCat(Describe(peer.info), " ", why));
}

void Coordinator::OnReport(absl::Time now, const Report& report) {
  const MemberInfo& self = report.self();
  const auto member = members_.find(self.name());
  if (member != members_.end()) {
    Peer& peer = member->second;
    if (self.incarnation() < peer.info.incarnation()) return;  // Of a process that is no more.
    if (self.incarnation() == peer.info.incarnation()) {
      OnMemberReport(now, peer, report);
      return;
    }
    Lose(peer, report.run() == 0 ? "was started again" : "has left the group and comes back");
  }
  Peer& joiner = joiners_[self.name()];
  if (joiner.info.incarnation() > self.incarnation()) return;
  if (!IsSame(joiner.info, self)) {
    last_join_ = now;
    joiner = Peer();
  } else if (report.sequence() <= joiner.report.sequence()) {
    return;
  }
  joiner.info = self;
  joiner.heard = now;
  joiner.report = report;
  joiner.refusals = 0;
  if (report.leaving()) joiners_.erase(self.name());
}

void Coordinator::OnMemberReport(absl::Time now, Peer& peer, const Report& report) {
  // A message that was sent twice, or that another one has overtaken.
  if (report.sequence() <= peer.report.sequence()) return;
  if (peer.gone) return;
  peer.heard = now;
  peer.refusals = 0;
  const bool wanted_before = Wants(peer);
  const std::vector<std::string> barriers_before(peer.report.barriers().begin(),
                                                 peer.report.barriers().end());
  peer.report = report;
  const bool is_here =
      report.run() == generation_.run() && report.generation() == generation_.number();
  if (!is_here) {
    // Its barriers and values are those of a generation before.
    peer.report.clear_barriers();
    peer.report.clear_puts();
    return;
  }
  if (!peer.installed) {
    peer.installed = true;
    StartIfComplete(now);
  }
  NoteStep(peer);
  if (report.lost_group()) {
    Break(absl::StrCat(Describe(peer.info), " has left the group: ", report.lost_reason()));
  }
  if (Wants(peer)) first_leave_ = std::min(first_leave_, now);
  if (Wants(peer) != wanted_before) news_ = true;
  uint64_t& acknowledged = acknowledged_puts_[peer.info.name()];
  uint64_t number = report.first_put();
  for (const KeyValue& put : report.puts()) {
    if (number > acknowledged) {
      acknowledged = number;
      // Beyond the limits it is dropped: Put has checked sizes, so that only their number can be
      // too great, and whoever waits for the key is told when its deadline passes.
      if (put.value().size() <= kMostValueBytes && values_.size() < kMostValues) {
        values_[put.key()] = put.value();
      }
      for (const auto& [name, other] : members_) {
        const auto& keys = other.report.wanted_keys();
        if (std::find(keys.begin(), keys.end(), put.key()) != keys.end()) news_for_.insert(name);
      }
    }
    ++number;
  }
  const std::vector<std::string> barriers(report.barriers().begin(), report.barriers().end());
  if (barriers != barriers_before) UpdateBarriers();
  UpdateSync(now);
}

void Coordinator::OnRefused(absl::Time now, const std::string& address) {
  for (auto* const peers : {&members_, &joiners_}) {
    for (auto& [name, peer] : *peers) {
      if (peer.info.address() != address || peer.gone) continue;
      if (peer.refusals++ == 0) peer.first_refusal = now;
      if (now - peer.first_refusal < kBetweenRefusals) continue;
      if (peers == &members_) Lose(peer, "is gone: nobody listens there");
    }
  }
}

void Coordinator::OnFence(uint64_t highest, int64_t checkpoint) {
  if (highest == generation_.number()) {
    fence_raised_ = true;
    checkpoint_step_ = checkpoint;  // Nobody else writes one any more.
  }
  if (highest > generation_.number()) is_below_fence_ = true;
}

void Coordinator::Excuse(absl::Time now, absl::Duration by) {
  for (auto* const peers : {&members_, &joiners_}) {
    for (auto& [name, peer] : *peers) peer.heard = std::min(peer.heard + by, now);
  }
  formed_ = std::min(formed_ + by, now);
}

void Coordinator::Tick(absl::Time now) {
  for (auto& [name, peer] : members_) {
    if (peer.gone) continue;
    if (now - peer.heard > options_.lost_after) {
      Lose(peer, absl::StrCat("has not answered for ", absl::FormatDuration(options_.lost_after)));
    } else if (!peer.installed && now - formed_ > options_.lost_after) {
      Lose(peer, absl::StrCat("did not enter generation ", generation_.number(), " within ",
                              absl::FormatDuration(options_.lost_after)));
    }
  }
  for (auto peer = joiners_.begin(); peer != joiners_.end();) {
    const bool is_gone = now - peer->second.heard > options_.lost_after;
    peer = is_gone ? joiners_.erase(peer) : std::next(peer);
  }
  StartIfComplete(now);
  UpdateSync(now);
  constexpr size_t kPaceSeconds = 10;
  if (started_ && (pace_.empty() || now - pace_.back().first >= absl::Seconds(1))) {
    pace_.emplace_back(now, committed_step_);
    if (pace_.size() > kPaceSeconds) pace_.pop_front();
  }
  const bool all_leave = std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.gone || Wants(entry.second);
  });
  const bool may_go = std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.gone || entry.second.report.leaving();
  });
  // Those that only want to leave take the sync point with them.
  const bool has_nothing_to_save = !started_ && now - first_leave_ >= options_.settle;
  if (!released_ && all_leave && (may_go || sync_done_ || has_nothing_to_save)) {
    released_ = true;
    news_ = true;
  }
  const int wanted = options_.min_members;
  if (stop_.ok() && !started_ && now - formed_ > options_.start_timeout &&
      static_cast<int>(generation_.members_size()) < wanted) {
    Stop(errors::DeadlineExceeded(
        "the job has ", generation_.members_size(), " of at least ", wanted, " workers after ",
        absl::FormatDuration(options_.start_timeout), ": ",
        absl::StrJoin(generation_.members(), ", ",
                      [](std::string* out, const MemberInfo& m) { out->append(Describe(m)); }),
        "; start more, or lower MIN"));
  }
}

void Coordinator::StartIfComplete(absl::Time now) {
  if (started_ || broken() || !fence_raised_ || !stop_.ok()) return;
  if (generation_.members_size() < options_.min_members) return;
  // A job that begins gives others a moment to be part of it from the first step on.
  if (generation_.number() == 1 && generation_.members_size() < options_.max_members &&
      now - formed_ < options_.settle) {
    return;
  }
  int64_t best = -1;
  int64_t lowest = INT64_MAX;
  uint32_t rank = 0;
  uint32_t source = 0;
  uint32_t lowest_source = 0;
  for (const MemberInfo& member : generation_.members()) {
    const Peer& peer = members_.at(member.name());
    if (!peer.installed || peer.gone) return;
    const int64_t completed = peer.report.completed_step();
    if (completed > best) {
      best = completed;
      source = rank;
    }
    if (completed < lowest) {
      lowest = completed;
      lowest_source = rank;
    }
    ++rank;
  }
  const bool wrong = options_.mutation == Mutation::kLowestStepWins;
  start_step_ = wrong ? lowest : best;
  source_rank_ = wrong ? lowest_source : source;
  if (checkpoint_step_ > start_step_ && !wrong) {
    // Those who wrote it are gone, and who is left was not with them: a member that was cut off.
    start_step_ = checkpoint_step_;
    source_rank_ = 0;
    from_checkpoint_ = true;
  }
  started_ = true;
  news_ = true;
}

void Coordinator::NoteStep(Peer& peer) {
  if (!started_) return;
  int64_t least = INT64_MAX;
  for (const auto& [name, other] : members_) {
    least = std::min<int64_t>(least, other.report.completed_step());
  }
  committed_step_ = std::max(committed_step_, least);
}

void Coordinator::UpdateBarriers() {
  for (auto& [name, barrier] : barriers_) barrier.came.clear();
  for (const auto& [name, peer] : members_) {
    for (const std::string& barrier : peer.report.barriers()) barriers_[barrier].came.insert(name);
  }
  const size_t wanted =
      members_.size() - (options_.mutation == Mutation::kBarrierForgetsOne ? 1 : 0);
  for (auto barrier = barriers_.begin(); barrier != barriers_.end();) {
    if (barrier->second.came.empty()) {
      // All have passed it, or none waits any longer.
      barrier = barriers_.erase(barrier);
      continue;
    }
    if (!barrier->second.open && barrier->second.came.size() >= wanted && !broken()) {
      barrier->second.open = true;
      news_ = true;
    }
    ++barrier;
  }
}

int Coordinator::NumStaying() const {
  int count = 0;
  for (const auto& [name, peer] : members_) count += peer.gone || Wants(peer) ? 0 : 1;
  return count;
}

// A step is agreed on in rounds. The chief proposes one; a member that has not completed it takes
// note, and will not go beyond it; one that has says so, and the chief proposes a later one. Since
// no member of a group completes a step without the others, those who took note hold back whoever
// did not hear yet, so that the second or third proposal is met by all.
void Coordinator::UpdateSync(absl::Time now) {
  if (!started_ || broken()) return;
  if (!sync_.has_value()) {
    const bool room = NumStaying() < options_.max_members && !joiners_.empty();
    bool leaves = false;
    bool saves = false;
    for (const auto& [name, peer] : members_) {
      leaves = leaves || peer.report.wants_to_leave();
      saves = saves || (peer.report.wants_to_leave() && peer.report.save());
      if (peer.report.leaving()) return;  // It takes no further step: nothing can be agreed on.
    }
    if (!leaves && !(room && now - last_join_ >= options_.settle)) return;
    // Not from the step that the group began at: a checkpoint may have been taken away since.
    int64_t step = -1;
    for (const auto& [name, peer] : members_) {
      step = std::max<int64_t>(step, peer.report.completed_step());
    }
    sync_.emplace();
    sync_->set_id(1);
    sync_->set_step(step + sync_margin_);
    sync_->set_save(saves);
    sync_->set_regroup(true);
    sync_began_ = now;
    news_ = true;
    return;
  }
  if (sync_done_) return;
  bool all_know = true;
  bool all_reached = true;
  int64_t most = -1;
  for (const auto& [name, peer] : members_) {
    const Report& report = peer.report;
    const bool knows =
        report.known_sync() == sync_->id() && report.known_sync_step() == sync_->step();
    all_know = all_know && knows;
    all_reached = all_reached && report.reached_sync() == sync_->id();
    if (!knows) most = std::max<int64_t>(most, report.completed_step());
  }
  if (!sync_->is_final() && most >= sync_->step()) {
    sync_margin_ *= 2;
    sync_->set_step(most + sync_margin_);
    news_ = true;
  } else if (!sync_->is_final() && all_know) {
    sync_->set_is_final(true);
    news_ = true;
  } else if (sync_->is_final() && all_reached) {
    sync_done_ = true;
    news_ = true;
  } else if (now - sync_began_ > options_.sync_timeout) {
    std::vector<std::string> late;
    for (const auto& [name, peer] : members_) {
      if (peer.report.reached_sync() != sync_->id()) late.push_back(Describe(peer.info));
    }
    Break(absl::StrCat(absl::StrJoin(late, ", "), " did not reach step ", sync_->step(), " within ",
                       absl::FormatDuration(options_.sync_timeout)));
  }
}

absl::optional<std::vector<MemberInfo>> Coordinator::WantedMembers(absl::Time now) const {
  if (released_ || !stop_.ok()) return absl::nullopt;
  bool is_lost = broken();
  bool leaves_now = false;
  std::vector<MemberInfo> next;
  for (const MemberInfo& member : generation_.members()) {
    const Peer& peer = members_.at(member.name());
    is_lost = is_lost || peer.gone;
    // Who wants to leave is part of the next generation, too, if this one did not get so far as to
    // save its work.
    const bool goes = peer.report.leaving() ||
                      (peer.report.wants_to_leave() && (sync_done_ || (!started_ && !broken())));
    leaves_now = leaves_now || goes;
    if (!peer.gone && !goes) next.push_back(member);
  }
  const bool room = static_cast<int>(next.size()) < options_.max_members && !joiners_.empty();
  for (const auto& [name, joiner] : joiners_) {
    if (static_cast<int>(next.size()) >= options_.max_members) break;
    if (!joiner.report.wants_to_leave()) next.push_back(joiner.info);
  }
  if (next.empty()) return absl::nullopt;
  if (is_lost || sync_done_ || (is_below_fence_ && !started_)) return next;
  if (leaves_now && now - first_leave_ >= options_.settle) return next;
  const bool is_full = static_cast<int>(next.size()) == options_.max_members;
  if (!started_ && room && (is_full || now - last_join_ >= options_.settle)) return next;
  return absl::nullopt;
}

Directive Coordinator::DirectiveFor(const MemberInfo& to) {
  Directive directive;
  directive.set_sequence(++sequence_);
  *directive.mutable_generation() = generation_;
  directive.set_from_chief(true);
  directive.set_committed_step(committed_step_);
  directive.set_released(released_);
  if (!stop_.ok()) {
    directive.set_stop_code(static_cast<int>(stop_.code()));
    directive.set_stop_message(std::string(stop_.message()));
  }
  const auto found = members_.find(to.name());
  if (found == members_.end() || !IsSame(found->second.info, to)) return directive;
  const Peer& peer = found->second;
  // Who has entered the generation knows its members.
  if (peer.installed) directive.mutable_generation()->clear_members();
  directive.set_started(started_);
  directive.set_start_step(start_step_);
  directive.set_source_rank(source_rank_);
  directive.set_from_checkpoint(from_checkpoint_);
  directive.set_broken(broken_);
  for (const std::string& name : peer.report.barriers()) {
    const auto barrier = barriers_.find(name);
    if (barrier == barriers_.end()) continue;
    if (barrier->second.open) {
      directive.add_open_barriers(name);
      continue;
    }
    BarrierWait* const wait = directive.add_waits();
    wait->set_barrier(name);
    int missing = 0;
    for (const auto& [other, member] : members_) {
      if (barrier->second.came.count(other) > 0) continue;
      if (++missing <= kMostMissing) wait->add_missing(Describe(member.info));
    }
    if (missing > kMostMissing) {
      wait->add_missing(absl::StrCat("and ", missing - kMostMissing, " more"));
    }
  }
  const auto acknowledged = acknowledged_puts_.find(to.name());
  if (acknowledged != acknowledged_puts_.end()) {
    directive.set_acknowledged_put(acknowledged->second);
  }
  for (const std::string& key : peer.report.wanted_keys()) {
    const auto value = values_.find(key);
    if (value == values_.end()) continue;
    KeyValue* const pair = directive.add_values();
    pair->set_key(key);
    pair->set_value(value->second);
  }
  if (sync_.has_value()) *directive.mutable_sync() = *sync_;
  return directive;
}

std::vector<MemberInfo> Coordinator::TakeNews() {
  const bool for_all = std::exchange(news_, false);
  const std::set<std::string> names = std::exchange(news_for_, {});
  std::vector<MemberInfo> infos;
  for (const auto& [name, peer] : members_) {
    if (for_all || names.count(name) > 0) infos.push_back(peer.info);
  }
  return infos;
}

void Coordinator::FillStatus(absl::Time now, JobStatus* status) const {
  status->set_started(started_);
  status->set_broken(broken_);
  status->set_committed_step(committed_step_);
  if (pace_.size() > 1) {
    const double seconds = absl::ToDoubleSeconds(pace_.back().first - pace_.front().first);
    const int64_t steps = pace_.back().second - pace_.front().second;
    status->set_steps_per_second(static_cast<double>(steps) / seconds);
  }
  for (const MemberInfo& member : generation_.members()) {
    const Peer& peer = members_.at(member.name());
    MemberStatus* const about = status->add_members();
    *about->mutable_member() = member;
    about->set_completed_step(peer.report.completed_step());
    about->set_silent_seconds(
        absl::ToDoubleSeconds(std::max(now - peer.heard, absl::ZeroDuration())));
    *about->mutable_waits_at() = peer.report.barriers();
    about->set_wants_to_leave(Wants(peer));
    about->set_is_gone(peer.gone);
    about->set_has_entered(peer.installed);
  }
  for (const auto& [name, joiner] : joiners_) *status->add_joiners() = joiner.info;
  if (sync_.has_value()) *status->mutable_sync() = *sync_;
}

}  // namespace tandem::membership
