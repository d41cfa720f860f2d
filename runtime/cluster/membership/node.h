// Node: one process's part in the membership of a job. A state machine: messages, answers of the
// arbiter, the passing of time and the wishes of the program go in; messages, questions to the
// arbiter and news for the program come out, through its host. It reads no clock, holds no thread
// and touches no file, so that a simulation can run a whole cluster of them (simulation/).
//
// Generations
//   A generation is a list of members, decided once and never changed. The next one is decided
//   either by an arbiter, a register that accepts each number once, or by a vote: more than half of
//   the members of the generation before have to accept it. The vote is Paxos (Lamport, The
//   Part-Time Parliament) with one decree a generation, so that two chiefs that both believe in
//   themselves cannot decide two. Votes need not outlive a process: one that is started again has
//   another incarnation, and no vote.
//
// Who is chief
//   The first member of the newest generation. It hears reports (every heartbeat), answers with
//   directives, and proposes the next generation when members come, go or are lost. When members
//   do not hear it, one of them proposes, the lowest rank first.
//
// What is lost on the way
//   Reports and directives say everything each time and are numbered, so that loss, repetition and
//   reordering do no harm. What belongs to another generation or incarnation is dropped.
//
//   joining -> member    a generation with this process is decided
//   member  -> joining   one without it is (it lost touch): it comes back with a new incarnation
//   member  -> left      it asked to leave, and may
//   any     -> stopped   it is in a minority, or alone, or the chief says so
//
// Threads: one. Lifetime: the host outlives it.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_NODE_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_NODE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/membership.pb.h"
#include "runtime/cluster/membership/coordinator.h"
#include "runtime/cluster/membership/options.h"

namespace tandem::membership {

// A question to the arbiter, or to the fence.
struct ArbiterQuestion {
  enum class Kind { kRead, kRenew, kClaim, kRaiseFence };
  Kind kind = Kind::kRead;
  Generation claim;
  uint64_t number = 0;  // Of a claim: the generation that it follows.
  uint64_t beat = 0;
};
struct ArbiterAnswer {
  ArbiterQuestion::Kind kind = ArbiterQuestion::Kind::kRead;
  // Not OK: it could not be reached.
  absl::Status status;
  bool won = false;              // Of a claim.
  ArbiterState state;            // Of all but kRaiseFence.
  uint64_t number = 0;           // kRaiseFence: the generation that asked,
  uint64_t fence = 0;            // how high the fence is now,
  int64_t checkpoint_step = -1;  // and the step of the newest checkpoint behind it.
};

// A group that may work.
struct Group {
  Generation generation;
  int rank = 0;
  // All members are to begin with the state after this step, which the member `source_rank` has.
  // -1: nobody has a state; it comes from a checkpoint, or is that of the beginning.
  int64_t start_step = -1;
  int source_rank = 0;
  // The state is in the newest checkpoint: `source_rank` has an older one itself, or none. (If
  // somebody removed it, the job begins with what there is.)
  bool from_checkpoint = false;
};

// What a Node asks of the outside. Called from within its events; may not call it back.
class NodeHost {
 public:
  virtual ~NodeHost() = default;

  // May be lost, late, twice, or overtake others.
  virtual void Send(const std::string& address, const Envelope& envelope) = 0;
  // Answered by Node::OnArbiter, some time or never.
  virtual void Ask(const ArbiterQuestion& question) = 0;

  virtual void GroupFormed(const Group& group) = 0;
  // What the group does must end now. Waits at barriers and for keys have ended, too.
  virtual void GroupLost(const Generation& generation, const absl::Status& reason) = 0;
  virtual void BarrierOpened(const std::string& barrier) = 0;
  virtual void PutDone(uint64_t number) = 0;
  virtual void ValueArrived(const std::string& key, const std::string& value) = 0;
  virtual void SyncChanged(const absl::optional<SyncPoint>& sync) = 0;
  // The end: OK, it left as it wished.
  virtual void Ended(const absl::Status& status) = 0;
};

class Node {
 public:
  // `self` has all but its incarnation, which grows from `first_incarnation` on. `seed`: of what is
  // random.
  Node(const MembershipOptions& options, MemberInfo self, uint64_t first_incarnation, uint64_t seed,
       NodeHost* host);

