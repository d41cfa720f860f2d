#include "runtime/cluster/membership/membership.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/cluster/membership/fence.h"
#include "runtime/cluster/membership/folder_arbiter.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/threads/start_thread.h"

namespace tandem {
namespace {

using membership::Arbiter;
using membership::ArbiterAnswer;
using membership::ArbiterQuestion;
using membership::ControlTransport;
using membership::Envelope;
using membership::Fence;
using membership::Node;
using membership::NodeHost;
using membership::SyncPoint;

constexpr size_t kMostValueBytes = size_t{1} << 20;
constexpr size_t kMostQuestions = 16;

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

class MembershipImpl final : public Membership, private NodeHost {
 public:
  MembershipImpl(MembershipConfig config, std::unique_ptr<ControlTransport> transport,
                 std::unique_ptr<Arbiter> arbiter, std::unique_ptr<Fence> fence)
      : config_(std::move(config)),
        clock_(config_.clock == nullptr ? SteadyClock() : config_.clock),
        transport_(std::move(transport)),
        arbiter_(std::move(arbiter)),
        fence_(std::move(fence)) {}

  ~MembershipImpl() override {
    {
      MutexLock lock(mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread* thread : {&heart_, &asker_, &teller_}) {
      if (thread->joinable()) thread->join();
    }
    transport_->Stop();
  }

  void OnChange(std::function<void(const MembershipChange&)> callback) override {
    MutexLock lock(mu_);
    callback_ = std::move(callback);
  }

  absl::Status Join() override {
    {
      MutexLock lock(mu_);
      if (joined_) return errors::FailedPrecondition("the job was joined already");
      joined_ = true;
    }
    TANDEM_RETURN_IF_ERROR(transport_->Start(
        [this](const Envelope& envelope) {
          Outbox outbox(this);
          MutexLock lock(mu_);
          if (node_ != nullptr && !stopping_) node_->OnMessage(clock_->Now(), envelope);
        },
        [this](const std::string& address) {
          Outbox outbox(this);
          MutexLock lock(mu_);
          if (node_ != nullptr && !stopping_) node_->OnRefused(clock_->Now(), address);
        },
        [this] { return Status(); }));
    MemberInfo self;
    self.set_name(config_.name);
    self.set_address(transport_->address());
    self.set_host(HostName());
    self.set_pid(getpid());
    self.set_endpoint(config_.endpoint);
    // Greater than that of any process that had the name before; room for those that follow when
    // this one has to come back.
    const uint64_t incarnation = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
    {
      Outbox outbox(this);
      MutexLock lock(mu_);
      node_ = std::make_unique<Node>(config_.options, self, incarnation, std::random_device()(),
                                     static_cast<NodeHost*>(this));
      node_->Start(clock_->Now());
    }
    heart_ = StartThread("heartbeat", [this] { Beat(); });
    teller_ = StartThread("members-news", [this] { Tell(); });
    if (arbiter_ != nullptr || fence_ != nullptr) {
      asker_ = StartThread("arbiter", [this] { AskQuestions(); });
    }
    if (!heart_.joinable() || !teller_.joinable()) {
      return errors::ResourceExhausted("no thread for the membership's heartbeats");
    }
    return absl::OkStatus();
  }

  absl::optional<Group> CurrentGroup() const override {
    MutexLock lock(mu_);
    return group_;
  }
  absl::optional<Generation> CurrentGeneration() const override {
    MutexLock lock(mu_);
    return node_ == nullptr ? absl::nullopt : node_->known();
  }
  membership::JobStatus Status() const override {
    MutexLock lock(mu_);
    return node_ == nullptr ? membership::JobStatus() : node_->Status(clock_->Now());
  }
  MemberInfo self() const override {
    MutexLock lock(mu_);
    return node_->self();
  }
  bool is_chief() const override {
    MutexLock lock(mu_);
    return group_.has_value() && group_->rank == 0;
  }
  int64_t committed_step() const override {
    MutexLock lock(mu_);
    return node_ == nullptr ? -1 : node_->committed_step();
  }

  absl::StatusOr<Group> WaitForGroup(absl::Time deadline, uint64_t after) override {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckJoinedLocked());
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return group_.has_value() && group_->generation.number() > after;
    };
    TANDEM_RETURN_IF_ERROR(
        WaitLocked("a group", deadline, is_there, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
          return group_.has_value() ? absl::StrCat("generation ", group_->generation.number(),
                                                   " goes on; one after it was waited for")
                                    : node_->WhatIsMissing();
        }));
    return *group_;
  }

