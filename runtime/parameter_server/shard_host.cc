#include "runtime/parameter_server/shard_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/parameter_server/fetch_state.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

// How long the server that holds the replica is waited for when a shard begins anew.
constexpr absl::Duration kReplicaWait = absl::Seconds(5);
// How long a new state waits for its way to the replica.
constexpr absl::Duration kWriteWait = absl::Seconds(30);
// A snapshot is not written more often.
constexpr absl::Duration kLeastSnapshotInterval = absl::Milliseconds(10);

std::string ThingOf(const char* method, const ShardKey& key) {
  return absl::StrCat(method, "/", key.number(), key.is_replica() ? "r/" : "/", key.job());
}

// Who makes shards, or lets go of them: one at a time, and nobody waits for another one.
class Alone {
 public:
  explicit Alone(std::atomic<bool>* is_taken)
      : is_taken_(*is_taken), ok_(!is_taken->exchange(true)) {}
  ~Alone() {
    if (ok_) is_taken_.store(false);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  bool ok() const { return ok_; }

 private:
  std::atomic<bool>& is_taken_;
  const bool ok_;
};

std::string LostMessage(const std::string& task, const ShardKey& key, uint64_t wanted,
                        uint64_t there) {
  if (there == 0) {
    return absl::StrCat(task, " has no ", NameOf(key), " (incarnation ", wanted,
                        "); it was started again, or told to forget the job");
  }
  return absl::StrCat(NameOf(key), " at ", task, " has the incarnation ", there, ", not ", wanted,
                      "; it was started again");
}

}  // namespace

ShardHost::ShardHost(ShardHostOptions options) : options_(std::move(options)) {}

ShardHost::~ShardHost() {
  CloseAll(errors::Unavailable("the task has ended"));
  commands_.reset();
  replication_.reset();
  // One that goes may let go of another one.
  MutexLock lock(mu_);
  while (living_ > 0) call_ended_.Wait(mu_);
}

void ShardHost::LetGo(HostedShard* hosted) {
  reaper_.Run([this, hosted] {
    delete hosted;
    MutexLock lock(mu_);
    --living_;
    call_ended_.NotifyAll();
  });
}

std::shared_ptr<HostedShard> ShardHost::Find(const ShardKey& key) const {
  MutexLock lock(mu_);
  const auto found = shards_.find(TableKeyOf(key));
  return found == shards_.end() ? nullptr : found->second;
}

absl::StatusOr<std::shared_ptr<HostedShard>> ShardHost::FindOrError(const ShardKey& key) const {
  TANDEM_RETURN_IF_ERROR(CheckKey(key));
  std::shared_ptr<HostedShard> found = Find(key);
  if (found == nullptr) return errors::NotFound(options_.task, " has no ", NameOf(key));
  return found;
}

bool ShardHost::Holds(const ShardKey& key, uint64_t incarnation) const {
  const std::shared_ptr<HostedShard> found = Find(key);
  return found != nullptr && found->incarnation() == incarnation;
}

bool ShardHost::IsDone(const std::string& thing, const Order& order) const {
  MutexLock lock(mu_);
  return orders_.IsDone(thing, order);
}

void ShardHost::SetDone(const std::string& thing, const Order& order) {
  MutexLock lock(mu_);
  orders_.SetDone(thing, order);
}

void ShardHost::CallEnded() {
  MutexLock lock(mu_);
  --calls_;
  call_ended_.NotifyAll();
}

