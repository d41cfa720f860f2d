#include "strategies/multi_worker_mirrored/worker_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/io/crc32c.h"
#include "runtime/cluster/membership/collective_group.h"
#include "runtime/cluster/membership/coordinator.h"
#include "runtime/cluster/membership/fence.h"
#include "runtime/rpc/security.h"
#include "strategies/chief.h"

namespace tandem {
namespace {

constexpr absl::Duration kBetweenChecks = absl::Milliseconds(100);
constexpr absl::Duration kBetweenLines = absl::Seconds(5);
// What may take long without anything being wrong: a checkpoint is read or written, a large state
// is sent. Also how long a living job may take to let somebody in.
constexpr absl::Duration kLongest = absl::Minutes(10);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(5);

// What ends because members go or are lost.
bool IsLoss(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsCancelled(status);
}
// Anything else gets no better by trying again.
bool IsTransient(const absl::Status& status) {
  return IsLoss(status) || absl::IsDeadlineExceeded(status);
}

absl::Status HasLeft(const std::string& name) {
  return errors::Cancelled("this process (", name, ") has left the job");
}

std::string NameOf(const TaskId& task) { return absl::StrCat(task.job, ":", task.index); }

// "worker:1" as devices are named.
std::string DeviceStyleName(const std::string& name) {
  const size_t colon = name.rfind(':');
  return absl::StrCat("/job:", name.substr(0, colon), "/task:", name.substr(colon + 1));
}

// The tasks that train, those that lead by their name first.
std::vector<membership::SeedTask> TrainingTasks(const ClusterConfig& config) {
  std::vector<membership::SeedTask> tasks;
  for (const char* const job : {"chief", "master", "worker"}) {
    const auto found = config.jobs.find(job);
    if (found == config.jobs.end()) continue;
    for (const auto& [index, address] : found->second) {
      tasks.push_back({NameOf({job, index}), address});
    }
  }
  return tasks;
}

// The rank that the task has if all are there.
int ExpectedRank(const ClusterConfig& config) {
  if (IsChief(config)) return 0;
  int leaders = 0;
  for (const char* const job : {"chief", "master"}) {
    const auto found = config.jobs.find(job);
    if (found != config.jobs.end()) leaders += static_cast<int>(found->second.size());
  }
  return leaders + config.task->index;
}

absl::Status CheckTasks(const JobEnvironment& job) {
  const ClusterConfig& config = job.config;
  if (!config.task.has_value()) {
    return errors::InvalidArgument(job.source,
                                   " does not say which of the job's tasks this process is");
  }
  for (const auto& [name, tasks] : config.jobs) {
    if (tasks.empty() || name == "chief" || name == "master" || name == "worker" ||
        name == "evaluator") {
      continue;
    }
    if (name == "ps") {
      return errors::Unimplemented(
          job.source,
          " names parameter servers (ps), with which another strategy trains "
          "(TANDEM_STRATEGY=parameter_server); leave them out, and every worker keeps the "
          "variables "
          "itself");
    }
    return errors::InvalidArgument(job.source, " names tasks of a job '", name,
                                   "'; those that train together are called chief and worker");
  }
  if (config.task->job == "evaluator") {
    return errors::Unimplemented(
        "this process is the evaluator of its job, which would evaluate each checkpoint of the "
        "others; that is not supported yet. Do not start it: the workers train without it, and "
        "FitOptions::validation evaluates on them");
  }
  if (config.Address(*config.task) == nullptr) {
    return errors::InvalidArgument(job.source, " has no address for its task ",
                                   NameOf(*config.task));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const WorkerGroupOptions& options) {
  TANDEM_RETURN_IF_ERROR(CheckTasks(options.job));
  const JobEnvironment& job = options.job;
  if (job.min_workers < 1 || job.max_workers < job.min_workers) {
    return errors::InvalidArgument("a job of ", job.min_workers, " to ", job.max_workers,
                                   " workers; 1 <= MIN <= MAX is wanted");
  }
  if (options.replicas < 1 || options.virtual_replicas < 0) {
    return errors::InvalidArgument(options.replicas, " replicas and ", options.virtual_replicas,
                                   " virtual ones were asked for");
  }
  if (options.virtual_replicas > 0 && job.max_workers > options.virtual_replicas) {
    return errors::InvalidArgument(
        options.virtual_replicas, " virtual replicas cannot be divided among up to ",
        job.max_workers, " workers: each has at least one; ask for more (virtual_replicas)");
  }
  if (options.heartbeat <= absl::ZeroDuration() || options.lost_after < 2 * options.heartbeat ||
      options.start_timeout <= absl::ZeroDuration() ||
      options.collective_timeout <= absl::ZeroDuration()) {
    return errors::InvalidArgument(
        "heartbeat ", absl::FormatDuration(options.heartbeat), ", lost after ",
        absl::FormatDuration(options.lost_after), ", start ",
        absl::FormatDuration(options.start_timeout), ", collective ",
        absl::FormatDuration(options.collective_timeout),
        "; all are more than nothing, and a worker is lost after at least two heartbeats");
  }
  if (!options.algorithm.empty()) {
    TANDEM_RETURN_IF_ERROR(collective::ChoiceTable().Pin(options.algorithm));
  }
  return absl::OkStatus();
}

// Where members that are threads of one process exchange their values.
std::shared_ptr<transport::InProcessHub> HubOf(const Generation& generation) {
  using Key = std::tuple<uint64_t, uint64_t, uint64_t>;
  static Mutex mu;
  static auto& hubs = *new std::map<Key, std::weak_ptr<transport::InProcessHub>>;
  MutexLock lock(mu);
  for (auto hub = hubs.begin(); hub != hubs.end();) {
    hub = hub->second.expired() ? hubs.erase(hub) : std::next(hub);
  }
  auto& known = hubs[{generation.run(), generation.number(), generation.nonce()}];
  std::shared_ptr<transport::InProcessHub> hub = known.lock();
  if (hub == nullptr) {
    hub = std::make_shared<transport::InProcessHub>(generation.members_size());
    known = hub;
  }
  return hub;
}

// A text in a field of fixed size, cut off if need be.
template <size_t kSize>
void SetText(char (&field)[kSize], absl::string_view text) {
  std::memset(field, 0, kSize);
  text.copy(field, kSize - 1);
}
template <size_t kSize>
std::string TextOf(const char (&field)[kSize]) {
  return std::string(field, strnlen(field, kSize));
}

// How it went, as members tell each other at the end of a meeting.
struct Outcome {
  uint64_t failed = 0;
  char why[320] = {};
};

template <typename Record>
absl::string_view BytesOf(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof(record)};
}
template <typename Record>
Record FromBytes(absl::string_view bytes) {
  Record record;
  std::memcpy(&record, bytes.data(), sizeof(record));
  return record;
}

}  // namespace

int VirtualReplicasOf(int rank, int size, int virtual_replicas) {
  const int64_t all = virtual_replicas;
  const auto first = [&](int64_t r) { return (r * all + size - 1) / size; };
  return static_cast<int>(first(int64_t{rank} + 1) - first(rank));
}

// As it goes over the wire: all members are built alike, which their transports have compared.
struct MultiWorkerGroup::Introduction {
  int64_t completed_step = -1;
  int64_t replicas = 0;
  int64_t virtual_replicas = 0;
  uint32_t occupation_crc = 0;
  uint32_t failed = 0;
  char occupation[96] = {};
  char why[320] = {};
};

class MultiWorkerGroup::News {
 public:
  void Note(const MembershipChange& change) {
    std::shared_ptr<collective::Group> broken;
    {
      MutexLock lock(mu_);
      changed_.NotifyAll();
      if (change.group.has_value()) {
        group_ = change.group;
        ++formed_;
        return;
      }
      group_.reset();
      if (change.is_end) {
        ended_ = true;
        end_ = change.reason;
      }
      // At most some, should nobody ask.
      constexpr size_t kKept = 64;
      if (!change.reason.ok()) reasons_.emplace_back(change.reason.message());
      if (reasons_.size() > kKept) reasons_.erase(reasons_.begin());
      broken = std::move(collectives_);
      collectives_.reset();
    }
    // Who leaves as it wished has nothing under way, but others may still hear its last messages.
    if (broken == nullptr || change.reason.ok() || absl::IsCancelled(change.reason)) return;
    broken->Abort(errors::Aborted(change.reason.message()));
  }

