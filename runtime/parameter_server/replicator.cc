#include "runtime/parameter_server/replicator.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "runtime/parameter_server/wire.h"
#include "runtime/threads/start_thread.h"

namespace tandem::parameter_server {
namespace {

// Of a server that was lost.
constexpr absl::Duration kPause = absl::Seconds(1);
constexpr absl::Duration kAnswerTime = absl::Seconds(3);
// When there is nothing to send, the replica is asked so often whether it is still there.
constexpr absl::Duration kIdle = absl::Seconds(1);
constexpr absl::Duration kLeastPieceTime = absl::Seconds(30);
constexpr size_t kMostPushesInBatch = 256;

size_t BytesOf(const AppliedPush& push) {
  size_t bytes = 0;
  for (const Tensor& tensor : push.arguments) bytes += tensor.num_bytes();
  return bytes;
}

// Of the bytes. Equal messages have equal ones.
std::pair<size_t, size_t> FingerprintOf(const DefineRequest& definition) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    definition.SerializeToCodedStream(&out);
  }
  return {bytes.size(), absl::HashOf(bytes)};
}

}  // namespace

Replicator::Replicator(Options options) : options_(std::move(options)), writer_(RandomNumber()) {
  DefineRequest definition = options_.definition;
  definition.clear_order();
  MutexLock lock(mu_);
  fingerprints_.insert(FingerprintOf(definition));
  definitions_.push_back(std::move(definition));
}

Replicator::~Replicator() { Stop(); }

void Replicator::Start(Shard* shard, bool has_state) {
  shard_ = shard;
  must_copy_ = has_state;
  thread_ = StartThread("replicate", [this] { Run(); });
  if (!thread_.joinable()) Lost(errors::ResourceExhausted("there is no thread for it"));
}

void Replicator::Stop() {
  std::deque<Entry> queue;
  {
    MutexLock lock(mu_);
    stops_ = true;
    queue.swap(queue_);
    changed_.NotifyAll();
  }
  cancellation_.Cancel(errors::Cancelled("the shard is no longer replicated"));
  for (Entry& entry : queue) {
    if (entry.answered) entry.answered(absl::OkStatus());
  }
  if (thread_.joinable()) thread_.join();
}

void Replicator::Applied(AppliedPush push, Answered answered) {
  {
    MutexLock lock(mu_);
    if (!stops_ && !is_lost_) {
      const bool waits =
          options_.is_synchronous || static_cast<int64_t>(queue_.size()) >= options_.most_behind;
      queue_.push_back({std::move(push), waits ? std::move(answered) : Answered()});
      changed_.NotifyAll();
      if (waits) return;
    }
  }
  answered(absl::OkStatus());
}

void Replicator::Extend(DefineRequest addition) {
  addition.clear_order();
  const std::pair<size_t, size_t> fingerprint = FingerprintOf(addition);
  MutexLock lock(mu_);
  // Coordinators define a shard again whenever they are not sure.
  if (!fingerprints_.insert(fingerprint).second) return;
  definitions_.push_back(std::move(addition));
  changed_.NotifyAll();
}

void Replicator::StateChanged(absl::Time deadline) {
  MutexLock lock(mu_);
  const int64_t wanted = ++state_changes_;
  changed_.NotifyAll();
  if (!options_.is_synchronous) return;
  while (!stops_ && !is_lost_ && copied_changes_ < wanted) {
    if (!changed_.WaitUntil(mu_, deadline)) return;
  }
}

void Replicator::SetNote(std::string note) {
  MutexLock lock(mu_);
  note_ = std::move(note);
  has_new_note_ = true;
  changed_.NotifyAll();
}

Replicator::Status Replicator::status() const {
  // Not under the lock: the shard calls Applied.
  const int64_t version = shard_ == nullptr ? 0 : shard_->version();
  MutexLock lock(mu_);
  return {std::max<int64_t>(version - replica_version_, 0), is_lost_};
}

Order Replicator::NextOrder() {
  Order order;
  order.set_writer(writer_);
  order.set_number(++order_);
  return order;
}

ServiceCallOptions Replicator::Within(absl::Duration time) {
  ServiceCallOptions options;
  options.deadline = absl::Now() + time;
  options.cancellation = &cancellation_;
  return options;
}

