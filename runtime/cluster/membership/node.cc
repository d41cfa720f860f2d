#include "runtime/cluster/membership/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem::membership {
namespace {

// What is under way is repeated sooner than a heartbeat.
constexpr absl::Duration kRepeat = absl::Milliseconds(250);
constexpr absl::Duration kBetweenDirectives = absl::Milliseconds(500);
constexpr absl::Duration kBetweenRefusals = absl::Milliseconds(150);
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

// Time ---------------------------------------------------------------------------------------

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

// Messages -----------------------------------------------------------------------------------

void Node::OnMessage(absl::Time now, const Envelope& envelope) {
  if (ended_) return;
  Handle(now, envelope);
  Drain(now);
}

void Node::Handle(absl::Time now, const Envelope& envelope) {
  if (envelope.to() != self_.name()) return;
  const MemberInfo& from = envelope.from();
  if (is_member_ && coordinator_ == nullptr && !chief_lost_ && from.name() == Chief()->name() &&
      from.incarnation() > Chief()->incarnation()) {
    LoseChief(now, "was started again");
  }
  if (envelope.to_incarnation() != 0 && envelope.to_incarnation() != self_.incarnation()) {
    if (envelope.to_incarnation() < self_.incarnation() && envelope.has_report()) {
      // Who reports to the one that was here before should not wait for it.
      Envelope hint;
      hint.mutable_directive();
      SendTo(from, std::move(hint));
    }
    return;
  }
  switch (envelope.body_case()) {
    case Envelope::kReport:
      return OnReport(now, envelope);
    case Envelope::kDirective:
      return OnDirective(now, envelope);
    case Envelope::kPrepare:
      return OnPrepare(now, envelope);
    case Envelope::kPromise:
      return OnPromise(now, envelope);
    case Envelope::kAccept:
      return OnAccept(now, envelope);
    case Envelope::kAccepted:
      return OnAccepted(now, envelope);
    case Envelope::BODY_NOT_SET:
      return;
  }
}

// Sends what became due, until nothing is left that this process says to itself.
void Node::Drain(absl::Time now) {
  while (!ended_) {
    SendReports(now);
    SendDirectives(now);
    if (to_self_.empty()) return;
    const Envelope envelope = std::move(to_self_.front());
    to_self_.pop_front();
    Handle(now, envelope);
  }
}

void Node::SendTo(const MemberInfo& to, Envelope envelope) {
  SendTo(to.name(), to.address(), to.incarnation(), std::move(envelope));
}

void Node::SendTo(const std::string& name, const std::string& address, uint64_t incarnation,
                  Envelope envelope) {
  *envelope.mutable_from() = self_;
  envelope.set_to(name);
  envelope.set_to_incarnation(incarnation);
  if (name == self_.name() && (incarnation == 0 || incarnation == self_.incarnation())) {
    to_self_.push_back(std::move(envelope));
  } else if (address != self_.address()) {
    host_->Send(address, envelope);
  }
}

Report Node::MakeReport() {
  Report report;
  report.set_sequence(++report_sequence_);
  *report.mutable_self() = self_;
  if (known_.has_value()) report.set_run(known_->run());
  report.set_completed_step(completed_step_);
  report.set_leaving(leaving_);
  report.set_wants_to_leave(wants_to_leave_);
  report.set_save(save_);
  if (!is_member_) return report;
  report.set_generation(known_->number());
  if (!lost_.ok()) {
    report.set_lost_group(true);
    report.set_lost_reason(std::string(lost_.message()));
  }
  for (const std::string& barrier : barriers_) report.add_barriers(barrier);
  report.set_first_put(next_put_ - puts_.size());
  for (const KeyValue& put : puts_) *report.add_puts() = put;
  for (const std::string& key : wanted_) report.add_wanted_keys(key);
  report.set_known_sync(known_sync_);
  report.set_known_sync_step(known_sync_step_);
  report.set_reached_sync(reached_sync_);
  return report;
}

void Node::SendReports(absl::Time now) {
  if (ended_ || (!report_now_ && now < next_report_)) return;
  report_now_ = false;
  const bool waits = is_member_ && (!in_group_ || !barriers_.empty() || !puts_.empty() ||
                                    !wanted_.empty() || sync_.has_value() || leaving_);
  next_report_ = now + (waits ? std::min(kRepeat, options_.heartbeat) : options_.heartbeat);
  Envelope envelope;
  *envelope.mutable_report() = MakeReport();
  if (is_member_) {
    SendTo(*Chief(), std::move(envelope));
    return;
  }
  if (known_.has_value()) {
    for (const MemberInfo& member : known_->members()) {
      SendTo(member, envelope);
      if (options_.has_arbiter) break;  // The chief is enough.
    }
  }
  if (options_.has_arbiter) return;
  for (const SeedTask& seed : options_.seeds) {
    if (seed.name != self_.name()) SendTo(seed.name, seed.address, 0, envelope);
  }
}

void Node::SendDirectives(absl::Time now) {
  if (ended_ || coordinator_ == nullptr) return;
  std::vector<MemberInfo> members = coordinator_->TakeNews();
  if (now >= next_directive_) {
    next_directive_ = now + kBetweenDirectives;
    members.assign(known_->members().begin(), known_->members().end());
  }
  for (const MemberInfo& member : members) {
    Envelope envelope;
    *envelope.mutable_directive() = coordinator_->DirectiveFor(member);
    SendTo(member, std::move(envelope));
  }
}

void Node::OnReport(absl::Time now, const Envelope& envelope) {
  const Report& report = envelope.report();
  const MemberInfo& from = report.self();
  if (from.name().empty() || from.name() != envelope.from().name()) return;
  Envelope answer;
  if (coordinator_ != nullptr) {
    coordinator_->OnReport(now, report);
    *answer.mutable_directive() = coordinator_->DirectiveFor(from);
    SendTo(from, std::move(answer));
  } else if (is_member_) {
    // Hearsay is not passed on: it would outlive the job.
    *answer.mutable_directive()->mutable_generation() = *known_;
    SendTo(from, std::move(answer));
  } else if (report.run() == 0 && !options_.has_arbiter) {
    auto& [info, heard] = fresh_[from.name()];
    if (info.incarnation() <= from.incarnation()) {
      info = from;
      heard = now;
    }
  } else {
    fresh_.erase(from.name());
  }
}

void Node::OnDirective(absl::Time now, const Envelope& envelope) {
  const Directive& directive = envelope.directive();
  const Generation& generation = directive.generation();
  Learn(now, generation);
  if (ended_ || !known_.has_value() || !directive.from_chief()) return;
  if (generation.run() != known_->run() || generation.number() != known_->number()) return;
  if (!IsSame(envelope.from(), *Chief())) return;
  chief_heard_ = now;
  chief_refusals_ = 0;
  chief_lost_ = false;
  if (directive.stop_code() != 0) {
    EndWith(absl::Status(static_cast<absl::StatusCode>(directive.stop_code()),
                         directive.stop_message()));
    return;
  }
  if (!is_member_) {
    joining_since_ = now;
    return;
  }
  if (directive.sequence() <= directive_sequence_) return;
  directive_sequence_ = directive.sequence();
  committed_step_ = std::max(committed_step_, directive.committed_step());
  if (directive.released() && (leaving_ || wants_to_leave_)) {
    EndWith(absl::OkStatus());
    return;
  }
  if (!directive.broken().empty()) {
    if (lost_.ok()) LeaveGroup(errors::Aborted(directive.broken()));
    return;
  }
  const bool is_sound = directive.source_rank() < static_cast<uint32_t>(known_->members_size());
  if (directive.started() && !in_group_ && lost_.ok() && is_sound) {
    Group group;
    group.generation = *known_;
    for (int rank = 0; rank < known_->members_size(); ++rank) {
      if (IsSame(known_->members(rank), self_)) group.rank = rank;
    }
    group.start_step = directive.start_step();
    group.source_rank = static_cast<int>(directive.source_rank());
    group.from_checkpoint = directive.from_checkpoint();
    in_group_ = true;
    host_->GroupFormed(group);
    report_now_ = true;
  }
  if (!in_group_) return;
  for (const std::string& barrier : directive.open_barriers()) {
    if (barriers_.erase(barrier) == 0) continue;
    missing_.erase(barrier);
    host_->BarrierOpened(barrier);
    report_now_ = true;
  }
  for (const BarrierWait& wait : directive.waits()) {
    if (barriers_.count(wait.barrier()) == 0) continue;
    missing_[wait.barrier()].assign(wait.missing().begin(), wait.missing().end());
  }
  while (!puts_.empty() && next_put_ - puts_.size() <= directive.acknowledged_put()) {
    host_->PutDone(next_put_ - puts_.size());
    puts_.pop_front();
  }
  for (const KeyValue& value : directive.values()) {
    if (wanted_.erase(value.key()) > 0) host_->ValueArrived(value.key(), value.value());
  }
  if (directive.has_sync()) {
    const SyncPoint& sync = directive.sync();
    const bool changed = !sync_.has_value() || sync_->id() != sync.id() ||
                         sync_->step() != sync.step() || sync_->is_final() != sync.is_final();
    if (changed) {
      if (completed_step_ < sync.step()) {
        known_sync_ = sync.id();
        known_sync_step_ = sync.step();
      }
      sync_ = sync;
      report_now_ = true;
      host_->SyncChanged(sync_);
    }
  }
}

// Generations --------------------------------------------------------------------------------

const MemberInfo* Node::Chief() const { return known_.has_value() ? &known_->members(0) : nullptr; }

void Node::Learn(absl::Time now, const Generation& generation) {
  if (generation.number() == 0 || generation.members_size() == 0) return;
  if (known_.has_value()) {
    if (!options_.has_arbiter && generation.run() != known_->run()) return;
    if (generation.number() <= known_->number()) return;
  }
  const bool was_member = is_member_;
  if (was_member && options_.mutation != Mutation::kGroupIsNotLeft) {
    LeaveGroup(errors::Aborted("generation ", generation.number(), " follows, with ",
                               generation.members_size(), " members: ", Names(generation)));
  }
  in_group_ = false;
  known_ = generation;
  is_member_ = FindMember(generation, self_.name(), self_.incarnation()) != nullptr;
  lost_ = absl::OkStatus();
  directive_sequence_ = 0;
  vote_ = Vote();
  proposal_.reset();
  if (claim_.has_value() && claim_->number() <= generation.number()) claim_.reset();
  coordinator_.reset();
  change_wanted_since_ = absl::InfiniteFuture();
  chief_lost_ = false;
  chief_heard_ = now;
  chief_refusals_ = 0;
  elect_at_ = now;
  last_refusal_.clear();
  known_sync_ = reached_sync_ = 0;
  known_sync_step_ = 0;
  fresh_.clear();
  report_now_ = true;
  if (is_member_) {
    next_fence_ = now;
    if (IsSame(*Chief(), self_)) {
      coordinator_ = std::make_unique<Coordinator>(&options_, generation, now);
    }
  } else if (was_member && (leaving_ || wants_to_leave_)) {
    EndWith(absl::OkStatus());
  } else if (was_member) {
    BecomeNew(now);
  }
}

void Node::LeaveGroup(const absl::Status& reason) {
  const bool was_in_group = std::exchange(in_group_, false);
  if (is_member_) lost_ = reason;
  barriers_.clear();
  missing_.clear();
  puts_.clear();
  wanted_.clear();
  sync_.reset();
  report_now_ = true;
  if (was_in_group) {
    host_->GroupLost(*known_, reason);
    host_->SyncChanged(absl::nullopt);
  }
}

void Node::BecomeNew(absl::Time now) {
  self_.set_incarnation(self_.incarnation() + 1);
  is_member_ = false;
  joining_since_ = now;
  chief_heard_ = now;
  report_now_ = true;
}

void Node::EndWith(const absl::Status& status) {
  if (ended_) return;
  LeaveGroup(status.ok() ? errors::Cancelled("this worker leaves the job") : status);
  ended_ = true;
  host_->Ended(status);
}

void Node::LoseChief(absl::Time now, const std::string& why) {
  chief_lost_ = true;
  chief_lost_at_ = now;
  elect_at_ = now + Stagger();
  if (in_group_) {
    LeaveGroup(errors::Unavailable("the chief, ", Describe(*Chief()), ", ", why));
  }
}

void Node::OnRefused(absl::Time now, const std::string& address) {
  if (ended_) return;
  if (coordinator_ != nullptr) {
    coordinator_->OnRefused(now, address);
  } else if (is_member_ && !chief_lost_ && Chief()->address() == address) {
    if (chief_refusals_++ == 0) first_refusal_ = now;
    if (now - first_refusal_ >= kBetweenRefusals) {
      LoseChief(now, "is gone: nobody listens there");
    } else {
      next_report_ = std::min(next_report_, now + kBetweenRefusals);
    }
  }
  Drain(now);
}

// The arbiter --------------------------------------------------------------------------------

void Node::AskArbiter(absl::Time now) {
  if (!options_.has_arbiter || now < next_read_) return;
  next_read_ = now + options_.heartbeat;
  ArbiterQuestion question;
  if (coordinator_ != nullptr) {
    question.kind = ArbiterQuestion::Kind::kRenew;
    question.number = known_->number();
    question.beat = ++beat_;
  }
  host_->Ask(question);
}

void Node::OnArbiter(absl::Time now, const ArbiterAnswer& answer) {
  if (ended_) return;
  if (answer.kind == ArbiterQuestion::Kind::kRaiseFence) {
    if (answer.status.ok() && coordinator_ != nullptr && known_->number() == answer.number) {
      fence_ = std::max(fence_, answer.fence);
      coordinator_->OnFence(answer.fence, answer.checkpoint_step);
    }
    Drain(now);
    return;
  }
  if (answer.status.ok()) {
    if (answer.kind == ArbiterQuestion::Kind::kClaim && answer.won) {
      Decided(now, answer.state.generation());
    }
    if (!ended_) NoteArbiterState(now, answer.state);
  } else if (answer.kind == ArbiterQuestion::Kind::kClaim) {
    claim_.reset();
    last_refusal_ = std::string(answer.status.message());
    elect_at_ = now + kRepeat;
  }
  Drain(now);
}

void Node::NoteArbiterState(absl::Time now, const ArbiterState& state) {
  arbiter_answered_ = now;
  arbiter_is_empty_ = state.generation().number() == 0;
  if (arbiter_is_empty_) return;
  if (state.generation().number() < lease_number_) return;  // Overtaken.
  if (state.generation().number() != lease_number_ || state.beat() != lease_beat_) {
    lease_number_ = state.generation().number();
    lease_beat_ = state.beat();
    lease_changed_ = now;
  }
  holder_is_gone_ = state.holder_is_gone();
  Learn(now, state.generation());
}

bool Node::LeaseIsStale(absl::Time now) const {
  return holder_is_gone_ || now - lease_changed_ > options_.lost_after;
}

// The program --------------------------------------------------------------------------------

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