  // The next group, if one comes before `deadline`; it is then the current one.
  absl::optional<Group> Next(absl::Time deadline) {
    MutexLock lock(mu_);
    while (!(group_.has_value() && formed_ > taken_) && !ended_) {
      if (!changed_.WaitUntil(mu_, deadline)) break;
    }
    if (!group_.has_value() || formed_ <= taken_) return absl::nullopt;
    taken_ = formed_;
    return group_;
  }

  bool Stands() const {
    MutexLock lock(mu_);
    return StandsLocked();
  }
  // The number of the current group's generation; 0: it was lost.
  uint64_t Standing() const {
    MutexLock lock(mu_);
    return StandsLocked() ? group_->generation.number() : 0;
  }
  // Aborted: the current group was lost.
  absl::Status Check() const {
    MutexLock lock(mu_);
    if (StandsLocked()) return absl::OkStatus();
    return errors::Aborted(reasons_.empty() ? std::string("the group was lost") : reasons_.back());
  }

  // True, and what the membership ended with.
  bool HasEnded(absl::Status* end) const {
    MutexLock lock(mu_);
    *end = end_;
    return ended_;
  }

  // The collectives of the current group, to be aborted with it. False: it is lost already.
  bool SetCollectives(std::shared_ptr<collective::Group> collectives) {
    MutexLock lock(mu_);
    if (!StandsLocked()) return false;
    collectives_ = std::move(collectives);
    return true;
  }
  void DropCollectives() {
    std::shared_ptr<collective::Group> dropped;
    MutexLock lock(mu_);
    dropped.swap(collectives_);
  }

