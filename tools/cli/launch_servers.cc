#include "tools/cli/launch_servers.h"

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

namespace tandem::cli {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr char kThreads[] = "TANDEM_NUM_THREADS";
constexpr char kRestarts[] = "TANDEM_RESTART_COUNT";

}  // namespace

absl::StatusOr<LaunchEnd> LaunchWithServers(const ServerLaunchOptions& options) {
  // Before any thread: signals are blocked for those that follow.
  ChildProcesses children;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> ports,
                          FreePorts(1 + options.workers + options.servers));
  nlohmann::json cluster;
  std::map<std::string, int> port_of;
  std::vector<std::pair<std::string, int>> tasks;
  // Servers first: the others look for them.
  for (int i = 0; i < options.servers; ++i) tasks.emplace_back("ps", i);
  for (int i = 0; i < options.workers; ++i) tasks.emplace_back("worker", i);
  tasks.emplace_back("chief", 0);
  for (size_t i = 0; i < tasks.size(); ++i) {
    cluster[tasks[i].first].push_back(absl::StrCat(kHost, ":", ports[i]));
    port_of[absl::StrCat(tasks[i].first, ":", tasks[i].second)] = ports[i];
  }
  const char* const threads = std::getenv(kThreads);
  const bool shares_cores = threads == nullptr || *threads == '\0';
  RestartPolicy policy;
  // Nobody can be spared for good.
  policy.least = static_cast<int>(tasks.size());
  policy.most_restarts = options.most_restarts;
  policy.first_pause = options.first_pause;
  policy.final_codes = options.final_codes;
  policy.leader = "chief:0";
  policy.passes_interrupts = options.passes_interrupts;
  policy.restart_variable = kRestarts;
  policy.on_start = [&](const std::string& name, pid_t pid, int) {
    children.Say(absl::StrCat("started ", name, " pid ", pid, " port ", port_of[name]));
  };
  for (const auto& [job, index] : tasks) {
    ChildSpec spec;
    spec.name = absl::StrCat(job, ":", index);
    spec.command = options.command;
    spec.inherits_output = options.chief_inherits_output && job == "chief";
    const nlohmann::json config = {{"cluster", cluster},
                                   {"task", {{"type", job}, {"index", index}}}};
    spec.environment = {{"TF_CONFIG", config.dump()}, {kRestarts, "0"}};
    if (job == "chief" && options.http_port.has_value()) {
      spec.environment.emplace_back("TANDEM_STATUS_PORT", absl::StrCat(*options.http_port));
    }
    if (job == "worker" && !options.devices.empty()) {
      spec.environment.emplace_back("TANDEM_DEVICES", options.devices);
    }
    // Servers and the chief have little to compute.
    if (shares_cores && job == "worker") {
      spec.environment.emplace_back(kThreads,
                                    absl::StrCat(std::max(1, CpuCount() / options.workers)));
    }
    const absl::StatusOr<pid_t> pid = children.Start(spec);
    if (!pid.ok()) return WithContext(pid.status(), spec.name);
    policy.on_start(spec.name, *pid, 0);
  }
  LaunchEnd end;
  end.status = children.RunWithRestarts(policy, options.grace, &end.signal, &end.codes);
  return end;
}

}  // namespace tandem::cli
