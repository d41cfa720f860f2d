// What a node says and hears, but for votes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/cluster/membership/node.h"

namespace tandem::membership {
namespace {

// What is under way is repeated sooner than a heartbeat.
constexpr absl::Duration kRepeat = absl::Milliseconds(250);
constexpr absl::Duration kBetweenDirectives = absl::Milliseconds(500);
// Two refusals this far apart are no accident of one moment.
constexpr absl::Duration kBetweenRefusals = absl::Milliseconds(150);

}  // namespace

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

}  // namespace tandem::membership
