#include "runtime/parameter_server/fetch_state.h"

#include <limits>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "runtime/parameter_server/wire.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kPieceTime = absl::Minutes(1);

// From the beginning. Aborted: the state changed while it was read.
absl::StatusOr<absl::optional<FoundState>> FetchOnce(ServiceClient* replica, const ShardKey& key,
                                                     int64_t newer_than, absl::Time deadline) {
  // What this process asks for itself is bounded by its memory.
  ServerLimits limits;
  limits.request_tensor_bytes = std::numeric_limits<int64_t>::max();
  JoinedPieces joined(std::numeric_limits<int64_t>::max());
  GetStateRequest request;
  *request.mutable_shard() = key;
  request.set_newer_than(newer_than);
  for (;;) {
    ServiceCallOptions options;
    options.deadline = deadline;
    TANDEM_ASSIGN_OR_RETURN(grpc::ByteBuffer answer,
                            replica->CallAndWait("GetState", WholeMessage(request), options));
    GetStateResponse response;
    TANDEM_ASSIGN_OR_RETURN(NamedValues values,
                            ReadTensors(&answer, kGetStateValues, limits, &response));
    if (!response.exists()) return absl::optional<FoundState>();
    TANDEM_RETURN_IF_ERROR(joined.Add(response.pieces(), std::move(values)));
    request.set_version(response.version());
    if (response.has_next()) {
      *request.mutable_position() = response.next();
      deadline = absl::Now() + kPieceTime;
      continue;
    }
    FoundState found;
    found.state.emplace();
    found.state->version = response.version();
    TANDEM_ASSIGN_OR_RETURN(found.state->variables, joined.Finish());
    found.state->applied.assign(response.applied().begin(), response.applied().end());
    found.note = response.note();
    return absl::optional<FoundState>(std::move(found));
  }
}

}  // namespace

absl::StatusOr<absl::optional<FoundState>> FetchState(ServiceClient* replica, const ShardKey& key,
                                                      int64_t newer_than, absl::Time first_answer) {
  constexpr int kTries = 3;  // Nobody pushes to a shard that is not there yet.
  absl::StatusOr<absl::optional<FoundState>> found = absl::optional<FoundState>();
  for (int i = 0; i < kTries; ++i) {
    found = FetchOnce(replica, key, newer_than, first_answer);
    if (!absl::IsAborted(found.status())) break;
  }
  return found;
}

}  // namespace tandem::parameter_server