  std::vector<std::string> TakeReasons() {
    MutexLock lock(mu_);
    return std::exchange(reasons_, {});
  }

  // A preemption that is asked for before there is a membership is not forgotten.
  bool SetMembership(const std::shared_ptr<Membership>& membership) {
    MutexLock lock(mu_);
    membership_ = membership;
    return preempted_;
  }
  std::shared_ptr<Membership> Preempt() {
    MutexLock lock(mu_);
    preempted_ = true;
    return membership_.lock();
  }
  bool is_preempted() const {
    MutexLock lock(mu_);
    return preempted_;
  }

 private:
  bool StandsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return group_.has_value() && formed_ == taken_;
  }

  mutable Mutex mu_;
  CondVar changed_;
  absl::optional<Group> group_ ABSL_GUARDED_BY(mu_);
  // How many groups there were, and which of them is the current one.
  uint64_t formed_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<collective::Group> collectives_ ABSL_GUARDED_BY(mu_);
  bool preempted_ ABSL_GUARDED_BY(mu_) = false;
  std::weak_ptr<Membership> membership_ ABSL_GUARDED_BY(mu_);
};

struct MultiWorkerGroup::Meeting {
  // Asked while others are waited for.
  absl::Status Check() {
    if (stop.ok()) stop = party.CheckStop();
    return stop.ok() ? news.Check() : stop;
  }
  // What trying again does not help.
  absl::Status Final(const absl::Status& status) {
    is_final = true;
    return status;
  }

  Party& party;
  News& news;
  const absl::Time begin = absl::Now();
  // How long it waits for others in all. To give and take a state is no waiting.
  absl::Duration patience;
  // How long a group that stands may be believed in: the membership may be about to see that a
  // member is missing.
  absl::Duration grace;
  absl::Status stop;     // What the party wants to end with.
  absl::Status failure;  // Of the last attempt.
  bool is_final = false;
  std::vector<int> replicas;  // Of each member of the group that has met.
};

absl::StatusOr<std::unique_ptr<MultiWorkerGroup>> MultiWorkerGroup::Create(
    WorkerGroupOptions options) {
  TANDEM_RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<MultiWorkerGroup>(new MultiWorkerGroup(std::move(options)));
}

MultiWorkerGroup::MultiWorkerGroup(WorkerGroupOptions options)
    : options_(std::move(options)),
      name_(NameOf(*options_.job.config.task)),
      between_(std::make_shared<collective::GroupRuntime>(options_.virtual_replicas > 0)),
      news_(std::make_shared<News>()),
      rank_(std::min(ExpectedRank(options_.job.config), options_.job.max_workers - 1)),
      size_(options_.job.max_workers) {}

MultiWorkerGroup::~MultiWorkerGroup() = default;

