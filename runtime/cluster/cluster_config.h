// Cluster configurations: who the tasks of a job are, and which of them this process is.
//
// Four forms are read. As JSON, a TF_CONFIG object,
//   {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"], "ps": {"0": "10.0.0.3:2222"}},
//    "task": {"type": "worker", "index": 0}}
// or its "cluster" alone, each job a list of addresses or, where indices are missing, a map from
// index to address; and as messages, a ServerDef or a ClusterDef, in text or binary form.
//
// Rules: names of jobs are ASCII letters, digits and underscores and begin with a letter; at most
// one chief (or "master", its older name) and one evaluator; addresses are host:port, IPv6 hosts in
// brackets, ports from 0 to 65535; no address is there twice. An evaluator need not be part of the
// cluster. Messages of errors name the place in the document, what was found and what is allowed.
#ifndef TANDEM_RUNTIME_CLUSTER_CLUSTER_CONFIG_H_
#define TANDEM_RUNTIME_CLUSTER_CLUSTER_CONFIG_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tensorflow {
class ClusterDef;
class ServerDef;
}  // namespace tensorflow

namespace tandem {

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;
};
// InvalidArgument: not host:port.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

struct TaskId {
  std::string job;
  int index = 0;

  // "/job:worker/replica:0/task:1".
  std::string ToString() const;
};

struct ClusterConfig {
  // By job and index; ordered.
  std::map<std::string, std::map<int, std::string>> jobs;
  // Which of them this process is; not set when the document does not say so.
  absl::optional<TaskId> task;

  int num_tasks() const;
  // Null when there is no such task.
  const std::string* Address(const TaskId& task) const;
};

// Reads any of the forms. InvalidArgument: see above.
absl::StatusOr<ClusterConfig> ParseClusterConfig(absl::string_view document);

// The configuration as a message. REQUIRES: `task` is part of the cluster, or an evaluator.
tensorflow::ServerDef ToServerDef(const ClusterConfig& config, const TaskId& task);
absl::StatusOr<ClusterConfig> FromServerDef(const tensorflow::ServerDef& def);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_CLUSTER_CONFIG_H_