void Replicator::Run() {
  for (;;) {
    Phase phase;
    {
      MutexLock lock(mu_);
      if (stops_) return;
      phase = phase_;
    }
    const absl::Status status = phase == Phase::kConnect ? Connect()
                                : phase == Phase::kCopy  ? CopyState()
                                                         : Stream();
    if (status.ok()) continue;
    absl::Duration pause = kPause;
    if (absl::IsAborted(status)) {
      pause = kPause / 10;
      must_copy_ = true;
      MutexLock lock(mu_);
      phase_ = Phase::kConnect;
    } else {
      Lost(status);
    }
    const absl::Time end = absl::Now() + pause;
    MutexLock lock(mu_);
    while (!stops_ && changed_.WaitUntil(mu_, end)) {
    }
  }
}

void Replicator::Lost(const absl::Status& status) {
  must_copy_ = true;
  std::deque<Entry> queue;
  {
    MutexLock lock(mu_);
    if (stops_) return;
    if (!is_lost_) {
      TANDEM_LOG(Warning) << options_.name << " goes on without its replica at "
                          << options_.client->address() << ": " << status.message();
    }
    is_lost_ = true;
    phase_ = Phase::kConnect;
    queue.swap(queue_);
    changed_.NotifyAll();
  }
  for (Entry& entry : queue) {
    if (entry.answered) entry.answered(absl::OkStatus());
  }
}

absl::Status Replicator::Connect() {
  DefineRequest definition;
  bool was_lost = false;
  {
    MutexLock lock(mu_);
    next_definition_ = 0;
    was_lost = is_lost_;
    definition = definitions_.front();
    *definition.mutable_order() = NextOrder();
  }
  definition.set_anew(true);
  DefineResponse response;
  TANDEM_RETURN_IF_ERROR(options_.client->CallAndWait(
      "Define", definition, Within(was_lost ? kAnswerTime : options_.lost_after), &response));
  incarnation_ = response.incarnation();
  MutexLock lock(mu_);
  next_definition_ = 1;
  // What is applied from here on is kept; what was before is in the state that is copied.
  is_lost_ = false;
  replica_version_ = 0;
  phase_ = must_copy_ ? Phase::kCopy : Phase::kStream;
  if (was_lost) {
    TANDEM_LOG(Info) << options_.name << " builds its replica at " << options_.client->address()
                     << " up again";
  }
  return absl::OkStatus();
}

absl::Status Replicator::SendDefinitions() {
  for (;;) {
    DefineRequest definition;
    {
      MutexLock lock(mu_);
      if (next_definition_ == definitions_.size()) return absl::OkStatus();
      definition = definitions_[next_definition_];
      *definition.mutable_order() = NextOrder();
    }
    DefineResponse response;
    TANDEM_RETURN_IF_ERROR(
        options_.client->CallAndWait("Define", definition, Within(options_.lost_after), &response));
    if (response.incarnation() != incarnation_) {
      return errors::Aborted("the replica is another one");
    }
    MutexLock lock(mu_);
    ++next_definition_;
  }
}