absl::Status MultiWorkerGroup::SetFolder(const std::string& folder) {
  if (folder.empty()) return errors::InvalidArgument("the folder of checkpoints has no name");
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, error);
  if (error) return errors::InvalidArgument("the folder '", folder, "': ", error.message());
  std::string path = absolute.lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path == folder_) return absl::OkStatus();
  if (!folder_.empty()) {
    return errors::InvalidArgument("the job's folder of checkpoints is '", folder_, "'; '", path,
                                   "' cannot be another one of the same processes");
  }
  if (membership_ != nullptr) {
    TANDEM_LOG(Warning) << "the workers had met before they knew of the folder '" << path
                        << "': an old chief is not kept from writing into it";
  }
  folder_ = std::move(path);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Membership>> MultiWorkerGroup::NewMembership() {
  const JobEnvironment& job = options_.job;
  TANDEM_ASSIGN_OR_RETURN(const Security security, SecurityOrEnvironment(absl::nullopt));
  requires_tls_ = security.ConnectsWithTls();
  if (job.serves_rendezvous && server_ == nullptr) {
    arbiter_ = std::make_unique<membership::MemoryArbiter>();
    auto server = membership::RendezvousServer::Start(job.rendezvous, security, arbiter_.get());
    if (!server.ok()) {
      return WithContext(server.status(),
                         absl::StrCat("the rendezvous of the job (", job.source, ")"));
    }
    server_ = *std::move(server);
  }
  MembershipConfig config;
  config.name = name_;
  config.address = *job.config.Address(*job.config.task);
  config.security = security;
  config.rendezvous = job.rendezvous;
  config.folder = folder_;
  config.folder_decides = options_.folder_is_shared;
  folder_decides_ = options_.folder_is_shared && job.rendezvous.empty() && !folder_.empty();
  membership::MembershipOptions& members = config.options;
  members.min_members = job.min_workers;
  members.max_members = job.max_workers;
  members.heartbeat = options_.heartbeat;
  members.lost_after = options_.lost_after;
  // In proportion, as the defaults are.
  members.minority_after = options_.lost_after + 2 * options_.heartbeat;
  members.settle = options_.heartbeat / 2;
  members.start_timeout = options_.start_timeout;
  members.seeds = TrainingTasks(job.config);
  return Membership::Create(std::move(config));
}

absl::Status MultiWorkerGroup::Join() {
  if (has_left_) return HasLeft(name_);
  if (membership_ != nullptr) return absl::OkStatus();
  if (news_->is_preempted()) return HasLeft(name_);
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Membership> membership, NewMembership());
  membership->OnChange([news = news_](const MembershipChange& change) { news->Note(change); });
  TANDEM_RETURN_IF_ERROR(membership->Join());
  membership_ = std::move(membership);
  if (news_->SetMembership(membership_)) membership_->RequestPreemption();
  return absl::OkStatus();
}

absl::Status MultiWorkerGroup::Meet(Party& party) {
  has_met_ = false;
  TANDEM_RETURN_IF_ERROR(Join());
  Meeting meeting{.party = party, .news = *news_};
  meeting.patience = options_.start_timeout + options_.heartbeat;
  meeting.grace = options_.lost_after + options_.heartbeat;
  if (sync_.has_value()) {
    // All come here without being told.
    membership_->ReachedSync(*std::exchange(sync_, absl::nullopt));
  } else if (std::exchange(counts_anew_, false)) {
    meeting.grace = absl::ZeroDuration();
  } else if (exchange_ != nullptr) {
    // Something went wrong here. Those who did not see it come along.
    meeting.failure = exchange_->group().status();
    exchange_->group().Abort(errors::Aborted(name_, " has left the group to meet again"));
  }
  exchange_.reset();
  news_->DropCollectives();
  while (true) {
    // Who has the newest state is found by this.
    membership_->CompletedStep(party.completed_step(), absl::InfinitePast()).IgnoreError();
    TANDEM_ASSIGN_OR_RETURN(const Group group, NextGroup(meeting));
    absl::Status status = Enter(meeting, group);
    if (!meeting.stop.ok()) status = meeting.Final(meeting.stop);
    if (status.ok() || meeting.is_final) return status;
    TANDEM_LOG(Info) << name_ << " meets the others again, since generation "
                     << group.generation.number() << " did not begin: " << status.message();
    // Where nobody is missing, something else went wrong between them, and waiting does not help.
    meeting.grace =
        IsLoss(status) ? options_.lost_after + options_.heartbeat : absl::ZeroDuration();
    meeting.failure = std::move(status);
  }
}

bool MultiWorkerGroup::IsOutside() const {
  const absl::optional<Generation> newest = membership_->CurrentGeneration();
  if (!newest.has_value()) return false;
  const MemberInfo self = membership_->self();
  return membership::FindMember(*newest, self.name(), self.incarnation()) == nullptr;
}

