#include "tools/demo_program/servers.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/threads/cpu_count.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/free_ports.h"
#include "tools/demo_program/workers.h"

namespace tandem::demo {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr char kThreads[] = "TANDEM_NUM_THREADS";
// As long as servers wait for a coordinator that saves.
constexpr absl::Duration kGrace = absl::Seconds(30);

}  // namespace

absl::Status RunWithServers(int workers, int servers, const std::vector<std::string>& flags,
                            int* code) {
  *code = 1;
  TANDEM_ASSIGN_OR_RETURN(const std::string program, PathOfThisProgram());
  // Before any thread: signals are blocked for those that follow.
  cli::ChildProcesses children;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> ports, cli::FreePorts(1 + workers + servers));
  nlohmann::json cluster;
  std::map<std::string, int> port_of;
  std::vector<std::pair<std::string, int>> tasks;
  // Servers first: the others look for them.
  for (int i = 0; i < servers; ++i) tasks.emplace_back("ps", i);
  for (int i = 0; i < workers; ++i) tasks.emplace_back("worker", i);
  tasks.emplace_back("chief", 0);
  for (size_t i = 0; i < tasks.size(); ++i) {
    cluster[tasks[i].first].push_back(absl::StrCat(kHost, ":", ports[i]));
    port_of[absl::StrCat(tasks[i].first, ":", tasks[i].second)] = ports[i];
  }
  const char* const threads = std::getenv(kThreads);
  const bool shares_cores = threads == nullptr || *threads == '\0';
  cli::RestartPolicy policy;
  // Nobody can be spared for good.
  policy.least = static_cast<int>(tasks.size());
  policy.most_restarts = 10;
  policy.first_pause = absl::Milliseconds(200);
  policy.final_codes = {1, 2};
  policy.leader = "chief:0";
  policy.passes_interrupts = true;
  policy.restart_variable = "TANDEM_RESTART_COUNT";
  policy.on_start = [&](const std::string& name, pid_t pid, int) {
    children.Say(absl::StrCat("started ", name, " pid ", pid, " port ", port_of[name]));
  };
  for (const auto& [job, index] : tasks) {
    cli::ChildSpec spec;
    spec.name = absl::StrCat(job, ":", index);
    spec.command = {program};
    spec.command.insert(spec.command.end(), flags.begin(), flags.end());
    // The chief alone speaks.
    spec.inherits_output = job == "chief";
    const nlohmann::json config = {{"cluster", cluster},
                                   {"task", {{"type", job}, {"index", index}}}};
    spec.environment = {{"TF_CONFIG", config.dump()}, {policy.restart_variable, "0"}};
    // Servers and the chief have little to compute.
    if (shares_cores && job == "worker") {
      spec.environment.emplace_back(kThreads, absl::StrCat(std::max(1, CpuCount() / workers)));
    }
    const absl::StatusOr<pid_t> pid = children.Start(spec);
    if (!pid.ok()) return WithContext(pid.status(), spec.name);
    policy.on_start(spec.name, *pid, 0);
  }
  int signal = 0;
  std::vector<int> codes;
  const absl::Status status = children.RunWithRestarts(policy, kGrace, &signal, &codes);
  // The last one. What it says of itself counts for the job.
  const int chief = codes.back();
  if (status.ok() && signal == 0 && WIFEXITED(chief) && WEXITSTATUS(chief) > 128) {
    *code = WEXITSTATUS(chief);
    return errors::Cancelled("the chief was told to end, and the job with it");
  }
  return EndOfJob(status, signal, {chief}, code);
}

}  // namespace tandem::demo
