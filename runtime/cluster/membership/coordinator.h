// Coordinator: what the chief of a generation knows and decides. A state machine: reports of
// members and the passing of time go in; what members are told, and the wish for another
// generation, come out. It does not say who is chief: that is the node's (node.h), which makes a
// Coordinator when a generation is decided whose first member it is.
//
//   formed   -> started   all members have entered, enough of them, the fence is raised
//   any      -> broken    a member is gone, or has left the group; its successor is wanted at once
//   started  -> syncing   members want to come or leave; all agree on a step at which they do
//   syncing  -> (next)    all have reached it
//
// Threads: one.
#ifndef TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COORDINATOR_H_
#define TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/membership.pb.h"
#include "runtime/cluster/membership/options.h"

namespace tandem::membership {

// "worker:1 at 10.0.0.2:2222 (host b, pid 4711)".
std::string Describe(const MemberInfo& member);
bool IsSame(const MemberInfo& a, const MemberInfo& b);  // Name and incarnation.
// Null: it is none of them.
const MemberInfo* FindMember(const Generation& generation, const std::string& name,
                             uint64_t incarnation);

class Coordinator {
 public:
  // `options` outlives this.
  Coordinator(const MembershipOptions* options, Generation generation, absl::Time now);

  const Generation& generation() const { return generation_; }

  void OnReport(absl::Time now, const Report& report);
  // Nobody listens at the address.
  void OnRefused(absl::Time now, const std::string& address);
  // How high the fence is. As high as this generation's number: it keeps older chiefs from writing.
  // Higher: a generation with a greater number has to follow this one.
  // `checkpoint`: the step of the newest checkpoint behind it; -1: there is none.
  void OnFence(uint64_t highest, int64_t checkpoint);
  void Tick(absl::Time now);
  // This process stood still for so long: others cannot be blamed for silence.
  void Excuse(absl::Time now, absl::Duration by);

  // The members of the generation that should follow, by rank. Nothing: no change is due.
  absl::optional<std::vector<MemberInfo>> WantedMembers(absl::Time now) const;

  // Everything that `to` should know. Numbers directives.
  Directive DirectiveFor(const MemberInfo& to);
  // The members that should hear now of something that changed since the last call.
  std::vector<MemberInfo> TakeNews();

  // What it knows, for people.
  void FillStatus(absl::Time now, JobStatus* status) const;
  bool broken() const { return !broken_.empty(); }
  const std::string& broken_reason() const { return broken_; }
  bool started() const { return started_; }
  bool released() const { return released_; }
  int64_t committed_step() const { return committed_step_; }
  // Not OK: the job cannot go on.
  const absl::Status& stop() const { return stop_; }
  void Stop(absl::Status status) {
    stop_ = std::move(status);
    news_ = true;
  }

 private:
  struct Peer {
    MemberInfo info;
    absl::Time heard;
    Report report;
    bool installed = false;
    bool gone = false;
    int refusals = 0;
    absl::Time first_refusal;
  };
  struct Barrier {
    std::set<std::string> came;
    bool open = false;
  };

  void OnMemberReport(absl::Time now, Peer& peer, const Report& report);
  void Break(std::string reason);
  void Lose(Peer& peer, const std::string& why);
  void StartIfComplete(absl::Time now);
  void NoteStep(Peer& peer);
  void UpdateSync(absl::Time now);
  void UpdateBarriers();
  bool Wants(const Peer& peer) const {
    return peer.report.wants_to_leave() || peer.report.leaving();
  }
  int NumStaying() const;

  const MembershipOptions& options_;
  const Generation generation_;
  absl::Time formed_;
  std::map<std::string, Peer> members_;
  std::map<std::string, Peer> joiners_;
  absl::Time last_join_ = absl::InfinitePast();
  absl::Time first_leave_ = absl::InfiniteFuture();
  bool fence_raised_;
  bool is_below_fence_ = false;
  bool started_ = false;
  bool released_ = false;
  int64_t start_step_ = -1;
  uint32_t source_rank_ = 0;
  int64_t checkpoint_step_ = -1;
  bool from_checkpoint_ = false;
  int64_t committed_step_ = -1;
  std::string broken_;
  std::map<std::string, Barrier> barriers_;
  std::map<std::string, std::string> values_;
  std::map<std::string, uint64_t> acknowledged_puts_;
  absl::optional<SyncPoint> sync_;
  absl::Time sync_began_;
  int64_t sync_margin_ = 2;
  bool sync_done_ = false;
  absl::Status stop_;
  // How many steps were committed when, once a second, for some seconds.
  std::deque<std::pair<absl::Time, int64_t>> pace_;
  bool news_ = true;  // For all.
  std::set<std::string> news_for_;
  uint64_t sequence_ = 0;
};

}  // namespace tandem::membership

#endif  // TANDEM_RUNTIME_CLUSTER_MEMBERSHIP_COORDINATOR_H_
