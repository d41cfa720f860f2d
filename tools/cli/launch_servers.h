// LaunchWithServers: one training with parameter servers, in processes of this machine: servers,
// workers and the chief, which runs the program. What `tandem launch --servers` does, and the demo.
#ifndef TANDEM_TOOLS_CLI_LAUNCH_SERVERS_H_
#define TANDEM_TOOLS_CLI_LAUNCH_SERVERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "tools/cli/launch.h"

namespace tandem::cli {

struct ServerLaunchOptions {
  // All run it: a program whose Strategy::FromEnvironment makes servers and workers serve.
  std::vector<std::string> command;
  int servers = 1;
  int workers = 1;
  std::string devices;  // TANDEM_DEVICES of each worker; empty: as the environment says.
  // TANDEM_STATUS_PORT of the chief. Not set: as the environment says.
  absl::optional<int> http_port;

  int most_restarts = 3;
  absl::Duration first_pause = absl::Seconds(1);
  absl::Duration grace = absl::Seconds(30);
  // As RestartPolicy and ChildSpec (child_processes.h) have them.
  std::vector<int> final_codes;
  bool passes_interrupts = false;
  bool chief_inherits_output = false;
};

// Starts the processes, and a line for each says where it is ("started ps:0 pid 4711 port 40001");
// starts again who is killed; returns when the chief's work is over and all have ended. In
// LaunchEnd::codes the chief's is the last.
//
// Each finds in its environment TF_CONFIG, TANDEM_RESTART_COUNT and, workers, unless it is set
// already, their share of the cores, TANDEM_NUM_THREADS. Errors and REQUIRES as Launch.
absl::StatusOr<LaunchEnd> LaunchWithServers(const ServerLaunchOptions& options);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_LAUNCH_SERVERS_H_