absl::StatusOr<Group> MultiWorkerGroup::NextGroup(Meeting& meeting) {
  const absl::Time begin = absl::Now();
  absl::Time say_at = begin + kBetweenLines;
  while (true) {
    absl::optional<Group> next = news_->Next(absl::Now() + kBetweenChecks);
    if (next.has_value()) {
      meeting.patience -= absl::Now() - begin;
      return *std::move(next);
    }
    absl::Status end;
    if (news_->HasEnded(&end)) return end.ok() ? HasLeft(name_) : ExplainTheWait(meeting, end);
    meeting.stop = meeting.party.CheckStop();
    if (!meeting.stop.ok()) return meeting.stop;
    const absl::Time now = absl::Now();
    const uint64_t standing = news_->Standing();
    if (standing != 0 && now - begin >= meeting.grace) {
      membership_->GiveUpGroup(standing, meeting.failure.ok()
                                             ? errors::Aborted("its members meet again")
                                             : meeting.failure);
    }
    const absl::Duration waited = now - begin;
    if (waited >= meeting.patience && (waited >= kLongest || !IsOutside())) {
      return ExplainTheWait(
          meeting,
          errors::DeadlineExceeded(
              name_, " has waited ",
              absl::FormatDuration(absl::Trunc(now - meeting.begin, absl::Milliseconds(1))),
              " for the other workers of the job: ", membership_->Status().waits_for()));
    }
    if (now < say_at) continue;
    say_at = now + kBetweenLines;
    TANDEM_LOG(Warning) << name_ << " waits for the other workers since "
                        << absl::FormatDuration(absl::Trunc(now - meeting.begin, absl::Seconds(1)))
                        << ": " << membership_->Status().waits_for();
  }
}

absl::Status MultiWorkerGroup::ExplainTheWait(const Meeting& meeting,
                                              const absl::Status& status) const {
  if (!absl::IsDeadlineExceeded(status)) return status;
  const JobEnvironment& job = options_.job;
  std::string more =
      absl::StrCat(" (", job.source, " says that there are ",
                   job.min_workers == job.max_workers ? "" : absl::StrCat(job.min_workers, " to "),
                   job.max_workers, " workers");
  if (folder_decides_) {
    absl::StrAppend(&more, ", which find each other in the folder '", folder_,
                    "'; if they do not share it, set TANDEM_SHARED_FOLDER=0");
  }
  if (!meeting.failure.ok()) {
    absl::StrAppend(&more, "; the last attempt failed: ", meeting.failure.message());
  }
  return absl::Status(status.code(), absl::StrCat(status.message(), more, ")"));
}

absl::StatusOr<collective::GroupOptions> MultiWorkerGroup::OptionsFor(const Group& group) const {
  collective::GroupOptions options = CollectiveOptions(group, "workers");
  options.transport = options_.transport;
  options.requires_tls = requires_tls_;
  options.timeout = options_.collective_timeout;
  options.heartbeat = options_.heartbeat;
  options.lost_after = options_.lost_after;
  options.algorithm = options_.algorithm;
  options.is_deterministic = options_.virtual_replicas > 0;
  if (options.transport != collective::TransportKind::kInProcess) return options;
  for (const MemberInfo& member : group.generation.members()) {
    if (member.pid() == getpid()) continue;
    return errors::InvalidArgument("the transport 'inprocess' is for workers of one process, and ",
                                   membership::Describe(member), " is in another one");
  }
  options.hub = HubOf(group.generation);
  return options;
}

absl::Status MultiWorkerGroup::Enter(Meeting& meeting, const Group& group) {
  const auto check = [&meeting] { return meeting.Check(); };
  absl::StatusOr<collective::GroupOptions> options = OptionsFor(group);
  if (!options.ok()) return meeting.Final(options.status());
  const absl::Time begin = absl::Now();
  options->form_timeout =
      std::max(absl::Trunc(meeting.patience, absl::Seconds(1)), absl::Seconds(1));
  MembershipStore store(membership_.get(), group.generation.number());
  absl::StatusOr<std::unique_ptr<collective::Group>> formed =
      collective::Group::Form(*std::move(options), &store, check);
  meeting.patience -= absl::Now() - begin;
  if (!formed.ok()) {
    return IsTransient(formed.status()) ? formed.status() : meeting.Final(formed.status());
  }
  const std::shared_ptr<collective::Group> collectives = *std::move(formed);
  auto exchange = std::make_unique<Exchange>(collectives, options_.collective_timeout, kLongest);
  absl::Status status =
      news_->SetCollectives(collectives) ? Converge(meeting, group, *exchange) : meeting.Check();
  if (status.ok()) {
    status = between_->SetGroup(collectives, std::move(meeting.replicas));
    if (!status.ok()) meeting.is_final = true;
  }
  if (status.ok()) {
    exchange_ = std::move(exchange);
    completed_step_ = meeting.party.completed_step();
    membership_->CompletedStep(completed_step_, absl::InfinitePast()).IgnoreError();
    NoteMeeting(group);
    return status;
  }
  news_->DropCollectives();
  // What is final the others know, or learn when this process leaves.
  if (!meeting.is_final) collectives->Abort(errors::Aborted(status.message()));
  return status;
}