void ShardHost::Call(const CallRequest& request, std::vector<Tensor> arguments,
                     CancellationManager* cancellation, CallDone done) {
  absl::Status status = CheckCall(request);
  std::shared_ptr<HostedShard> hosted;
  {
    MutexLock lock(mu_);
    if (status.ok()) status = drained_;
    if (status.ok()) {
      ++calls_;
      const auto found = shards_.find(TableKeyOf(request.shard()));
      if (found != shards_.end()) hosted = found->second;
    }
  }
  if (!status.ok()) {
    done(status);
    return;
  }
  const uint64_t there = hosted == nullptr ? 0 : hosted->incarnation();
  if (hosted == nullptr || (request.incarnation() != 0 && request.incarnation() != there)) {
    Outcome outcome;
    outcome.lost = LostMessage(options_.task, request.shard(), request.incarnation(), there);
    done(std::move(outcome));
    CallEnded();
    return;
  }
  auto ended = [this, done = std::move(done)](absl::StatusOr<ShardAnswer> answer) mutable {
    if (answer.ok()) {
      Outcome outcome;
      outcome.answer = *std::move(answer);
      done(std::move(outcome));
    } else {
      done(answer.status());
    }
    CallEnded();
  };
  if (request.updates()) {
    hosted->shard().Push(request.id(), request.has_round() ? &request.round() : nullptr,
                         request.program(), std::move(arguments), request.pulled_version(),
                         cancellation, std::move(ended));
  } else {
    hosted->shard().Pull(request.program(), std::move(arguments), request.wait_for_version(),
                         cancellation, std::move(ended));
  }
}

absl::Status ShardHost::CheckDefinition(const DefineRequest& request) const {
  TANDEM_RETURN_IF_ERROR(CheckKey(request.shard()));
  TANDEM_RETURN_IF_ERROR(CheckNodes(CountNodes(request.graph()), options_.limits));
  if (request.anew() && !request.shard().is_replica()) {
    return errors::InvalidArgument("only replicas begin anew; forget the job instead");
  }
  if (request.replication() < DefineRequest::NONE ||
      request.replication() > DefineRequest::SYNCHRONOUS) {
    return errors::InvalidArgument("there is no kind of replication ", request.replication());
  }
  if (request.replication() == DefineRequest::NONE) return absl::OkStatus();
  if (request.shard().is_replica()) return errors::InvalidArgument("a replica has no replica");
  if (request.replica_address().empty()) {
    return errors::InvalidArgument(NameOf(request.shard()),
                                   " is to have a replica, but no address for it");
  }
  if (options_.check_address) {
    TANDEM_RETURN_IF_ERROR(options_.check_address(request.replica_address()));
  }
  if (request.most_behind() < 0) {
    return errors::InvalidArgument("a replica cannot be behind by ", request.most_behind());
  }
  return absl::OkStatus();
}

absl::StatusOr<DefineResponse> ShardHost::Define(const DefineRequest& request) {
  TANDEM_RETURN_IF_ERROR(CheckDefinition(request));
  const Alone alone(&defines_);
  if (!alone.ok()) return errors::Unavailable(options_.task, " is defining another shard");
  return CatchOutOfMemory([&] { return DefineAlone(request); });
}

absl::StatusOr<DefineResponse> ShardHost::DefineAlone(const DefineRequest& request) {
  std::shared_ptr<HostedShard> hosted;
  std::shared_ptr<HostedShard> previous;
  const std::string anew = ThingOf("anew", request.shard());
  {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(drained_);
    const auto found = shards_.find(TableKeyOf(request.shard()));
    if (found != shards_.end() && request.anew() && !orders_.IsDone(anew, request.order())) {
      previous = found->second;
    } else if (found != shards_.end()) {
      hosted = found->second;
    } else if (static_cast<int64_t>(shards_.size()) >= options_.most_shards) {
      return errors::ResourceExhausted(options_.task, " has ", shards_.size(),
                                       " shards already, and that is its limit");
    }
  }
  DefineResponse response;
  if (hosted == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(hosted, Make(request, &response));
    if (previous != nullptr) hosted->SetPrevious(std::move(previous));
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(drained_);
    shards_[TableKeyOf(request.shard())] = hosted;
    if (request.anew()) orders_.SetDone(anew, request.order());
  } else {
    TANDEM_RETURN_IF_ERROR(hosted->Extend(request));
    if (hosted->replicator() != nullptr) {
      DefineRequest addition = request;
      *addition.mutable_shard() = KeyOf(request.shard().job(), request.shard().number(), true);
      addition.clear_replication();
      addition.clear_snapshot_folder();
      hosted->replicator()->Extend(std::move(addition));
    }
    response.set_origin(DefineResponse::EXISTED);
  }
  response.set_incarnation(hosted->incarnation());
  response.set_version(hosted->shard().version());
  for (const PushId& id : hosted->shard().newest()) *response.add_newest() = id;
  return response;
}

