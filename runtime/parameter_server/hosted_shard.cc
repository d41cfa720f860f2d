#include "runtime/parameter_server/hosted_shard.h"

#include <utility>

#include "core/base/status.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

// A state may be as large as the memory; Tensor::Create says when there is none left.
constexpr uint64_t kMostStateBytes = uint64_t{1} << 42;

}  // namespace

HostedShard::~HostedShard() {
  {
    MutexLock lock(snapshot_mu_);
    snapshotter_.reset();
  }
  // Those that wait for the replica are answered; the shard waits for them.
  if (replicator_ != nullptr) replicator_->Stop();
  shard_.reset();
}

void HostedShard::SetSnapshotter(std::unique_ptr<Snapshotter> snapshotter, std::string folder,
                                 FileSystem* files) {
  MutexLock lock(snapshot_mu_);
  snapshotter_ = std::move(snapshotter);
  snapshot_folder_ = std::move(folder);
  files_ = files;
}

void HostedShard::SetPrevious(std::shared_ptr<HostedShard> previous) {
  std::shared_ptr<HostedShard> before;
  {
    MutexLock lock(previous->replica_mu_);
    before = std::move(previous->previous_);
  }
  MutexLock lock(replica_mu_);
  previous_ = before == nullptr ? std::move(previous) : std::move(before);
}

absl::Status HostedShard::Extend(const DefineRequest& definition) {
  const std::vector<Program> programs(definition.programs().begin(), definition.programs().end());
  const std::vector<Variable> variables(definition.variables().begin(),
                                        definition.variables().end());
  return shard_->Extend(definition.graph(), programs, variables);
}

absl::StatusOr<std::vector<NamedTensor>> HostedShard::Read(const ReadRequest& request,
                                                           ReadResponse* response) {
  std::vector<std::string> names(request.variables().begin(), request.variables().end());
  if (names.empty()) names = shard_->variables();
  const int first = request.position().variable();
  if (first < 0 || static_cast<size_t>(first) > names.size()) {
    return errors::InvalidArgument("there is no variable ", first, " of ", names.size());
  }
  names.erase(names.begin(), names.begin() + first);
  TANDEM_ASSIGN_OR_RETURN(std::vector<Tensor> values, shard_->Read(names));
  if (values.size() != names.size()) return errors::Internal("a shard read too few variables");
  NamedValues named;
  for (size_t i = 0; i < names.size(); ++i) {
    named.emplace_back(std::move(names[i]), std::move(values[i]));
  }
  Position next;
  next.set_row(request.position().row());
  TANDEM_ASSIGN_OR_RETURN(std::vector<NamedTensor> taken,
                          TakePieces(named, kPieceBytes, &next, response->mutable_pieces()));
  if (next.variable() < static_cast<int64_t>(named.size())) {
    next.set_variable(next.variable() + first);
    *response->mutable_next() = next;
  }
  return taken;
}

absl::Status HostedShard::Write(NamedValues values, absl::Time deadline) {
  TANDEM_RETURN_IF_ERROR(shard_->Write(std::move(values)));
  if (replicator_ != nullptr) replicator_->StateChanged(deadline);
  MutexLock lock(snapshot_mu_);
  if (snapshotter_ != nullptr) snapshotter_->WriteSoon();
  return absl::OkStatus();
}

void HostedShard::SetNote(std::string note) {
  if (replicator_ != nullptr) replicator_->SetNote(note);
  MutexLock lock(mu_);
  note_ = std::move(note);
}

std::string HostedShard::note() const {
  MutexLock lock(mu_);
  return note_;
}

void HostedShard::Report(ShardReportProto* report) const {
  const ShardStatus status = shard_->status();
  *report->mutable_shard() = key_;
  report->set_incarnation(incarnation_);
  report->set_version(status.version);
  report->set_pushes(status.pushes);
  report->set_repeated_pushes(status.repeated);
  report->set_dropped(status.dropped);
  report->set_pulls(status.pulls);
  report->set_waiting(status.waiting);
  report->set_variable_bytes(status.variable_bytes);
  report->set_last_staleness(status.last_staleness);
  report->set_mean_staleness(status.mean_staleness);
  report->set_max_staleness(status.max_staleness);
  report->set_median_staleness(status.median_staleness);
  report->set_pulled_bytes(status.pulled_bytes);
  report->set_pushed_bytes(status.pushed_bytes);
  {
    MutexLock lock(snapshot_mu_);
    report->set_snapshot_version(snapshotter_ == nullptr ? -1 : snapshotter_->version());
  }
  if (replicator_ == nullptr) return;
  const Replicator::Status replication = replicator_->status();
  report->set_replica_behind(replication.behind);
  report->set_replica_is_lost(replication.is_lost);
}

