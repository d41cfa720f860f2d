#include "runtime/parameter_server/shard_client.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "runtime/parameter_server/call_faults.h"
#include "runtime/parameter_server/remote_store.h"
#include "runtime/parameter_server/service_client.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

DefineRequest::Replication OnWire(Replication mode) {
  switch (mode) {
    case Replication::kNone:
      return DefineRequest::NONE;
    case Replication::kAsynchronous:
      return DefineRequest::ASYNCHRONOUS;
    case Replication::kSynchronous:
      return DefineRequest::SYNCHRONOUS;
  }
  return DefineRequest::NONE;
}

absl::StatusOr<Origin> OriginOf(DefineResponse::Origin origin) {
  switch (origin) {
    case DefineResponse::EXISTED:
      return Origin::kExisted;
    case DefineResponse::NEW:
      return Origin::kNew;
    case DefineResponse::REPLICA:
      return Origin::kReplica;
    case DefineResponse::SNAPSHOT:
      return Origin::kSnapshot;
    default:
      return errors::Internal("a shard's state comes from nowhere that is known: ", origin);
  }
}

ShardReport ReportOf(const ShardReportProto& from) {
  ShardReport report;
  report.number = from.shard().number();
  report.is_replica = from.shard().is_replica();
  report.incarnation = from.incarnation();
  report.status.version = from.version();
  report.status.pushes = from.pushes();
  report.status.repeated = from.repeated_pushes();
  report.status.dropped = from.dropped();
  report.status.pulls = from.pulls();
  report.status.waiting = from.waiting();
  report.status.variable_bytes = from.variable_bytes();
  report.status.last_staleness = from.last_staleness();
  report.status.mean_staleness = from.mean_staleness();
  report.status.max_staleness = from.max_staleness();
  report.status.median_staleness = from.median_staleness();
  report.status.pulled_bytes = from.pulled_bytes();
  report.status.pushed_bytes = from.pushed_bytes();
  report.replica_behind = from.replica_behind();
  report.snapshot_version = from.snapshot_version();
  report.replica_is_lost = from.replica_is_lost();
  return report;
}

class GrpcShardClient final : public ShardClient {
 public:
  GrpcShardClient(std::shared_ptr<ServiceClient> client, std::shared_ptr<RemoteStore> store)
      : client_(std::move(client)), store_(std::move(store)), writer_(RandomNumber()) {}

  const std::string& address() const override { return client_->address(); }

  absl::StatusOr<DefinedShard> Define(const ShardDefinition& definition,
                                      absl::Time deadline) override {
    DefineRequest request;
    *request.mutable_shard() = KeyOf(definition.job, definition.number);
    *request.mutable_order() = NextOrder();
    *request.mutable_graph() = definition.graph;
    request.mutable_programs()->Assign(definition.programs.begin(), definition.programs.end());
    request.mutable_variables()->Assign(definition.variables.begin(), definition.variables.end());
    request.set_replication(OnWire(definition.replication.mode));
    request.set_replica_address(definition.replication.address);
    request.set_most_behind(definition.replication.most_behind);
    request.set_snapshot_folder(definition.snapshots.folder);
    request.set_snapshot_every_ms(absl::ToInt64Milliseconds(definition.snapshots.every));
    DefineResponse response;
    TANDEM_RETURN_IF_ERROR(client_->CallAndWait("Define", request, Until(deadline), &response));
    DefinedShard defined;
    defined.incarnation = response.incarnation();
    TANDEM_ASSIGN_OR_RETURN(defined.origin, OriginOf(response.origin()));
    defined.version = response.version();
    defined.newest.assign(response.newest().begin(), response.newest().end());
    return defined;
  }

  absl::StatusOr<ShardAnswer> Call(const Route& route, const std::string& program, bool updates,
                                   const std::vector<Tensor>& arguments,
                                   absl::Time deadline) override {
    // Of the route's shards the one that is here.
    const Route::Shard* here = nullptr;
    for (const Route::Shard& shard : route.shards()) {
      if (shard.address() == address()) here = &shard;
    }
    if (here == nullptr) {
      return errors::InvalidArgument("the route of '", route.job(), "' has no shard at ",
                                     address());
    }
    Route timed = route;
    timed.set_timeout_ms(std::max<int64_t>(
        absl::ToInt64Milliseconds(std::min(deadline - absl::Now(), absl::Hours(24))), 1));
    ShardCall call;
    call.shard = here->number();
    call.program = program;
    call.updates = updates;
    Event ended;
    absl::StatusOr<ShardAnswer> result = errors::Internal("the call has not ended");
    store_->CallShard(timed, std::move(call), arguments, /*cancellation=*/nullptr,
                      [&](absl::StatusOr<ShardAnswer> answer) {
                        result = std::move(answer);
                        ended.Set();
                      });
    ended.Wait();
    return result;
  }

  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Read(
      const std::string& job, int shard, const std::vector<std::string>& variables,
      absl::Time deadline) override {
    ReadRequest request;
    *request.mutable_shard() = KeyOf(job, shard);
    request.mutable_variables()->Assign(variables.begin(), variables.end());
    // What this process asks for is bounded by its memory.
    ServerLimits limits;
    limits.request_tensor_bytes = std::numeric_limits<int64_t>::max();
    JoinedPieces joined(std::numeric_limits<int64_t>::max());
    for (;;) {
      TANDEM_ASSIGN_OR_RETURN(grpc::ByteBuffer answer,
                              client_->CallAndWait("Read", WholeMessage(request), Until(deadline)));
      ReadResponse response;
      TANDEM_ASSIGN_OR_RETURN(NamedValues values,
                              ReadTensors(&answer, kReadValues, limits, &response));
      TANDEM_RETURN_IF_ERROR(joined.Add(response.pieces(), std::move(values)));
      if (!response.has_next()) return joined.Finish();
      *request.mutable_position() = response.next();
    }
  }