absl::StatusOr<std::shared_ptr<HostedShard>> ShardHost::Make(const DefineRequest& request,
                                                             DefineResponse* response) {
  {
    MutexLock lock(mu_);
    ++living_;
  }
  // Whoever lets go of it last does not wait for what it does.
  std::shared_ptr<HostedShard> hosted(new HostedShard(request.shard(), RandomNumber()),
                                      [this](HostedShard* gone) { LetGo(gone); });
  std::shared_ptr<ServiceClient> replica;
  std::unique_ptr<Replicator> replicator;
  ShardOptions options;
  options.session.devices = options_.devices;
  options.session.session_devices = std::make_shared<SessionDevices>(options_.devices);
  options.variable_budget = variable_budget_;
  options.ordered = request.replication() != DefineRequest::NONE || request.shard().is_replica();
  if (request.replication() != DefineRequest::NONE) {
    TANDEM_ASSIGN_OR_RETURN(replica, ServiceClient::Create(request.replica_address(),
                                                           options_.security, options_.faults));
    Replicator::Options replication;
    replication.client = replica;
    replication.definition = request;
    *replication.definition.mutable_shard() =
        KeyOf(request.shard().job(), request.shard().number(), true);
    replication.definition.clear_replication();
    replication.definition.clear_replica_address();
    replication.definition.clear_snapshot_folder();
    replication.is_synchronous = request.replication() == DefineRequest::SYNCHRONOUS;
    replication.most_behind = request.most_behind();
    replication.lost_after = options_.replica_lost_after;
    replication.name = NameOf(request.shard());
    replicator = std::make_unique<Replicator>(std::move(replication));
    options.on_applied = [told = replicator.get()](AppliedPush push,
                                                   Replicator::Answered answered) {
      told->Applied(std::move(push), std::move(answered));
    };
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard, Shard::Create(std::move(options)));
  Replicator* const replicates = replicator.get();
  hosted->SetShard(std::move(shard), std::move(replicator));
  TANDEM_RETURN_IF_ERROR(hosted->Extend(request));
  int64_t snapshot_version = -1;
  TANDEM_ASSIGN_OR_RETURN(const bool has_state, RestoreNewest(request, hosted.get(), replica.get(),
                                                              response, &snapshot_version));
  if (!request.snapshot_folder().empty()) {
    SnapshotterOptions snapshots;
    snapshots.existing_version = snapshot_version;
    snapshots.every =
        std::max(absl::Milliseconds(request.snapshot_every_ms()), kLeastSnapshotInterval);
    snapshots.files = options_.files();
    TANDEM_ASSIGN_OR_RETURN(
        std::unique_ptr<Snapshotter> snapshotter,
        Snapshotter::Create(request.snapshot_folder(), &hosted->shard(), snapshots));
    hosted->SetSnapshotter(std::move(snapshotter), request.snapshot_folder(), options_.files());
  }
  if (replicates != nullptr) replicates->Start(&hosted->shard(), has_state);
  return hosted;
}

