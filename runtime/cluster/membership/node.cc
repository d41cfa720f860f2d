#include "runtime/cluster/membership/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::membership {
namespace {

// Who leaves waits no longer than this for the others to take note.
constexpr absl::Duration kLeaveTime = absl::Seconds(5);
// A chief that has let all others go stays so long, for those that did not hear it.
constexpr absl::Duration kLastWords = absl::Seconds(1);
// With an arbiter, members of the last generation may follow their chief before newcomers do: they
// have the state.
constexpr absl::Duration kNewcomersWait = absl::Seconds(2);

std::string Names(const Generation& generation) {
  return absl::StrJoin(generation.members(), ", ", [](std::string* out, const MemberInfo& member) {
    out->append(Describe(member));
  });
}

}  // namespace

Node::Node(const MembershipOptions& options, MemberInfo self, uint64_t first_incarnation,
           uint64_t seed, NodeHost* host)
    : options_(options), self_(std::move(self)), random_(seed), host_(host) {
  self_.set_incarnation(first_incarnation);
}

void Node::Start(absl::Time now) {
  last_tick_ = next_report_ = next_directive_ = next_fence_ = next_read_ = now;
  chief_heard_ = chief_lost_at_ = elect_at_ = joining_since_ = first_refusal_ = now;
  arbiter_answered_ = lease_changed_ = claimed_at_ = now;
  AskArbiter(now);
  SendReports(now);
  Drain(now);
}

