#include "tools/demo_program/servers.h"

#include <sys/wait.h>

#include "core/base/status.h"
#include "tools/cli/launch_servers.h"
#include "tools/demo_program/workers.h"

namespace tandem::demo {

absl::Status RunWithServers(int workers, int servers, const std::vector<std::string>& flags,
                            int* code) {
  *code = 1;
  TANDEM_ASSIGN_OR_RETURN(const std::string program, PathOfThisProgram());
  cli::ServerLaunchOptions options;
  options.command = {program};
  options.command.insert(options.command.end(), flags.begin(), flags.end());
  options.servers = servers;
  options.workers = workers;
  options.most_restarts = 10;
  options.first_pause = absl::Milliseconds(200);
  options.final_codes = {1, 2};
  options.passes_interrupts = true;
  options.chief_inherits_output = true;  // It alone speaks.
  TANDEM_ASSIGN_OR_RETURN(const cli::LaunchEnd end, cli::LaunchWithServers(options));
  // The last one. What it says of itself counts for the job.
  const int chief = end.codes.back();
  if (end.status.ok() && end.signal == 0 && WIFEXITED(chief) && WEXITSTATUS(chief) > 128) {
    *code = WEXITSTATUS(chief);
    return errors::Cancelled("the chief was told to end, and the job with it");
  }
  return EndOfJob(end.status, end.signal, {chief}, code);
}

}  // namespace tandem::demo