absl::Status MultiWorkerGroup::Converge(Meeting& meeting, const Group& group, Exchange& exchange) {
  Party& party = meeting.party;
  const auto check = [&meeting] { return meeting.Check(); };
  const std::string occupation = party.occupation();
  absl::Status own;
  if (group.from_checkpoint && group.rank == group.source_rank &&
      party.completed_step() < group.start_step) {
    own = party.TakeCheckpoint();
  }
  Introduction self;
  self.completed_step = party.completed_step();
  self.replicas = options_.virtual_replicas > 0
                      ? VirtualReplicasOf(group.rank, group.generation.members_size(),
                                          options_.virtual_replicas)
                      : options_.replicas;
  self.virtual_replicas = options_.virtual_replicas;
  self.occupation_crc = Crc32c(occupation);
  self.failed = own.ok() ? 0 : 1;
  SetText(self.occupation, occupation);
  SetText(self.why, own.message());
  const absl::StatusOr<std::vector<std::string>> records =
      exchange.Gather("introduction of the members", BytesOf(self), check);
  if (!own.ok()) return meeting.Final(own);
  TANDEM_RETURN_IF_ERROR(records.status());
  std::vector<Introduction> members;
  for (const std::string& record : *records) members.push_back(FromBytes<Introduction>(record));
  int source = group.source_rank;
  for (int rank = 0; rank < static_cast<int>(members.size()); ++rank) {
    const Introduction& member = members[static_cast<size_t>(rank)];
    if (member.failed != 0) {
      return errors::Aborted(membership::Describe(group.generation.members(rank)),
                             " could not take the newest checkpoint: ", TextOf(member.why));
    }
    if (member.completed_step > members[static_cast<size_t>(source)].completed_step) source = rank;
  }
  const absl::Status alike = CheckAlike(group, members);
  if (!alike.ok()) return meeting.Final(alike);

  own = Share(meeting, group, exchange, members, source);
  if (!own.ok() && !meeting.is_final) return own;
  if (!exchange.group().status().ok()) return own.ok() ? exchange.group().status() : own;
  Outcome outcome;
  outcome.failed = own.ok() ? 0 : 1;
  SetText(outcome.why, own.message());
  const absl::StatusOr<std::vector<std::string>> outcomes =
      exchange.Gather("end of the meeting", BytesOf(outcome), check);
  if (!own.ok()) return own;
  TANDEM_RETURN_IF_ERROR(outcomes.status());
  for (int rank = 0; rank < static_cast<int>(outcomes->size()); ++rank) {
    const auto theirs = FromBytes<Outcome>((*outcomes)[static_cast<size_t>(rank)]);
    if (theirs.failed == 0) continue;
    return errors::Aborted(membership::Describe(group.generation.members(rank)),
                           " could not go on: ", TextOf(theirs.why));
  }
  meeting.replicas.clear();
  for (const Introduction& member : members) {
    meeting.replicas.push_back(static_cast<int>(member.replicas));
  }
  return absl::OkStatus();
}

absl::Status MultiWorkerGroup::CheckAlike(const Group& group,
                                          const std::vector<Introduction>& members) const {
  const auto describe = [&group](size_t rank) {
    return membership::Describe(group.generation.members(static_cast<int>(rank)));
  };
  const Introduction& first = members[0];
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Introduction& member = members[rank];
    if (member.occupation_crc != first.occupation_crc ||
        TextOf(member.occupation) != TextOf(first.occupation)) {
      return errors::FailedPrecondition(
          "the workers do different things: ", describe(0), " does ", TextOf(first.occupation),
          ", ", describe(rank), " does ", TextOf(member.occupation),
          "; all have to run the same program, and to be at the same place in it");
    }
    if (member.virtual_replicas != first.virtual_replicas) {
      return errors::FailedPrecondition("the workers divide the batch differently: ", describe(0),
                                        " has virtual_replicas = ", first.virtual_replicas, ", ",
                                        describe(rank), " has ", member.virtual_replicas);
    }
    constexpr int64_t kMostReplicas = 1 << 16;
    if (member.replicas < 1 || member.replicas > kMostReplicas) {
      return errors::FailedPrecondition(describe(rank), " has ", member.replicas,
                                        " replicas; 1 to ", kMostReplicas, " are possible");
    }
  }
  return absl::OkStatus();
}