absl::StatusOr<bool> ShardHost::RestoreNewest(const DefineRequest& request, HostedShard* hosted,
                                              ServiceClient* replica, DefineResponse* response,
                                              int64_t* snapshot_version) {
  response->set_origin(DefineResponse::NEW);
  if (request.shard().is_replica()) return false;
  FoundState newest;
  absl::Status damaged;
  if (!request.snapshot_folder().empty()) {
    absl::StatusOr<ShardState> snapshot = LoadSnapshot(options_.files(), request.snapshot_folder());
    if (snapshot.ok()) {
      *snapshot_version = snapshot->version;
      newest.state = *std::move(snapshot);
      response->set_origin(DefineResponse::SNAPSHOT);
    } else if (!absl::IsNotFound(snapshot.status())) {
      damaged = snapshot.status();
    }
  }
  if (replica != nullptr) {
    const ShardKey key = KeyOf(request.shard().job(), request.shard().number(), true);
    absl::StatusOr<absl::optional<FoundState>> there =
        FetchState(replica, key, *snapshot_version, absl::Now() + kReplicaWait);
    if (!there.ok()) {
      TANDEM_LOG(Warning) << NameOf(request.shard())
                          << " begins without what its replica has: " << there.status().message();
    } else if (there->has_value()) {
      newest = **std::move(there);
      response->set_origin(DefineResponse::REPLICA);
    }
  }
  if (!newest.state.has_value()) {
    TANDEM_RETURN_IF_ERROR(damaged);
    return false;
  }
  TANDEM_RETURN_IF_ERROR(hosted->shard().Restore(*std::move(newest.state)));
  hosted->SetNote(std::move(newest.note));
  return true;
}

absl::StatusOr<std::vector<NamedTensor>> ShardHost::Read(const ReadRequest& request,
                                                         ReadResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<HostedShard> hosted, FindOrError(request.shard()));
  return hosted->Read(request, response);
}

absl::Status ShardHost::Write(const WriteRequest& request, NamedValues values) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<HostedShard> hosted, FindOrError(request.shard()));
  const MutexLock lock(hosted->write_mu());
  const std::string thing = ThingOf("write", request.shard());
  if (IsDone(thing, request.order())) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(hosted->Write(std::move(values), absl::Now() + kWriteWait));
  SetDone(thing, request.order());
  return absl::OkStatus();
}

absl::Status ShardHost::Report(const ReportRequest& request, ReportResponse* response) {
  std::vector<std::shared_ptr<HostedShard>> of_job;
  {
    MutexLock lock(mu_);
    for (const auto& [key, hosted] : shards_) {
      if (std::get<0>(key) == request.job()) of_job.push_back(hosted);
    }
  }
  if (of_job.empty()) {
    return errors::NotFound(options_.task, " has no shard of '", request.job(), "'");
  }
  for (const std::shared_ptr<HostedShard>& hosted : of_job) hosted->Report(response->add_shards());
  return absl::OkStatus();
}

absl::Status ShardHost::SetNote(const SetNoteRequest& request) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<HostedShard> hosted, FindOrError(request.shard()));
  if (request.note().size() > options_.most_note_bytes) {
    return errors::ResourceExhausted("a note of ", request.note().size(), " bytes; ",
                                     options_.most_note_bytes, " are the most");
  }
  const MutexLock lock(hosted->write_mu());
  const std::string thing = ThingOf("note", request.shard());
  if (IsDone(thing, request.order())) return absl::OkStatus();
  hosted->SetNote(request.note());
  SetDone(thing, request.order());
  return absl::OkStatus();
}

absl::Status ShardHost::GetNote(const GetNoteRequest& request, GetNoteResponse* response) {
  TANDEM_ASSIGN_OR_RETURN(const std::shared_ptr<HostedShard> hosted, FindOrError(request.shard()));
  response->set_note(hosted->note());
  return absl::OkStatus();
}

