// What a shard that begins anew takes from the server that holds its replica.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_FETCH_STATE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_FETCH_STATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/parameter_service.pb.h"
#include "runtime/parameter_server/service_client.h"
#include "runtime/parameter_server/shard.h"

namespace tandem::parameter_server {

struct FoundState {
  absl::optional<ShardState> state;  // None: there is none.
  std::string note;
};

// The state of the replica there. None: there is no replica, it has none, or none that is newer
// than version `newer_than`. Each message of it has until `first_answer`, or a minute once it has
// begun. Waits. Errors: those of ServiceClient.
absl::StatusOr<absl::optional<FoundState>> FetchState(ServiceClient* replica, const ShardKey& key,
                                                      int64_t newer_than, absl::Time first_answer);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_FETCH_STATE_H_