absl::Status MultiWorkerGroup::Share(Meeting& meeting, const Group& group, Exchange& exchange,
                                     const std::vector<Introduction>& members, int source) {
  const auto check = [&meeting] { return meeting.Check(); };
  const int64_t step = members[static_cast<size_t>(source)].completed_step;
  std::vector<int> takers;
  for (int rank = 0; rank < static_cast<int>(members.size()); ++rank) {
    if (members[static_cast<size_t>(rank)].completed_step < step) takers.push_back(rank);
  }
  if (takers.empty()) return absl::OkStatus();
  const std::string what = absl::StrCat("the state after step ", step);
  if (group.rank == source) {
    const absl::StatusOr<StrategyState> state = meeting.party.Give();
    const absl::Status given = exchange.Give(what, state.ok() ? &*state : nullptr, takers, check);
    if (!given.ok()) return IsTransient(given) ? given : meeting.Final(given);
    if (!state.ok()) return meeting.Final(state.status());
    return absl::OkStatus();
  }
  if (!std::binary_search(takers.begin(), takers.end(), group.rank)) {
    exchange.StandBy();
    return absl::OkStatus();
  }
  absl::StatusOr<absl::optional<StrategyState>> state = exchange.Take(what, source, takers, check);
  if (IsTransient(state.status())) return state.status();
  if (!state.ok()) return meeting.Final(state.status());
  // That it was not given the source tells all.
  if (!state->has_value()) return absl::OkStatus();
  TANDEM_LOG(Info) << name_ << " takes " << what << " from "
                   << group.generation.members(source).name() << " (" << exchange.moved_bytes()
                   << " bytes)";
  const absl::Status taken = meeting.party.Take(**std::move(state));
  return taken.ok() ? taken : meeting.Final(taken);
}

void MultiWorkerGroup::NoteMeeting(const Group& group) {
  const std::vector<std::string> reasons = news_->TakeReasons();
  const auto number = static_cast<int64_t>(group.generation.number());
  const auto find = [](const Generation& generation, const MemberInfo& member) {
    return membership::FindMember(generation, member.name(), member.incarnation());
  };
  if (group_.has_value()) {
    for (const MemberInfo& member : group_->generation.members()) {
      if (find(group.generation, member) != nullptr) continue;
      MemberEvent event{MemberEvent::Kind::kLeft, DeviceStyleName(member.name()), "it left",
                        number};
      for (const std::string& reason : reasons) {
        if (absl::StrContains(reason, absl::StrCat(member.name(), " at "))) event.reason = reason;
      }
      events_.push_back(std::move(event));
    }
    for (const MemberInfo& member : group.generation.members()) {
      if (find(group_->generation, member) != nullptr) continue;
      events_.push_back({MemberEvent::Kind::kJoined, DeviceStyleName(member.name()),
                         membership::Describe(member), number});
    }
  }
  group_ = group;
  has_met_ = true;
  rank_.store(group.rank, std::memory_order_relaxed);
  size_.store(group.generation.members_size(), std::memory_order_relaxed);
}

bool MultiWorkerGroup::has_met() const {
  return has_met_ && news_->Stands() && exchange_->group().status().ok();
}

absl::Status MultiWorkerGroup::LoseGroup(const absl::Status& why) {
  has_met_ = false;
  return errors::Aborted(why.message());
}

absl::StatusOr<WorkerGroup::Advice> MultiWorkerGroup::CompletedStep(int64_t step) {
  if (!has_met_) return errors::Aborted(name_, " has not met the other workers");
  const absl::StatusOr<StepAdvice> said = membership_->CompletedStep(step, absl::Now() + kLongest);
  if (!said.ok()) return LoseGroup(said.status());
  const absl::Status standing = news_->Check();
  if (!standing.ok()) return LoseGroup(standing);
  Advice advice;
  advice.save = said->save;
  advice.meet = said->regroup;
  if (advice.meet) {
    sync_ = said->sync;
  } else if (step <= completed_step_) {
    // Another training, whose steps are counted anew. The membership compares steps, so that it
    // needs another group, in which none has an old number. Nobody ends this one while others are
    // in the step.
    const absl::Status passed = Barrier("steps are counted anew");
    if (!passed.ok()) return passed;
    counts_anew_ = advice.meet = true;
  }
  completed_step_ = step;
  if (advice.meet) has_met_ = false;
  return advice;
}