absl::StatusOr<ReplicateResponse> HostedShard::Replicate(const ReplicateRequest& request,
                                                         std::vector<Tensor> arguments) {
  int64_t wanted = 0;
  for (const ReplicateRequest::Push& push : request.pushes()) {
    if (push.arguments() < 0) return errors::InvalidArgument("a push has too few arguments");
    wanted += push.arguments();
  }
  if (wanted != static_cast<int64_t>(arguments.size())) {
    return errors::InvalidArgument("pushes with ", wanted, " arguments come with ",
                                   arguments.size());
  }
  MutexLock lock(replica_mu_);
  outgoing_.reset();
  ReplicateResponse response;
  auto next = arguments.begin();
  for (const ReplicateRequest::Push& sent : request.pushes()) {
    AppliedPush push;
    push.version = sent.version();
    push.program = sent.program();
    push.ids.assign(sent.ids().begin(), sent.ids().end());
    const auto end = next + sent.arguments();
    push.arguments.assign(std::make_move_iterator(next), std::make_move_iterator(end));
    next = end;
    // The message has come before, or the state that was copied has it.
    if (push.version <= shard_->version()) continue;
    const absl::Status status = shard_->Apply(push);
    if (absl::IsFailedPrecondition(status)) {
      response.set_needs_state(true);
      break;
    }
    TANDEM_RETURN_IF_ERROR(status);
    HasState();
  }
  if (request.has_note()) {
    MutexLock note_lock(mu_);
    note_ = request.note();
  }
  response.set_version(shard_->version());
  return response;
}

absl::StatusOr<PutStateResponse> HostedShard::PutState(const PutStateRequest& request,
                                                       NamedValues values) {
  PutStateResponse response;
  MutexLock lock(replica_mu_);
  outgoing_.reset();
  if (request.transfer() == done_transfer_) return response;
  if (request.piece() == 0 &&
      !(incoming_.has_value() && incoming_->transfer == request.transfer())) {
    incoming_.emplace(Incoming{request.transfer(), 0, JoinedPieces(kMostStateBytes)});
  }
  if (!incoming_.has_value() || incoming_->transfer != request.transfer() ||
      request.piece() > incoming_->next_piece) {
    response.set_needs_first(true);
    return response;
  }
  if (request.piece() < incoming_->next_piece) return response;
  TANDEM_RETURN_IF_ERROR(incoming_->joined.Add(request.pieces(), std::move(values)));
  ++incoming_->next_piece;
  if (!request.is_last()) return response;
  ShardState state;
  state.version = request.version();
  TANDEM_ASSIGN_OR_RETURN(state.variables, incoming_->joined.Finish());
  incoming_.reset();
  state.applied.assign(request.applied().begin(), request.applied().end());
  TANDEM_RETURN_IF_ERROR(shard_->Restore(std::move(state)));
  done_transfer_ = request.transfer();
  HasState();
  MutexLock note_lock(mu_);
  note_ = request.note();
  return response;
}

absl::StatusOr<std::vector<NamedTensor>> HostedShard::GetState(const GetStateRequest& request,
                                                               GetStateResponse* response) {
  MutexLock lock(replica_mu_);
  if (!has_state_ && previous_ != nullptr) return previous_->GetState(request, response);
  const bool is_first = request.position().variable() == 0 && request.position().row() == 0;
  response->set_version(shard_->version());
  response->set_exists(has_state_ && response->version() > request.newer_than());
  if (!response->exists()) return std::vector<NamedTensor>();
  if (is_first) {
    outgoing_.reset();
    TANDEM_ASSIGN_OR_RETURN(outgoing_, shard_->Capture());
  }
  if (!outgoing_.has_value() || (!is_first && outgoing_->version != request.version())) {
    return errors::Aborted("the state of ", NameOf(key_), " has changed while it was read");
  }
  response->set_version(outgoing_->version);
  Position next = request.position();
  TANDEM_ASSIGN_OR_RETURN(
      std::vector<NamedTensor> taken,
      TakePieces(outgoing_->variables, kPieceBytes, &next, response->mutable_pieces()));
  if (next.variable() < static_cast<int64_t>(outgoing_->variables.size())) {
    *response->mutable_next() = next;
    return taken;
  }
  for (const auto& applied : outgoing_->applied) *response->add_applied() = applied;
  response->set_note(note());
  // An answer that is lost is asked for again; the state goes with the next message of its shard.
  return taken;
}

absl::Status HostedShard::WriteSnapshot() {
  MutexLock lock(snapshot_mu_);
  return snapshotter_ == nullptr ? absl::OkStatus() : snapshotter_->WriteNow();
}

absl::Status HostedShard::RemoveSnapshots() {
  MutexLock lock(snapshot_mu_);
  if (snapshotter_ == nullptr) return absl::OkStatus();
  snapshotter_.reset();
  return parameter_server::RemoveSnapshots(files_, snapshot_folder_);
}

void HostedShard::Close(const absl::Status& reason) {
  shard_->Close(reason);
  if (replicator_ != nullptr) replicator_->Stop();
}

}  // namespace tandem::parameter_server
