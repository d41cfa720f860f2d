#include "runtime/rpc/server_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"

namespace tandem {

absl::Status CheckLimits(const ServerLimits& limits) {
  const struct {
    const char* name;
    int64_t value;
  } all[] = {{"max_message_bytes", limits.message_bytes},
             {"max_sessions", limits.sessions},
             {"max_graph_nodes", limits.graph_nodes},
             {"max_request_tensor_bytes", limits.request_tensor_bytes},
             {"max_variable_bytes", limits.variable_bytes}};
  for (const auto& limit : all) {
    if (limit.value > 0) continue;
    return errors::InvalidArgument("--", limit.name, "=", limit.value, ": a limit is at least 1");
  }
  return absl::OkStatus();
}

int64_t CountNodes(const tensorflow::GraphDef& graph) {
  int64_t nodes = graph.node_size();
  for (const tensorflow::FunctionDef& function : graph.library().function()) {
    nodes += function.node_def_size();
  }
  return nodes;
}

absl::Status CheckNodes(int64_t nodes, const ServerLimits& limits) {
  if (nodes <= limits.graph_nodes) return absl::OkStatus();
  return errors::ResourceExhausted("the session's graph has ", nodes,
                                   " nodes, those of functions included; this server's limit is ",
                                   limits.graph_nodes, " (--max_graph_nodes)");
}

ImportOptions LimitedImport(const ServerLimits& limits) {
  ImportOptions options;
  options.max_tensor_bytes = static_cast<size_t>(limits.request_tensor_bytes);
  // What a client never runs may be what this program does not know.
  options.keep_unknown_ops = true;
  return options;
}

absl::Status ExplainImport(const absl::Status& status, const ServerLimits& limits) {
  if (!absl::IsResourceExhausted(status)) return status;
  return errors::ResourceExhausted(status.message(), "; the tensors of a request may take ",
                                   limits.request_tensor_bytes,
                                   " bytes on this server (--max_request_tensor_bytes)");
}

absl::StatusOr<Tensor> RequestTensors::Read(const tensorflow::TensorProto& proto) {
  // One tensor alone has a limit of its own, and more memory than there is is another error.
  const auto most = std::min<int64_t>(left_, static_cast<int64_t>(kMaxTensorProtoBytes));
  absl::StatusOr<Tensor> tensor = TensorFromProto(proto, static_cast<size_t>(most));
  if (tensor.ok()) {
    left_ -= std::min<int64_t>(left_, static_cast<int64_t>(tensor->num_bytes()));
  } else if (absl::IsResourceExhausted(tensor.status()) && most == left_) {
    return errors::ResourceExhausted(
        tensor.status().message(), "; the tensors of a request may take ", limit_,
        " bytes on this server (--max_request_tensor_bytes), of which ", left_, " are left");
  }
  return tensor;
}

absl::Status RequestTensors::Count(uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::max<int64_t>(left_, 0))) {
    return errors::ResourceExhausted(
        "values of ", bytes,
        " bytes that come through shared memory; the tensors of a request may "
        "take ",
        limit_, " bytes on this server (--max_request_tensor_bytes), of which ",
        std::max<int64_t>(left_, 0), " are left");
  }
  left_ -= static_cast<int64_t>(bytes);
  return absl::OkStatus();
}

}  // namespace tandem