uint64_t Node::Random() {
  // splitmix64.
  uint64_t z = (random_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

absl::Duration Node::Stagger() const {
  if (is_member_) {
    for (int rank = 0; rank < known_->members_size(); ++rank) {
      if (IsSame(known_->members(rank), self_)) return rank * absl::Milliseconds(300);
    }
  }
  for (size_t i = 0; i < options_.seeds.size(); ++i) {
    if (options_.seeds[i].name == self_.name()) return i * absl::Milliseconds(200);
  }
  return options_.seeds.size() * absl::Milliseconds(200);
}

// Time -----------------------------------------------------------------------------------------

void Node::Tick(absl::Time now) {
  if (ended_) return;
  const absl::Duration gap = now - last_tick_;
  if (gap > options_.heartbeat) {
    // This process was stopped, or starved. Nobody else is to blame for not having been heard.
    for (absl::Time* time : {&chief_heard_, &chief_lost_at_, &joining_since_, &arbiter_answered_,
                             &lease_changed_, &change_wanted_since_}) {
      if (*time < now) *time = std::min(*time + gap, now);
    }
    if (coordinator_ != nullptr) coordinator_->Excuse(now, gap);
    proposal_.reset();
  }
  last_tick_ = now;
  if (now >= leave_by_) {
    EndWith(absl::OkStatus());
    return;
  }
  AskArbiter(now);
  if (coordinator_ != nullptr) {
    TickChief(now);
  } else if (is_member_) {
    TickMember(now);
  } else {
    TickJoining(now);
  }
  if (!ended_) TickProposal(now);
  Drain(now);
}

void Node::TickMember(absl::Time now) {
  if (!chief_lost_ && now - chief_heard_ > options_.lost_after) {
    LoseChief(now,
              absl::StrCat("has not answered for ", absl::FormatDuration(options_.lost_after)));
  }
  if (!chief_lost_ || options_.mutation == Mutation::kNobodyIsElected) return;
  const absl::Duration without = now - chief_lost_at_;
  if (options_.has_arbiter) {
    if (now - arbiter_answered_ > options_.arbiter_timeout) {
      EndWith(errors::Unavailable(
          "the chief, ", Describe(*Chief()), ", is lost, and the arbiter, which would decide on ",
          "another, has not answered for ", absl::FormatDuration(options_.arbiter_timeout)));
    } else if (without > options_.start_timeout) {
      EndWith(errors::DeadlineExceeded(WhatIsMissing()));
    } else if (now >= elect_at_ && !proposal_.has_value() && !ClaimIsPending(now) &&
               LeaseIsStale(now)) {
      Propose(now, absl::nullopt);
    }
  } else if (without > options_.minority_after) {
    EndWith(errors::FailedPrecondition(
        "this worker (", self_.name(), ") has lost its chief, ", Describe(*Chief()),
        ", and is in a minority: more than half of the ", known_->members_size(),
        " members of generation ", known_->number(),
        " must agree on another, and there is no arbiter (a launcher, or a lease in the folder of "
        "checkpoints); ",
        last_refusal_));
  } else if (now >= elect_at_ && !proposal_.has_value()) {
    Propose(now, absl::nullopt);
  }
}

void Node::TickJoining(absl::Time now) {
  if (now - joining_since_ > options_.start_timeout) {
    EndWith(errors::DeadlineExceeded(WhatIsMissing()));
    return;
  }
  if (options_.has_arbiter) {
    if (now - arbiter_answered_ > options_.arbiter_timeout) {
      EndWith(errors::Unavailable("the arbiter, which says who is chief, has not answered for ",
                                  absl::FormatDuration(options_.arbiter_timeout)));
      return;
    }
    if (ClaimIsPending(now)) return;
    const bool chief_is_silent = now - chief_heard_ > options_.lost_after;
    if (arbiter_is_empty_ && now - joining_since_ >= Stagger()) {
      Claim(now, Successor(nullptr, {self_}));
    } else if (known_.has_value() && chief_is_silent &&
               LeaseIsStale(now - kNewcomersWait - Stagger())) {
      Claim(now, Successor(&*known_, {self_}));
    }
    return;
  }
  MakeFirstGeneration(now);
  if (!is_member_ && known_.has_value() && now - chief_heard_ > 2 * options_.lost_after) {
    // The job that it heard of is no more. It may be part of a new one, as another incarnation, so
    // that no vote of this one counts.
    known_.reset();
    BecomeNew(now);
  }
}

void Node::MakeFirstGeneration(absl::Time now) {
  // Only the first of the cluster's tasks, and only when all of them are here and in no generation:
  // then there is no other job that could go on without them.
  if (known_.has_value()) return;
  if (!options_.seeds.empty() && options_.seeds[0].name != self_.name()) return;
  std::vector<MemberInfo> members = {self_};
  for (const SeedTask& seed : options_.seeds) {
    if (seed.name == self_.name()) continue;
    const auto found = fresh_.find(seed.name);
    if (found == fresh_.end() || now - found->second.second > options_.lost_after) return;
    members.push_back(found->second.first);
  }
  Decided(now, Successor(nullptr, members));
}

void Node::TickChief(absl::Time now) {
  Coordinator& coordinator = *coordinator_;
  coordinator.Tick(now);
  if (options_.has_fence && now >= next_fence_) {
    next_fence_ = now + options_.heartbeat;
    ArbiterQuestion question;
    question.kind = ArbiterQuestion::Kind::kRaiseFence;
    question.number = known_->number();
    if (!coordinator.started()) host_->Ask(question);
  }
  if (!coordinator.stop().ok()) {
    const absl::Status stop = coordinator.stop();
    SendDirectives(now);
    EndWith(stop);
    return;
  }
  if (coordinator.released()) {
    leave_by_ = std::min(leave_by_, now + kLastWords);
    return;
  }
  const auto wanted = coordinator.WantedMembers(now);
  if (!wanted.has_value()) {
    change_wanted_since_ = absl::InfiniteFuture();
    return;
  }
  change_wanted_since_ = std::min(change_wanted_since_, now);
  const absl::Duration without = now - change_wanted_since_;
  if (options_.has_arbiter && without > options_.arbiter_timeout) {
    EndWith(errors::Unavailable("generation ", known_->number(), " cannot go on (",
                                coordinator.broken_reason(),
                                "), and the arbiter has not decided on another for ",
                                absl::FormatDuration(options_.arbiter_timeout)));
  } else if (!options_.has_arbiter && without > options_.minority_after) {
    EndWith(errors::FailedPrecondition(
        "generation ", known_->number(), " cannot go on (", coordinator.broken_reason(),
        "), and this worker (", self_.name(), ") is in a minority: more than half of its ",
        known_->members_size(),
        " members must agree on another, and there is no arbiter (a launcher, or a lease in the "
        "folder of checkpoints); ",
        last_refusal_));
  } else if (!proposal_.has_value() && !ClaimIsPending(now) && now >= elect_at_) {
    Propose(now, *wanted);
  }
}

// The program ----------------------------------------------------------------------------------

void Node::ReportStep(absl::Time now, int64_t step) {
  completed_step_ = step;
  if (sync_.has_value()) report_now_ = true;
  Drain(now);
}

void Node::Arrive(absl::Time now, const std::string& barrier) {
  if (!in_group_) return;
  barriers_.insert(barrier);
  report_now_ = true;
  Drain(now);
}

void Node::GiveUpBarrier(const std::string& barrier) {
  barriers_.erase(barrier);
  missing_.erase(barrier);
}

uint64_t Node::Put(absl::Time now, const std::string& key, const std::string& value) {
  KeyValue put;
  put.set_key(key);
  put.set_value(value);
  puts_.push_back(std::move(put));
  const uint64_t number = next_put_++;
  report_now_ = true;
  Drain(now);
  return number;
}

void Node::Want(absl::Time now, const std::string& key) {
  if (!in_group_) return;
  wanted_.insert(key);
  report_now_ = true;
  Drain(now);
}

void Node::GiveUpKey(const std::string& key) { wanted_.erase(key); }

void Node::GiveUpGroup(absl::Time now, const absl::Status& reason) {
  if (ended_ || !in_group_) return;
  // The chief hears of it by the next report, which may be one to itself.
  LeaveGroup(errors::Aborted(reason.message()));
  Drain(now);
}

void Node::WishToLeave(absl::Time now, bool save) {
  if (ended_) return;
  wants_to_leave_ = true;
  save_ = save_ || save;
  report_now_ = true;
  if (!is_member_) EndWith(absl::OkStatus());
  Drain(now);
}

void Node::Leave(absl::Time now) {
  if (ended_) return;
  leaving_ = true;
  leave_by_ = now + kLeaveTime;
  report_now_ = true;
  if (!is_member_) EndWith(absl::OkStatus());
  Drain(now);
}

bool Node::HoldsAtSync() const {
  return sync_.has_value() && known_sync_ == sync_->id() && known_sync_step_ == sync_->step() &&
         completed_step_ >= sync_->step();
}

void Node::ReachedSync(absl::Time now, uint64_t id) {
  if (ended_ || !sync_.has_value() || sync_->id() != id) return;
  reached_sync_ = id;
  report_now_ = true;
  Drain(now);
}

std::vector<std::string> Node::MissingAt(const std::string& barrier) const {
  const auto found = missing_.find(barrier);
  return found == missing_.end() ? std::vector<std::string>() : found->second;
}

JobStatus Node::Status(absl::Time now) const {
  JobStatus status;
  *status.mutable_self() = self_;
  if (known_.has_value()) *status.mutable_generation() = *known_;
  status.set_started(in_group_);
  status.set_committed_step(committed_step_);
  status.set_min_members(options_.min_members);
  status.set_max_members(options_.max_members);
  if (!in_group_) status.set_waits_for(ended_ ? "this member has ended" : WhatIsMissing());
  if (coordinator_ != nullptr) {
    status.set_from_chief(true);
    coordinator_->FillStatus(now, &status);
  }
  return status;
}

std::string Node::WhatIsMissing() const {
  if (!is_member_) {
    if (known_.has_value()) {
      return absl::StrCat(self_.name(), " wants to join generation ", known_->number(),
                          "; its chief, ", Describe(*Chief()), ", does not take it in");
    }
    if (options_.has_arbiter) return absl::StrCat(self_.name(), " waits for the arbiter");
    std::vector<std::string> missing;
    for (const SeedTask& seed : options_.seeds) {
      if (seed.name == self_.name() || fresh_.count(seed.name) > 0) continue;
      missing.push_back(absl::StrCat(seed.name, " at ", seed.address));
    }
    const bool makes = !options_.seeds.empty() && options_.seeds[0].name == self_.name();
    return absl::StrCat(
        self_.name(), " waits for ",
        makes ? absl::StrJoin(missing, ", ")
              : absl::StrCat(options_.seeds.empty() ? "nobody" : options_.seeds[0].name,
                             ", which waits for all tasks of the cluster"));
  }
  if (chief_lost_) {
    return absl::StrCat("the chief of generation ", known_->number(), ", ", Describe(*Chief()),
                        ", is lost, and there is no other yet; ", last_refusal_);
  }
  if (known_->members_size() < options_.min_members) {
    return absl::StrCat("generation ", known_->number(), " has ", known_->members_size(),
                        " of at least ", options_.min_members, " workers: ", Names(*known_));
  }
  return absl::StrCat("generation ", known_->number(),
                      " is being formed; not all have entered it: ", Names(*known_));
}

}  // namespace tandem::membership