  absl::Status Barrier(uint64_t generation, const std::string& name, absl::Time deadline) override {
    Outbox outbox(this);
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckGroupLocked(generation));
    const std::string key = absl::StrCat(name, "#", ++barrier_uses_[name]);
    node_->Arrive(clock_->Now(), key);
    FlushLocked();
    const auto is_open = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return open_barriers_.count(key) > 0;
    };
    const absl::Status status = WaitInGroupLocked(
        generation, absl::StrCat("barrier '", name, "'"), deadline, is_open,
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
          const std::vector<std::string> missing = node_->MissingAt(key);
          return missing.empty() ? std::string("the chief has not answered")
                                 : absl::StrCat("missing: ", absl::StrJoin(missing, ", "));
        });
    open_barriers_.erase(key);
    if (!status.ok()) node_->GiveUpBarrier(key);
    return status;
  }

  absl::Status Put(uint64_t generation, const std::string& key, const std::string& value,
                   absl::Time deadline) override {
    if (value.size() > kMostValueBytes) {
      return errors::InvalidArgument("the value of key '", key, "' has ", value.size(),
                                     " bytes; at most ", kMostValueBytes, " are possible");
    }
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckGroupLocked(generation));
    const uint64_t number = node_->Put(clock_->Now(), key, value);
    FlushLocked();
    return WaitInGroupLocked(
        generation, absl::StrCat("putting key '", key, "'"), deadline,
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return last_put_ >= number; },
        [] { return std::string("the chief has not answered"); });
  }

  absl::StatusOr<std::string> WaitKey(uint64_t generation, const std::string& key,
                                      absl::Time deadline) override {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckGroupLocked(generation));
    values_.erase(key);
    node_->Want(clock_->Now(), key);
    FlushLocked();
    const absl::Status status = WaitInGroupLocked(
        generation, absl::StrCat("key '", key, "'"), deadline,
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return values_.count(key) > 0; },
        [] { return std::string("no member has put it"); });
    if (!status.ok()) {
      node_->GiveUpKey(key);
      return status;
    }
    return values_[key];
  }

  absl::StatusOr<StepAdvice> CompletedStep(int64_t step, absl::Time deadline) override {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckJoinedLocked());
    node_->ReportStep(clock_->Now(), step);
    FlushLocked();
    if (!group_.has_value()) return StepAdvice();
    const uint64_t generation = group_->generation.number();
    if (node_->HoldsAtSync()) {
      TANDEM_RETURN_IF_ERROR(WaitInGroupLocked(
          generation, absl::StrCat("agreement on what follows step ", step), deadline,
          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
            return !node_->HoldsAtSync() || node_->sync()->is_final();
          },
          [] { return std::string("not all members have heard of it yet"); }));
    }
    StepAdvice advice;
    if (node_->HoldsAtSync()) {
      advice.save = node_->sync()->save();
      advice.regroup = node_->sync()->regroup();
      advice.sync = node_->sync()->id();
    }
    return advice;
  }

  void ReachedSync(uint64_t sync) override {
    MutexLock lock(mu_);
    if (node_ == nullptr) return;
    node_->ReachedSync(clock_->Now(), sync);
    FlushLocked();
  }

  void GiveUpGroup(uint64_t generation, const absl::Status& reason) override {
    MutexLock lock(mu_);
    if (!CheckGroupLocked(generation).ok()) return;
    node_->GiveUpGroup(clock_->Now(), reason);
    FlushLocked();
  }

  void RequestPreemption() override {
    MutexLock lock(mu_);
    if (node_ == nullptr) return;
    node_->WishToLeave(clock_->Now(), /*save=*/true);
    FlushLocked();
  }

  absl::Status Leave(absl::Time deadline) override {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(CheckJoinedLocked());
    node_->Leave(clock_->Now());
    FlushLocked();
    while (!ended_) {
      if (!changed_.WaitUntil(mu_, deadline) && !ended_) {
        return errors::DeadlineExceeded("leaving the job: the chief has not answered");
      }
    }
    return end_;
  }

  std::unique_ptr<FileSystem> ChiefFiles(uint64_t generation) override {
    return fence_ == nullptr ? membership::UnfencedFiles() : fence_->Files(generation);
  }
  absl::Status NoteCheckpoint(uint64_t generation, int64_t step) override {
    return fence_ == nullptr ? absl::OkStatus() : fence_->NoteStep(generation, step);
  }

 private:
  // Sends, when it goes, what the node said meanwhile: not under the lock.
  class Outbox {
   public:
    explicit Outbox(MembershipImpl* owner) : owner_(*owner) {}
    ~Outbox() { owner_.SendAll(); }

   private:
    MembershipImpl& owner_;
  };

  void SendAll() ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<std::pair<std::string, Envelope>> messages;
    {
      MutexLock lock(mu_);
      messages.swap(outgoing_);
    }
    for (const auto& [address, envelope] : messages) transport_->Send(address, envelope);
  }
  // Before a wait: the heart sends it.
  void FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!outgoing_.empty()) changed_.NotifyAll();
  }

  absl::Status CheckJoinedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (node_ == nullptr) return errors::FailedPrecondition("the job was not joined");
    if (ended_) return EndLocked();
    return absl::OkStatus();
  }
  absl::Status EndLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return end_.ok() ? errors::Cancelled("this process has left the job") : end_;
  }
  absl::Status CheckGroupLocked(uint64_t generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TANDEM_RETURN_IF_ERROR(CheckJoinedLocked());
    if (group_.has_value() && group_->generation.number() == generation) return absl::OkStatus();
    const auto lost = lost_.find(generation);
    if (lost != lost_.end()) return lost->second;
    return errors::Aborted("generation ", generation, " is not that of the group (",
                           group_.has_value() ? absl::StrCat(group_->generation.number()) : "none",
                           ")");
  }

  absl::Status WaitInGroupLocked(uint64_t generation, const std::string& what, absl::Time deadline,
                                 absl::FunctionRef<bool()> is_done,
                                 absl::FunctionRef<std::string()> missing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    absl::Status lost;
    const absl::Status waited = WaitLocked(
        what, deadline,
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
          if (is_done()) return true;
          lost = CheckGroupLocked(generation);
          return !lost.ok();
        },
        missing);
    return lost.ok() ? waited : lost;
  }

  // `deadline` is the machine's time (absl::Now), as everywhere.
  absl::Status WaitLocked(const std::string& what, absl::Time deadline,
                          absl::FunctionRef<bool()> is_done,
                          absl::FunctionRef<std::string()> missing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    // Whoever waits in slices says himself who is missing.
    constexpr absl::Duration kSlice = absl::Milliseconds(500);
    const absl::Time begin = absl::Now();
    const bool may_warn = deadline != absl::InfiniteFuture() && deadline - begin >= kSlice;
    const absl::Time warn_at = may_warn ? begin + (deadline - begin) / 3 : deadline;
    bool warned = false;
    while (!is_done()) {
      if (ended_) return EndLocked();
      if (stopping_) return errors::Cancelled(what, ": the membership is being taken down");
      const absl::Time now = absl::Now();
      if (now >= deadline) {
        return errors::DeadlineExceeded(
            config_.name, " has waited ",
            absl::FormatDuration(absl::Trunc(now - begin, absl::Milliseconds(1))), " for ", what,
            ": ", missing());
      }
      if (!warned && now >= warn_at) {
        warned = true;
        TANDEM_LOG(Warning) << config_.name << " waits for " << what << " since "
                            << absl::FormatDuration(absl::Trunc(now - begin, absl::Milliseconds(1)))
                            << ": " << missing();
      }
      changed_.WaitUntil(mu_, warned ? deadline : warn_at);
    }
    return absl::OkStatus();
  }

  // The thread of heartbeats.
  void Beat() {
    const absl::Duration tick = config_.options.heartbeat / 10;
    while (true) {
      {
        MutexLock lock(mu_);
        const absl::Time until = absl::Now() + tick;
        while (!stopping_ && outgoing_.empty() && absl::Now() < until) {
          changed_.WaitUntil(mu_, until);
        }
        if (stopping_) break;
        node_->Tick(clock_->Now());
      }
      SendAll();
    }
    SendAll();
  }

  // The thread that waits for the arbiter and the fence.
  void AskQuestions() {
    while (true) {
      ArbiterQuestion question;
      {
        MutexLock lock(mu_);
        while (!stopping_ && questions_.empty()) changed_.Wait(mu_);
        if (stopping_) return;
        question = std::move(questions_.front());
        questions_.pop_front();
      }
      const ArbiterAnswer answer = Ask(question, arbiter_.get(), fence_.get());
      if (!answer.status.ok()) {
        TANDEM_LOG_EVERY(Warning, absl::Seconds(10))
            << config_.name << " asked who leads the job: " << answer.status;
      }
      Outbox outbox(this);
      MutexLock lock(mu_);
      if (!stopping_) node_->OnArbiter(clock_->Now(), answer);
    }
  }

  static ArbiterAnswer Ask(const ArbiterQuestion& question, Arbiter* arbiter, Fence* fence) {
    ArbiterAnswer answer;
    answer.kind = question.kind;
    if (question.kind == ArbiterQuestion::Kind::kRaiseFence) {
      const absl::StatusOr<Fence::State> state = fence->Raise(question.number);
      answer.status = state.status();
      answer.number = question.number;
      if (state.ok()) {
        answer.fence = state->generation;
        answer.checkpoint_step = state->step;
      }
      return answer;
    }
    if (question.kind == ArbiterQuestion::Kind::kClaim) {
      auto claim = arbiter->Claim(question.claim, question.number);
      answer.status = claim.status();
      if (!claim.ok()) return answer;
      answer.won = claim->won();
      answer.state = std::move(*claim->mutable_state());
      return answer;
    }
    auto state = question.kind == ArbiterQuestion::Kind::kRead
                     ? arbiter->Read()
                     : arbiter->Renew(question.number, question.beat);
    answer.status = state.status();
    if (state.ok()) answer.state = *std::move(state);
    return answer;
  }

  // The thread that tells the program.
  void Tell() {
    while (true) {
      MembershipChange change;
      std::function<void(const MembershipChange&)> callback;
      {
        MutexLock lock(mu_);
        while (!stopping_ && news_.empty()) changed_.Wait(mu_);
        if (news_.empty()) return;
        change = std::move(news_.front());
        news_.pop_front();
        callback = callback_;
      }
      if (callback) callback(change);
    }
  }

  // NodeHost: within a call of the node, so under the lock.
  void Send(const std::string& address,
            const Envelope& envelope) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    outgoing_.emplace_back(address, envelope);
  }
  void Ask(const ArbiterQuestion& question) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // Behind an arbiter that does not answer they would pile up; all but claims are repeated.
    if (questions_.size() >= kMostQuestions) return;
    questions_.push_back(question);
    changed_.NotifyAll();
  }
  void GroupFormed(const Group& group) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    group_ = group;
    barrier_uses_.clear();
    open_barriers_.clear();
    values_.clear();
    TANDEM_LOG(Info) << config_.name << ": generation " << group.generation.number() << " has "
                     << group.generation.members_size() << " members; this is rank " << group.rank
                     << ", it begins after step " << group.start_step;
    MembershipChange change;
    change.group = group;
    News(std::move(change));
  }
  void GroupLost(const Generation& generation,
                 const absl::Status& reason) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    group_.reset();
    lost_[generation.number()] = reason;
    constexpr size_t kKept = 16;
    if (lost_.size() > kKept) lost_.erase(lost_.begin());
    TANDEM_LOG(Info) << config_.name << ": generation " << generation.number()
                     << " has ended: " << reason.message();
    MembershipChange change;
    change.reason = reason;
    News(std::move(change));
  }
  void BarrierOpened(const std::string& barrier) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    open_barriers_.insert(barrier);
    changed_.NotifyAll();
  }
  void PutDone(uint64_t number) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    last_put_ = std::max(last_put_, number);
    changed_.NotifyAll();
  }
  void ValueArrived(const std::string& key,
                    const std::string& value) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    values_[key] = value;
    changed_.NotifyAll();
  }
  void SyncChanged(const absl::optional<SyncPoint>&) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    changed_.NotifyAll();
  }
  void Ended(const absl::Status& status) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    ended_ = true;
    end_ = status;
    if (!status.ok()) {
      TANDEM_LOG(Error) << config_.name << " leaves the job: " << status.message();
    }
    MembershipChange change;
    change.reason = status;
    change.is_end = true;
    News(std::move(change));
  }
  void News(MembershipChange change) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (callback_) news_.push_back(std::move(change));
    changed_.NotifyAll();
  }

  const MembershipConfig config_;
  Clock* const clock_;
  const std::unique_ptr<ControlTransport> transport_;
  const std::unique_ptr<Arbiter> arbiter_;
  const std::unique_ptr<Fence> fence_;

  mutable Mutex mu_;
  CondVar changed_;
  bool joined_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Node> node_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<std::string, Envelope>> outgoing_ ABSL_GUARDED_BY(mu_);
  std::deque<ArbiterQuestion> questions_ ABSL_GUARDED_BY(mu_);
  std::deque<MembershipChange> news_ ABSL_GUARDED_BY(mu_);
  std::function<void(const MembershipChange&)> callback_ ABSL_GUARDED_BY(mu_);
  absl::optional<Group> group_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, absl::Status> lost_ ABSL_GUARDED_BY(mu_);  // By generation.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> barrier_uses_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> open_barriers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mu_);
  uint64_t last_put_ ABSL_GUARDED_BY(mu_) = 0;

  std::thread heart_;
  std::thread asker_;
  std::thread teller_;
};

}  // namespace