  absl::Status Write(const std::string& job, int shard,
                     const std::vector<std::pair<std::string, Tensor>>& variables,
                     absl::Time deadline) override {
    // In messages of a bounded size, but each variable whole.
    size_t next = 0;
    do {
      WriteRequest request;
      *request.mutable_shard() = KeyOf(job, shard);
      *request.mutable_order() = NextOrder();
      NamedValues some;
      size_t bytes = 0;
      while (next < variables.size() &&
             (some.empty() || bytes + variables[next].second.num_bytes() <= kPieceBytes)) {
        bytes += variables[next].second.num_bytes();
        some.push_back(variables[next++]);
      }
      TANDEM_ASSIGN_OR_RETURN(
          grpc::ByteBuffer encoded,
          EncodeStepMessage(request, kWriteValues, "variable", Named(std::move(some))));
      TANDEM_RETURN_IF_ERROR(
          client_->CallAndWait("Write", std::move(encoded), Until(deadline)).status());
    } while (next < variables.size());
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ShardReport>> Report(const std::string& job,
                                                  absl::Time deadline) override {
    ReportRequest request;
    request.set_job(job);
    ReportResponse response;
    TANDEM_RETURN_IF_ERROR(client_->CallAndWait("Report", request, Until(deadline), &response));
    std::vector<ShardReport> reports;
    for (const ShardReportProto& shard : response.shards()) reports.push_back(ReportOf(shard));
    return reports;
  }

  absl::Status SetNote(const std::string& job, int shard, const std::string& note,
                       absl::Time deadline) override {
    SetNoteRequest request;
    *request.mutable_shard() = KeyOf(job, shard);
    *request.mutable_order() = NextOrder();
    request.set_note(note);
    SetNoteResponse response;
    return client_->CallAndWait("SetNote", request, Until(deadline), &response);
  }

  absl::StatusOr<std::string> Note(const std::string& job, int shard,
                                   absl::Time deadline) override {
    GetNoteRequest request;
    *request.mutable_shard() = KeyOf(job, shard);
    GetNoteResponse response;
    TANDEM_RETURN_IF_ERROR(client_->CallAndWait("GetNote", request, Until(deadline), &response));
    return response.note();
  }

  absl::Status Forget(const std::string& job, absl::Time deadline) override {
    ForgetRequest request;
    request.set_job(job);
    *request.mutable_order() = NextOrder();
    ForgetResponse response;
    return client_->CallAndWait("Forget", request, Until(deadline), &response);
  }

  absl::StatusOr<absl::optional<JobHolder>> Hold(const std::string& job, const JobHolder& self,
                                                 absl::Duration lease,
                                                 absl::Time deadline) override {
    HoldRequest request;
    request.set_job(job);
    request.set_holder(self.number);
    request.set_who(self.who);
    request.set_lease_ms(absl::ToInt64Milliseconds(lease));
    request.set_number(next_order_.fetch_add(1));
    HoldResponse response;
    TANDEM_RETURN_IF_ERROR(client_->CallAndWait("Hold", request, Until(deadline), &response));
    if (!response.has_other()) return absl::optional<JobHolder>();
    JobHolder other;
    other.number = response.other().holder();
    other.who = response.other().who();
    other.renewals = response.other().renewals();
    other.heard_before = absl::Milliseconds(response.other().heard_ms_ago());
    return absl::optional<JobHolder>(std::move(other));
  }

 private:
  static ServiceCallOptions Until(absl::Time deadline) {
    ServiceCallOptions options;
    options.deadline = deadline;
    return options;
  }
  Order NextOrder() {
    Order order;
    order.set_writer(writer_);
    order.set_number(next_order_.fetch_add(1));
    return order;
  }

  const std::shared_ptr<ServiceClient> client_;
  const std::shared_ptr<RemoteStore> store_;  // Of programs.
  const uint64_t writer_;
  std::atomic<int64_t> next_order_{1};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardClient>> ShardClient::Create(const std::string& address,
                                                                 Options options) {
  RemoteStore::Options store;
  TANDEM_ASSIGN_OR_RETURN(store.security, SecurityOrEnvironment(options.security));
  store.faults = options.faults;
  if (store.faults == nullptr) {
    TANDEM_ASSIGN_OR_RETURN(store.faults, CallFaults::FromEnvironment());
  }
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<ServiceClient> client,
                          ServiceClient::Create(address, store.security, store.faults));
  return std::make_unique<GrpcShardClient>(std::move(client),
                                           std::make_shared<RemoteStore>(std::move(store)));
}

}  // namespace tandem::parameter_server