absl::Status ShardHost::Forget(const ForgetRequest& request) {
  TANDEM_RETURN_IF_ERROR(CheckKey(KeyOf(request.job(), 0)));
  const Alone alone(&defines_);
  if (!alone.ok()) return errors::Unavailable(options_.task, " is defining a shard");
  const std::string thing = ThingOf("forget", KeyOf(request.job(), 0));
  std::vector<std::shared_ptr<HostedShard>> forgotten;
  {
    MutexLock lock(mu_);
    if (orders_.IsDone(thing, request.order())) return absl::OkStatus();
    for (auto it = shards_.begin(); it != shards_.end();) {
      if (std::get<0>(it->first) == request.job()) {
        forgotten.push_back(std::move(it->second));
        it = shards_.erase(it);
      } else {
        ++it;
      }
    }
    orders_.SetDone(thing, request.order());
  }
  for (const std::shared_ptr<HostedShard>& hosted : forgotten) {
    hosted->Close(errors::Unavailable(options_.task, " was told to forget '", request.job(), "'"));
    // Or a later job of the name would begin with the end of this one.
    const absl::Status removed = hosted->RemoveSnapshots();
    if (!removed.ok()) {
      TANDEM_LOG(Warning) << "the snapshots of " << NameOf(hosted->key())
                          << " were not removed: " << removed.message();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<HoldResponse> ShardHost::Hold(const HoldRequest& request) {
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(drained_);
  return holds_.Hold(request, absl::Now());
}

absl::StatusOr<ReplicateResponse> ShardHost::Replicate(const ReplicateRequest& request,
                                                       std::vector<Tensor> arguments) {
  TANDEM_RETURN_IF_ERROR(CheckKey(request.shard()));
  if (!request.shard().is_replica()) {
    return errors::InvalidArgument("pushes are sent on to replicas, not to shards");
  }
  const std::shared_ptr<HostedShard> hosted = Find(request.shard());
  if (hosted == nullptr || hosted->incarnation() != request.incarnation()) {
    ReplicateResponse response;
    response.set_needs_state(true);
    return response;
  }
  return hosted->Replicate(request, std::move(arguments));
}

absl::StatusOr<PutStateResponse> ShardHost::PutState(const PutStateRequest& request,
                                                     NamedValues values) {
  TANDEM_RETURN_IF_ERROR(CheckKey(request.shard()));
  if (!request.shard().is_replica()) {
    return errors::InvalidArgument("states are put into replicas, not into shards");
  }
  const std::shared_ptr<HostedShard> hosted = Find(request.shard());
  if (hosted == nullptr || hosted->incarnation() != request.incarnation()) {
    PutStateResponse response;
    response.set_needs_first(true);
    return response;
  }
  return hosted->PutState(request, std::move(values));
}

absl::StatusOr<std::vector<NamedTensor>> ShardHost::GetState(const GetStateRequest& request,
                                                             GetStateResponse* response) {
  TANDEM_RETURN_IF_ERROR(CheckKey(request.shard()));
  const std::shared_ptr<HostedShard> hosted = Find(request.shard());
  if (hosted == nullptr) return std::vector<NamedTensor>();
  return hosted->GetState(request, response);
}

void ShardHost::Drain(const absl::Status& reason) {
  MutexLock lock(mu_);
  if (drained_.ok()) drained_ = reason;
}

void ShardHost::WaitUntilIdle(absl::Time deadline) {
  MutexLock lock(mu_);
  while (calls_ > 0) {
    if (!call_ended_.WaitUntil(mu_, deadline)) return;
  }
}

void ShardHost::CloseAll(const absl::Status& reason) {
  Drain(reason);
  WriteSnapshots();
  std::map<TableKey, std::shared_ptr<HostedShard>> shards;
  {
    MutexLock lock(mu_);
    shards.swap(shards_);
  }
  for (const auto& [key, hosted] : shards) hosted->Close(reason);
  shards.clear();
  WaitUntilIdle(absl::InfiniteFuture());
}

void ShardHost::WriteSnapshots() {
  std::vector<std::shared_ptr<HostedShard>> all;
  {
    MutexLock lock(mu_);
    for (const auto& [key, hosted] : shards_) all.push_back(hosted);
  }
  for (const std::shared_ptr<HostedShard>& hosted : all) {
    const absl::Status status = hosted->WriteSnapshot();
    if (!status.ok()) {
      TANDEM_LOG(Warning) << "the last snapshot of " << NameOf(hosted->key())
                          << " was not written: " << status.message();
    }
  }
}

int ShardHost::num_shards() const {
  MutexLock lock(mu_);
  return static_cast<int>(shards_.size());
}

}  // namespace tandem::parameter_server