  void Start(absl::Time now);
  // Some ten times a heartbeat.
  void Tick(absl::Time now);
  void OnMessage(absl::Time now, const Envelope& envelope);
  void OnArbiter(absl::Time now, const ArbiterAnswer& answer);
  // Nobody listened at the address that something was sent to.
  void OnRefused(absl::Time now, const std::string& address);

  // The program. Steps grow, but after GroupFormed it may have any state.
  void ReportStep(absl::Time now, int64_t step);
  // In the group: names a barrier that is in no use. See BarrierOpened.
  void Arrive(absl::Time now, const std::string& barrier);
  void GiveUpBarrier(const std::string& barrier);
  // In the group. Numbers grow by one; see PutDone.
  uint64_t Put(absl::Time now, const std::string& key, const std::string& value);
  void Want(absl::Time now, const std::string& key);
  void GiveUpKey(const std::string& key);
  // In the group: it cannot go on here. It ends for all, and another one follows.
  void GiveUpGroup(absl::Time now, const absl::Status& reason);
  // At a step that all agree on, with a checkpoint there if `save`.
  void WishToLeave(absl::Time now, bool save);
  // At once: it takes no further step.
  void Leave(absl::Time now);
  // What the sync point asked for is done.
  void ReachedSync(absl::Time now, uint64_t id);

  // Newest generation known, also without this process.
  const absl::optional<Generation>& known() const { return known_; }
  const MemberInfo& self() const { return self_; }
  bool ended() const { return ended_; }
  bool in_group() const { return in_group_; }
  int64_t completed_step() const { return completed_step_; }
  int64_t committed_step() const { return committed_step_; }
  const absl::optional<SyncPoint>& sync() const { return sync_; }
  // No step may begin now: the sync point is reached. It may still be moved on, unless it is final.
  bool HoldsAtSync() const;
  bool is_chief() const { return coordinator_ != nullptr; }
  // Who is missing at a barrier, as far as the chief says.
  std::vector<std::string> MissingAt(const std::string& barrier) const;
  // How the job is, as far as this process knows.
  JobStatus Status(absl::Time now) const;
  // What it waits for, when it is in no group.
  std::string WhatIsMissing() const;

 private:
  // The proposer's half of a vote; with an arbiter, the search for those that live.
  struct Proposal {
    Generation base;
    uint64_t ballot = 0;
    absl::Time began;
    bool is_planned = false;  // By the chief of `base`, who knows who lives:
    std::vector<MemberInfo> wanted;
    std::map<std::string, Promise> promises;
    absl::optional<Generation> value;  // Being decided.
    std::set<std::string> accepted;
  };
  // The voter's half, for the generation after `known_`.
  struct Vote {
    uint64_t promised = 0;
    uint64_t accepted_ballot = 0;
    Generation accepted;
  };

  void Drain(absl::Time now);
  void Handle(absl::Time now, const Envelope& envelope);
  void OnReport(absl::Time now, const Envelope& envelope);
  void OnDirective(absl::Time now, const Envelope& envelope);
  void OnPrepare(absl::Time now, const Envelope& envelope);
  void OnPromise(absl::Time now, const Envelope& envelope);
  void OnAccept(absl::Time now, const Envelope& envelope);
  void OnAccepted(absl::Time now, const Envelope& envelope);

  // A generation that is decided.
  void Learn(absl::Time now, const Generation& generation);
  void LeaveGroup(const absl::Status& reason);
  void EndWith(const absl::Status& status);
  void BecomeNew(absl::Time now);

