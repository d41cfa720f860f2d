// What a server refuses since it is too much, with ResourceExhausted and the limit's name.
#ifndef TANDEM_RUNTIME_RPC_SERVER_LIMITS_H_
#define TANDEM_RUNTIME_RPC_SERVER_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/import.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"

namespace tandem {

struct ServerLimits {
  // --max_message_bytes. At most 2 GiB - 1, which is what gRPC and protocol buffers can do. The
  // error is gRPC's own.
  int message_bytes = 2147483647;
  // --max_sessions: of clients of this task.
  int64_t sessions = 1000;
  // --max_graph_nodes: of a session, those in its functions included.
  int64_t graph_nodes = 1'000'000;
  // --max_request_tensor_bytes: what the tensors of a request, a graph's constants or a step's
  // feeds, take when they are read; a message of a few bytes may stand for a large one.
  int64_t request_tensor_bytes = int64_t{8} << 30;
  // --max_variable_bytes: what the variables take that this server keeps for trainings with
  // parameter servers, replicas of other servers' included.
  int64_t variable_bytes = std::numeric_limits<int64_t>::max();
};

// InvalidArgument: a limit of 0 or less.
absl::Status CheckLimits(const ServerLimits& limits);

// Nodes of a graph and of its functions.
int64_t CountNodes(const tensorflow::GraphDef& graph);
// ResourceExhausted: a session's `nodes` exceed the limit.
absl::Status CheckNodes(int64_t nodes, const ServerLimits& limits);

// What reads a graph of a client, and its error: what exceeds the limit gets its name.
ImportOptions LimitedImport(const ServerLimits& limits);
absl::Status ExplainImport(const absl::Status& status, const ServerLimits& limits);

// Reads the tensors of one request. Threads: one.
class RequestTensors {
 public:
  explicit RequestTensors(const ServerLimits& limits)
      : limit_(limits.request_tensor_bytes), left_(limits.request_tensor_bytes) {}

  // As TensorFromProto. ResourceExhausted: all that were read take more than the limit.
  absl::StatusOr<Tensor> Read(const tensorflow::TensorProto& proto);
  // A value of the request that was read in place.
  void Count(const Tensor& value) {
    if (value.is_valid()) left_ -= static_cast<int64_t>(value.num_bytes());
  }
  // Values of so many bytes that are in other memory. ResourceExhausted: as Read.
  absl::Status Count(uint64_t bytes);

 private:
  const int64_t limit_;
  int64_t left_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SERVER_LIMITS_H_