Clock* SteadyClock() {
  class Steady final : public Clock {
   public:
    absl::Time Now() override {
      return absl::UnixEpoch() +
             absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
    }
  };
  static Steady clock;
  return &clock;
}

absl::StatusOr<std::unique_ptr<Membership>> Membership::Create(MembershipConfig config) {
  membership::MembershipOptions& options = config.options;
  if (config.name.empty()) return errors::InvalidArgument("a member of a job needs a name");
  if (options.min_members < 1 || options.max_members < options.min_members) {
    return errors::InvalidArgument("a job of ", options.min_members, " to ", options.max_members,
                                   " workers; 1 <= MIN <= MAX is wanted");
  }
  if (options.heartbeat <= absl::ZeroDuration() || options.lost_after < 2 * options.heartbeat) {
    return errors::InvalidArgument("heartbeats every ", absl::FormatDuration(options.heartbeat),
                                   ", lost after ", absl::FormatDuration(options.lost_after),
                                   "; it should be three heartbeats, at least two");
  }
  TANDEM_ASSIGN_OR_RETURN(const Security security, SecurityOrEnvironment(config.security));
  std::unique_ptr<ControlTransport> transport = std::move(config.transport);
  if (transport == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(transport, membership::NewGrpcTransport({config.address, config.bind,
                                                                     security, config.insecure}));
  }
  std::unique_ptr<Arbiter> arbiter = std::move(config.arbiter);
  if (arbiter == nullptr && !config.rendezvous.empty()) {
    TANDEM_RETURN_IF_ERROR(ParseHostPort(config.rendezvous).status());
    arbiter = membership::NewRemoteArbiter(config.rendezvous, security);
  }
  std::unique_ptr<Fence> fence;
  if (!config.folder.empty()) {
    TANDEM_ASSIGN_OR_RETURN(fence, Fence::Open(config.folder));
    if (arbiter == nullptr && config.folder_decides) {
      TANDEM_ASSIGN_OR_RETURN(arbiter, membership::FolderArbiter::Open(config.folder));
    }
  }
  options.has_arbiter = arbiter != nullptr;
  options.has_fence = fence != nullptr;
  if (!options.has_arbiter && options.seeds.empty() && options.max_members > 1) {
    return errors::InvalidArgument(
        config.name,
        " knows neither the cluster's tasks nor a launcher (TANDEM_RENDEZVOUS) nor a "
        "folder that it shares with the others: it cannot find them");
  }
  return std::make_unique<MembershipImpl>(std::move(config), std::move(transport),
                                          std::move(arbiter), std::move(fence));
}

}  // namespace tandem
