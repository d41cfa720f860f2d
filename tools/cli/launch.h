// Launch: one training in several processes of this machine, which are started again when they
// fail. What `tandem launch` does, and the demo, which starts copies of itself.
#ifndef TANDEM_TOOLS_CLI_LAUNCH_H_
#define TANDEM_TOOLS_CLI_LAUNCH_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tandem::cli {

struct LaunchOptions {
  std::vector<std::string> command;
  // Of the whole job.
  int min_workers = 1;
  int max_workers = 1;
  // How many of them this machine runs, and which of the machines it is.
  int per_host = 1;
  int host_index = 0;
  // By which the others reach this machine.
  std::string host = "127.0.0.1";
  // Where the machines meet; empty: a free port of this one. Served by the machine 0.
  std::string rendezvous;
  std::string devices;  // TANDEM_DEVICES of each; empty: as this process's environment says.
  // Of the job's status page (runtime/cluster/status_page.h), whose address a line tells; 0: a free
  // one. Not set: there is none.
  absl::optional<int> http_port;

  int most_restarts = 3;
  // How long workers may take to save and end when they are told to.
  absl::Duration grace = absl::Seconds(30);
  // As RestartPolicy and ChildSpec (child_processes.h) have them.
  std::vector<int> final_codes;
  bool passes_interrupts = false;
  bool inherits_output = false;
};

struct LaunchEnd {
  // That told this process to end; 0: none did.
  int signal = 0;
  // How each worker ended last, as waitpid gives it.
  std::vector<int> codes;
  // Not OK: the job failed. Says who failed first, with its last lines.
  absl::Status status;
};

// Starts the workers, and a line for each says where it is ("started worker:1 pid 4711 port
// 40001"); returns when the job has ended. Each worker finds in its environment TF_CONFIG,
// TANDEM_RENDEZVOUS, TANDEM_WORKERS, TANDEM_RESTART_COUNT and, unless it is set already, its share
// of the cores, TANDEM_NUM_THREADS.
//
// Errors: no worker has run, or one cannot be started: NotFound for the program, InvalidArgument
// for an address, Unavailable for a port that is taken, that of the page too. REQUIRES: this
// process has no other children that it waits for.
absl::StatusOr<LaunchEnd> Launch(const LaunchOptions& options);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_LAUNCH_H_