absl::Status MultiWorkerGroup::Barrier(const std::string& name) {
  if (!has_met_) return errors::Aborted(name_, " has not met the other workers");
  const absl::Status passed =
      membership_->Barrier(group_->generation.number(), name, absl::Now() + kLongest);
  if (passed.ok() || absl::IsDeadlineExceeded(passed)) return passed;
  return LoseGroup(passed);
}

absl::Status MultiWorkerGroup::BroadcastFromChief(StrategyState& state) {
  if (!has_met_) return errors::Aborted(name_, " has not met the other workers");
  const int members = group_->generation.members_size();
  if (members == 1) return absl::OkStatus();
  // What was lost breaks the collectives.
  const auto check = [] { return absl::OkStatus(); };
  const std::string what = "the values of the chief";
  std::vector<int> takers;
  for (int rank = 1; rank < members; ++rank) takers.push_back(rank);
  if (group_->rank == 0) {
    const absl::Status given = exchange_->Give(what, &state, takers, check);
    return IsLoss(given) ? LoseGroup(given) : given;
  }
  absl::StatusOr<absl::optional<StrategyState>> taken = exchange_->Take(what, 0, takers, check);
  if (IsLoss(taken.status())) return LoseGroup(taken.status());
  TANDEM_RETURN_IF_ERROR(taken.status());
  if (!taken->has_value()) return LoseGroup(errors::Aborted("the chief could not give its values"));
  StrategyState& values = **taken;
  for (size_t i = 0; i < std::max(values.size(), state.size()); ++i) {
    const auto describe = [i](const StrategyState& whose) {
      return i >= whose.size()
                 ? std::string("nothing")
                 : absl::StrCat("'", whose[i].first, "', ", DataTypeName(whose[i].second.dtype()),
                                whose[i].second.shape().DebugString());
    };
    if (i < values.size() && i < state.size() && values[i].first == state[i].first &&
        values[i].second.dtype() == state[i].second.dtype() &&
        values[i].second.shape() == state[i].second.shape()) {
      continue;
    }
    return errors::InvalidArgument("the workers have different variables: the chief has ",
                                   describe(values), " where ", name_, " has ", describe(state));
  }
  state = std::move(values);
  return absl::OkStatus();
}

void MultiWorkerGroup::RequestPreemption() {
  if (const std::shared_ptr<Membership> membership = news_->Preempt()) {
    membership->RequestPreemption();
  }
}

void MultiWorkerGroup::Leave() {
  if (std::exchange(has_left_, true) || membership_ == nullptr) return;
  has_met_ = false;
  // What others still take of the last step is not cut off: the collectives go when nobody holds
  // them.
  news_->DropCollectives();
  const absl::Status left = membership_->Leave(absl::Now() + kLeaveTimeout + options_.heartbeat);
  if (!left.ok() && !absl::IsCancelled(left)) {
    TANDEM_LOG(Info) << name_ << " has left the job: " << left.message();
  }
}

int MultiWorkerGroup::local_replicas() const {
  if (options_.virtual_replicas == 0) return options_.replicas;
  return VirtualReplicasOf(rank(), size(), options_.virtual_replicas);
}

std::shared_ptr<FileSystem> MultiWorkerGroup::ChiefFiles() {
  if (!group_.has_value()) return membership::UnfencedFiles();
  struct Held {
    std::shared_ptr<Membership> membership;  // Outlives the files.
    std::unique_ptr<FileSystem> files;
  };
  auto held = std::make_shared<Held>();
  held->membership = membership_;
  held->files = membership_->ChiefFiles(group_->generation.number());
  return std::shared_ptr<FileSystem>(held, held->files.get());
}

absl::Status MultiWorkerGroup::NoteCheckpoint(int64_t step) {
  if (!group_.has_value()) return absl::OkStatus();
  return membership_->NoteCheckpoint(group_->generation.number(), step);
}

std::vector<MemberEvent> MultiWorkerGroup::TakeEvents() { return std::exchange(events_, {}); }

}  // namespace tandem