  void SendTo(const MemberInfo& to, Envelope envelope);
  void SendTo(const std::string& name, const std::string& address, uint64_t incarnation,
              Envelope envelope);
  Report MakeReport();
  void SendReports(absl::Time now);
  void SendDirectives(absl::Time now);
  void AskArbiter(absl::Time now);
  void NoteArbiterState(absl::Time now, const ArbiterState& state);
  bool LeaseIsStale(absl::Time now) const;

  const MemberInfo* Chief() const;
  bool HearsChief(absl::Time now) const;
  void LoseChief(absl::Time now, const std::string& why);
  void TickMember(absl::Time now);
  void TickJoining(absl::Time now);
  void TickChief(absl::Time now);
  void TickProposal(absl::Time now);
  void MakeFirstGeneration(absl::Time now);
  bool HasMajority(size_t votes, const Generation& of) const;
  // Without `wanted`: whoever lives, as the search tells.
  void Propose(absl::Time now, absl::optional<std::vector<MemberInfo>> wanted);
  void FailProposal(absl::Time now);
  void Decide(absl::Time now);
  void Claim(absl::Time now, Generation generation);
  bool ClaimIsPending(absl::Time now) const;
  // Tells everybody concerned, then itself.
  void Decided(absl::Time now, const Generation& generation);
  Generation Successor(const Generation* base, const std::vector<MemberInfo>& members);
  uint64_t Random();
  absl::Duration Stagger() const;

  const MembershipOptions options_;
  MemberInfo self_;
  uint64_t random_;
  NodeHost* const host_;

  bool ended_ = false;
  absl::Time last_tick_;
  absl::Time next_report_;
  bool report_now_ = false;
  uint64_t report_sequence_ = 0;
  std::deque<Envelope> to_self_;

  absl::optional<Generation> known_;
  bool is_member_ = false;  // Of known_.
  bool in_group_ = false;   // The group of known_ has begun and goes on.
  absl::Status lost_;       // Why the group of known_ was left.
  uint64_t directive_sequence_ = 0;
  absl::Time chief_heard_;
  int chief_refusals_ = 0;
  absl::Time first_refusal_;
  bool chief_lost_ = false;
  absl::Time chief_lost_at_;
  absl::Time elect_at_;
  absl::Time joining_since_;
  std::string last_refusal_;  // Why the last proposal failed.

  int64_t completed_step_ = -1;
  int64_t committed_step_ = -1;
  std::set<std::string> barriers_;
  std::map<std::string, std::vector<std::string>> missing_;
  uint64_t next_put_ = 1;
  std::deque<KeyValue> puts_;
  std::set<std::string> wanted_;
  absl::optional<SyncPoint> sync_;
  uint64_t known_sync_ = 0;
  int64_t known_sync_step_ = 0;
  uint64_t reached_sync_ = 0;
  bool leaving_ = false;
  bool wants_to_leave_ = false;
  bool save_ = false;
  absl::Time leave_by_ = absl::InfiniteFuture();

  std::unique_ptr<Coordinator> coordinator_;
  absl::Time next_directive_;
  absl::Time next_fence_;
  uint64_t fence_ = 0;  // How high it was seen.
  absl::Time change_wanted_since_ = absl::InfiniteFuture();
  Vote vote_;
  absl::optional<Proposal> proposal_;
  uint64_t highest_ballot_ = 0;
  // Seen by the maker of the first generation: who is in none.
  std::map<std::string, std::pair<MemberInfo, absl::Time>> fresh_;

  absl::Time next_read_;
  absl::Time arbiter_answered_;
  absl::Time lease_changed_;
  bool arbiter_is_empty_ = false;
  uint64_t lease_number_ = 0;
  uint64_t lease_beat_ = 0;
  bool holder_is_gone_ = false;
  uint64_t beat_ = 0;
  absl::optional<Generation> claim_;
  absl::Time claimed_at_;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_NODE_H_