absl::Status Replicator::CopyState() {
  TANDEM_RETURN_IF_ERROR(SendDefinitions());
  int64_t changes = 0;
  {
    MutexLock lock(mu_);
    changes = state_changes_;
  }
  const absl::StatusOr<ShardState> captured = shard_->Capture();
  if (absl::IsFailedPrecondition(captured.status())) {
    // Its variables have no values yet: they come with its first pushes. If some were missed, the
    // replica says so.
    must_copy_ = false;
    MutexLock lock(mu_);
    copied_changes_ = changes;
    phase_ = Phase::kStream;
    return absl::OkStatus();
  }
  TANDEM_RETURN_IF_ERROR(captured.status());
  const ShardState& state = *captured;
  const absl::Duration piece_time = std::max(options_.lost_after, kLeastPieceTime);
  const uint64_t transfer = RandomNumber();
  Position next;
  for (int64_t piece = 0;; ++piece) {
    PutStateRequest request;
    *request.mutable_shard() = options_.definition.shard();
    request.set_incarnation(incarnation_);
    request.set_transfer(transfer);
    request.set_piece(piece);
    request.set_version(state.version);
    TANDEM_ASSIGN_OR_RETURN(
        std::vector<NamedTensor> values,
        TakePieces(state.variables, kPieceBytes, &next, request.mutable_pieces()));
    const bool is_last = next.variable() == static_cast<int64_t>(state.variables.size());
    request.set_is_last(is_last);
    if (is_last) {
      for (const auto& applied : state.applied) *request.add_applied() = applied;
      MutexLock lock(mu_);
      request.set_note(note_);
      has_new_note_ = false;
    }
    TANDEM_ASSIGN_OR_RETURN(
        grpc::ByteBuffer buffer,
        EncodeStepMessage(request, kPutStateValues, "variable", std::move(values)));
    TANDEM_ASSIGN_OR_RETURN(
        grpc::ByteBuffer answer,
        options_.client->CallAndWait("PutState", std::move(buffer), Within(piece_time)));
    PutStateResponse response;
    TANDEM_RETURN_IF_ERROR(ParseMessage(&answer, &response));
    if (response.needs_first()) return errors::Aborted("the replica has lost pieces of the state");
    if (is_last) break;
  }
  must_copy_ = false;
  Acknowledge(state.version);
  MutexLock lock(mu_);
  copied_changes_ = changes;
  phase_ = Phase::kStream;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status Replicator::Stream() {
  {
    const absl::Time end = last_message_ + kIdle;
    MutexLock lock(mu_);
    while (queue_.empty() && next_definition_ == definitions_.size() && !has_new_note_ &&
           state_changes_ == copied_changes_ && !stops_) {
      if (!changed_.WaitUntil(mu_, end)) break;
    }
    if (stops_) return absl::OkStatus();
    if (state_changes_ != copied_changes_) {
      phase_ = Phase::kCopy;
      return absl::OkStatus();
    }
  }
  TANDEM_RETURN_IF_ERROR(SendDefinitions());
  TANDEM_ASSIGN_OR_RETURN(grpc::ByteBuffer batch, NextBatch());
  TANDEM_ASSIGN_OR_RETURN(
      grpc::ByteBuffer answer,
      options_.client->CallAndWait("Replicate", std::move(batch), Within(options_.lost_after)));
  last_message_ = absl::Now();
  ReplicateResponse response;
  TANDEM_RETURN_IF_ERROR(ParseMessage(&answer, &response));
  if (response.needs_state()) return errors::Aborted("the replica needs the shard's state");
  Acknowledge(response.version());
  return absl::OkStatus();
}

absl::StatusOr<grpc::ByteBuffer> Replicator::NextBatch() {
  ReplicateRequest request;
  *request.mutable_shard() = options_.definition.shard();
  request.set_incarnation(incarnation_);
  std::vector<Tensor> arguments;
  size_t bytes = 0;
  {
    MutexLock lock(mu_);
    // What was changed otherwise comes first, in a copy.
    const bool has_all = state_changes_ == copied_changes_;
    for (const Entry& entry : queue_) {
      if (!has_all) break;
      bytes += BytesOf(entry.push);
      const auto count = static_cast<size_t>(request.pushes_size());
      if (count > 0 && (bytes > kPieceBytes || count == kMostPushesInBatch)) break;
      ReplicateRequest::Push* const push = request.add_pushes();
      push->set_version(entry.push.version);
      push->set_program(entry.push.program);
      for (const PushId& id : entry.push.ids) *push->add_ids() = id;
      push->set_arguments(static_cast<int>(entry.push.arguments.size()));
      arguments.insert(arguments.end(), entry.push.arguments.begin(), entry.push.arguments.end());
    }
    if (has_new_note_) {
      request.set_has_note(true);
      request.set_note(note_);
      has_new_note_ = false;
    }
  }
  return EncodeStepMessage(request, kReplicateArguments, "argument", Unnamed(std::move(arguments)));
}

void Replicator::Acknowledge(int64_t version) {
  std::vector<Answered> answers;
  {
    MutexLock lock(mu_);
    replica_version_ = std::max(replica_version_, version);
    while (!queue_.empty() && queue_.front().push.version <= version) {
      if (queue_.front().answered) answers.push_back(std::move(queue_.front().answered));
      queue_.pop_front();
    }
    if (!options_.is_synchronous) {
      // Those that are now within the bound.
      const auto bound = static_cast<size_t>(std::max<int64_t>(options_.most_behind, 0));
      for (size_t i = 0; i < std::min(bound, queue_.size()); ++i) {
        if (!queue_[i].answered) continue;
        answers.push_back(std::move(queue_[i].answered));
        queue_[i].answered = nullptr;
      }
    }
  }
  for (Answered& answered : answers) answered(absl::OkStatus());
}

}  // namespace tandem::parameter_server
