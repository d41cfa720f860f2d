// How a node takes part in deciding the next generation: it proposes, and it votes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/cluster/membership/node.h"

namespace tandem::membership {
namespace {

constexpr absl::Duration kSearchTime = absl::Milliseconds(1500);
constexpr absl::Duration kVoteTime = absl::Seconds(3);
// An answer of the arbiter that has not come by then is given up; it may come all the same.
constexpr absl::Duration kClaimTime = absl::Seconds(2);
// Whoever voted for another lets that one finish.
constexpr absl::Duration kGiveWay = absl::Seconds(1);
// Ballots of members are different: the round above these bits, the rank below.
constexpr int kRankBits = 16;

}  // namespace

Generation Node::Successor(const Generation* base, const std::vector<MemberInfo>& members) {
  Generation next;
  next.set_run(base == nullptr ? Random() | 1 : base->run());
  // A fence that is higher stems from a job that is no more; it may not hold back this one.
  next.set_number(std::max(base == nullptr ? 0 : base->number(), fence_) + 1);
  next.set_nonce(Random());
  for (const MemberInfo& member : members) *next.add_members() = member;
  return next;
}

bool Node::HasMajority(size_t votes, const Generation& of) const {
  const size_t size = static_cast<size_t>(of.members_size());
  if (options_.mutation == Mutation::kHalfIsMajority) return 2 * votes >= size;
  return 2 * votes > size;
}

bool Node::HearsChief(absl::Time now) const {
  if (coordinator_ != nullptr) return true;
  return !chief_lost_ && chief_refusals_ == 0 && now - chief_heard_ <= options_.lost_after;
}

bool Node::ClaimIsPending(absl::Time now) const {
  return claim_.has_value() && now - claimed_at_ < kClaimTime;
}

void Node::Claim(absl::Time now, Generation generation) {
  claim_ = std::move(generation);
  claimed_at_ = now;
  ArbiterQuestion question;
  question.kind = ArbiterQuestion::Kind::kClaim;
  question.claim = *claim_;
  question.number = known_.has_value() ? known_->number() : 0;
  host_->Ask(question);
}

void Node::Propose(absl::Time now, absl::optional<std::vector<MemberInfo>> wanted) {
  if (options_.has_arbiter && wanted.has_value()) {
    Claim(now, Successor(&*known_, *wanted));
    return;
  }
  uint64_t rank = 0;
  while (!IsSame(known_->members(static_cast<int>(rank)), self_)) ++rank;
  const uint64_t round = std::max(highest_ballot_, vote_.promised) >> kRankBits;
  proposal_.emplace();
  proposal_->base = *known_;
  proposal_->ballot = ((round + 1) << kRankBits) | rank;
  proposal_->began = now;
  proposal_->is_planned = wanted.has_value();
  if (wanted.has_value()) proposal_->wanted = std::move(*wanted);
  Envelope envelope;
  *envelope.mutable_prepare()->mutable_base() = *known_;
  envelope.mutable_prepare()->set_ballot(proposal_->ballot);
  for (const MemberInfo& member : known_->members()) SendTo(member, envelope);
}

void Node::FailProposal(absl::Time now) {
  std::vector<std::string> silent;
  for (const MemberInfo& member : proposal_->base.members()) {
    if (proposal_->promises.count(member.name()) == 0) silent.push_back(Describe(member));
  }
  if (last_refusal_.empty() && !silent.empty()) {
    last_refusal_ = "no vote came from ";
    for (const std::string& name : silent) {
      absl::StrAppend(&last_refusal_, &name == &silent[0] ? "" : ", ", name);
    }
  }
  proposal_.reset();
  elect_at_ = now + Stagger() + absl::Milliseconds(Random() % 300);
}

void Node::TickProposal(absl::Time now) {
  if (!proposal_.has_value()) return;
  const absl::Duration elapsed = now - proposal_->began;
  if (proposal_->value.has_value()) {
    if (elapsed > kVoteTime) FailProposal(now);
    return;
  }
  const size_t votes = proposal_->promises.size();
  const bool enough = options_.has_arbiter || HasMajority(votes, proposal_->base);
  // The chief, which is lost, has no say.
  bool all = votes + 1 >= static_cast<size_t>(proposal_->base.members_size());
  if (proposal_->is_planned) {
    // The chief does not wait for those that it knows to be lost.
    all = std::all_of(proposal_->wanted.begin(), proposal_->wanted.end(), [&](const auto& member) {
      return FindMember(proposal_->base, member.name(), member.incarnation()) == nullptr ||
             proposal_->promises.count(member.name()) > 0;
    });
  }
  if (enough && (all || elapsed >= options_.gather)) {
    Decide(now);
  } else if (elapsed > kSearchTime) {
    FailProposal(now);
  }
}

void Node::OnPrepare(absl::Time now, const Envelope& envelope) {
  const Prepare& prepare = envelope.prepare();
  Learn(now, prepare.base());
  if (ended_ || !known_.has_value() || prepare.base().run() != known_->run()) return;
  const MemberInfo& from = envelope.from();
  Envelope answer;
  if (prepare.base().number() != known_->number()) {
    *answer.mutable_directive()->mutable_generation() = *known_;
    SendTo(from, std::move(answer));
    return;
  }
  if (!is_member_ || FindMember(*known_, from.name(), from.incarnation()) == nullptr) return;
  if (options_.mutation == Mutation::kPromisesAreForgotten) vote_ = Vote();
  Promise& promise = *answer.mutable_promise();
  promise.set_run(known_->run());
  promise.set_base(known_->number());
  promise.set_ballot(prepare.ballot());
  promise.set_hears_chief(!IsSame(from, *Chief()) && HearsChief(now));
  promise.set_granted(prepare.ballot() > vote_.promised && !promise.hears_chief());
  if (promise.granted()) {
    vote_.promised = prepare.ballot();
    if (!IsSame(from, self_)) {
      elect_at_ = std::max(elect_at_, now + kGiveWay + Stagger());
      if (proposal_.has_value() && proposal_->ballot < prepare.ballot()) proposal_.reset();
    }
  }
  promise.set_highest(vote_.promised);
  promise.set_accepted_ballot(vote_.accepted_ballot);
  if (vote_.accepted_ballot != 0) *promise.mutable_accepted() = vote_.accepted;
  *promise.mutable_report() = MakeReport();
  SendTo(from, std::move(answer));
}

void Node::OnPromise(absl::Time now, const Envelope& envelope) {
  const Promise& promise = envelope.promise();
  if (!proposal_.has_value() || promise.run() != proposal_->base.run() ||
      promise.base() != proposal_->base.number() || promise.ballot() != proposal_->ballot) {
    return;
  }
  const MemberInfo& from = envelope.from();
  if (FindMember(proposal_->base, from.name(), from.incarnation()) == nullptr) return;
  if (!promise.granted()) {
    highest_ballot_ = std::max(highest_ballot_, promise.highest());
    last_refusal_ = promise.hears_chief()
                        ? absl::StrCat(from.name(), " still hears the chief")
                        : absl::StrCat(from.name(), " has voted for somebody else");
    // With an arbiter one alone could go on. It waits until the others have noticed, too.
    const bool may_notice = now - chief_lost_at_ < options_.lost_after;
    if (options_.has_arbiter && promise.hears_chief() && may_notice) FailProposal(now);
    return;
  }
  proposal_->promises[from.name()] = promise;
  if (!proposal_->value.has_value()) TickProposal(now);
}

void Node::Decide(absl::Time now) {
  std::vector<MemberInfo> members;
  if (proposal_->is_planned) {
    members = proposal_->wanted;
  } else {
    // The new chief first.
    if (!leaving_ && !wants_to_leave_) members.push_back(self_);
    for (const MemberInfo& member : proposal_->base.members()) {
      const auto promise = proposal_->promises.find(member.name());
      if (promise == proposal_->promises.end() || IsSame(member, self_)) continue;
      const Report& report = promise->second.report();
      if (!report.leaving() && !report.wants_to_leave()) members.push_back(member);
    }
  }
  if (members.empty()) {
    EndWith(absl::OkStatus());  // All that are left wanted to leave.
    return;
  }
  Generation value = Successor(&proposal_->base, members);
  if (options_.has_arbiter) {
    proposal_.reset();
    Claim(now, std::move(value));
    return;
  }
  // What may have been decided already stays so.
  uint64_t highest = 0;
  for (const auto& [name, promise] : proposal_->promises) {
    if (promise.accepted_ballot() <= highest) continue;
    if (options_.mutation == Mutation::kPromisesAreForgotten) continue;
    highest = promise.accepted_ballot();
    value = promise.accepted();
  }
  proposal_->value = value;
  Envelope envelope;
  Accept& accept = *envelope.mutable_accept();
  *accept.mutable_base() = proposal_->base;
  accept.set_ballot(proposal_->ballot);
  *accept.mutable_value() = value;
  const Generation base = proposal_->base;
  for (const MemberInfo& member : base.members()) SendTo(member, envelope);
}

void Node::OnAccept(absl::Time now, const Envelope& envelope) {
  const Accept& accept = envelope.accept();
  Learn(now, accept.base());
  if (ended_ || !is_member_ || accept.base().run() != known_->run() ||
      accept.base().number() != known_->number() || accept.value().number() <= known_->number()) {
    return;
  }
  const MemberInfo& from = envelope.from();
  if (FindMember(*known_, from.name(), from.incarnation()) == nullptr) return;
  Envelope answer;
  Accepted& accepted = *answer.mutable_accepted();
  accepted.set_run(known_->run());
  accepted.set_base(known_->number());
  accepted.set_ballot(accept.ballot());
  accepted.set_granted(accept.ballot() >= vote_.promised ||
                       options_.mutation == Mutation::kPromisesAreForgotten);
  if (accepted.granted()) {
    vote_.promised = vote_.accepted_ballot = accept.ballot();
    vote_.accepted = accept.value();
    // More than half have to accept, so that a group of the old generation, which needs all of its
    // members, takes no step once the new one is decided.
    if (in_group_) {
      LeaveGroup(errors::Aborted("generation ", known_->number(), " ends: ", from.name(),
                                 " proposes the next one"));
    }
  }
  accepted.set_highest(vote_.promised);
  SendTo(from, std::move(answer));
}

void Node::OnAccepted(absl::Time now, const Envelope& envelope) {
  const Accepted& accepted = envelope.accepted();
  if (!proposal_.has_value() || !proposal_->value.has_value() ||
      accepted.run() != proposal_->base.run() || accepted.base() != proposal_->base.number() ||
      accepted.ballot() != proposal_->ballot) {
    return;
  }
  const MemberInfo& from = envelope.from();
  if (FindMember(proposal_->base, from.name(), from.incarnation()) == nullptr) return;
  if (!accepted.granted()) {
    highest_ballot_ = std::max(highest_ballot_, accepted.highest());
    FailProposal(now);
    return;
  }
  proposal_->accepted.insert(from.name());
  if (!HasMajority(proposal_->accepted.size(), proposal_->base)) return;
  const Generation value = *proposal_->value;
  Decided(now, value);
}

void Node::Decided(absl::Time now, const Generation& generation) {
  std::map<std::string, MemberInfo> concerned;
  if (known_.has_value()) {
    for (const MemberInfo& member : known_->members()) concerned[member.address()] = member;
  }
  for (const MemberInfo& member : generation.members()) concerned[member.address()] = member;
  Envelope envelope;
  *envelope.mutable_directive()->mutable_generation() = generation;
  for (const auto& [address, member] : concerned) {
    if (member.name() != self_.name()) SendTo(member, envelope);
  }
  Learn(now, generation);
}

}  // namespace tandem::membership
