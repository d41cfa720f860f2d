// How a node enters generations and leaves them, and what it hears of them from the arbiter.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "runtime/cluster/membership/node.h"

namespace tandem::membership {
namespace {

// When the arbiter could not be reached with a claim.
constexpr absl::Duration kBetweenClaims = absl::Milliseconds(250);

std::string Names(const Generation& generation) {
  return absl::StrJoin(generation.members(), ", ", [](std::string* out, const MemberInfo& member) {
    out->append(Describe(member));
  });
}

}  // namespace

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
    elect_at_ = now + kBetweenClaims;
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

}  // namespace tandem::membership
