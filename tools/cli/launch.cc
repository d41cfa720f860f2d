#include "tools/cli/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/cluster/cluster_config.h"
#include "runtime/cluster/membership/rendezvous.h"
#include "runtime/rpc/security.h"
#include "runtime/threads/cpu_count.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/free_ports.h"
#include "tools/cli/job_status.h"

namespace tandem::cli {
namespace {

constexpr char kThreads[] = "TANDEM_NUM_THREADS";
constexpr char kRestarts[] = "TANDEM_RESTART_COUNT";

// The processes of this machine, with their ports.
absl::StatusOr<std::vector<ChildSpec>> MakeSpecs(const LaunchOptions& options, int first, int count,
                                                 const std::string& rendezvous,
                                                 const std::vector<int>& ports) {
  // With the ports of all workers each can be reached from outside by what TF_CONFIG says; those of
  // other machines are learned at the rendezvous.
  nlohmann::json tasks;
  for (int i = 0; i < count; ++i) {
    tasks[absl::StrCat(first + i)] = absl::StrCat(options.host, ":", ports[static_cast<size_t>(i)]);
  }
  const char* const threads = std::getenv(kThreads);
  const bool shares_cores = threads == nullptr || *threads == '\0';
  std::vector<ChildSpec> specs;
  for (int i = 0; i < count; ++i) {
    ChildSpec spec;
    spec.name = absl::StrCat("worker:", first + i);
    spec.command = options.command;
    spec.inherits_output = options.inherits_output;
    const nlohmann::json config = {{"cluster", {{"worker", tasks}}},
                                   {"task", {{"type", "worker"}, {"index", first + i}}}};
    const absl::StatusOr<ClusterConfig> checked = ParseClusterConfig(config.dump());
    if (!checked.ok()) return WithContext(checked.status(), "--host");
    spec.environment = {
        {"TF_CONFIG", config.dump()},
        {"TANDEM_RENDEZVOUS", rendezvous},
        {"TANDEM_WORKERS", absl::StrCat(options.min_workers, ":", options.max_workers)},
        {kRestarts, "0"}};
    if (!options.devices.empty()) spec.environment.emplace_back("TANDEM_DEVICES", options.devices);
    if (shares_cores) {
      spec.environment.emplace_back(kThreads, absl::StrCat(std::max(1, CpuCount() / count)));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

absl::StatusOr<LaunchEnd> Launch(const LaunchOptions& options) {
  TANDEM_ASSIGN_OR_RETURN(const Security security, LoadSecurity());

  // Before any thread: signals are blocked for those that follow.
  ChildProcesses children;
  membership::MemoryArbiter arbiter;
  std::unique_ptr<membership::RendezvousServer> server;
  std::string rendezvous = options.rendezvous;
  if (options.host_index == 0) {
    absl::StatusOr<std::unique_ptr<membership::RendezvousServer>> started =
        membership::RendezvousServer::Start(
            rendezvous.empty() ? absl::StrCat(options.host, ":0") : rendezvous, security, &arbiter);
    if (!started.ok()) return WithContext(started.status(), "the rendezvous");
    server = *std::move(started);
    rendezvous = server->address();
  }

  const int first = options.host_index * options.per_host;
  const int count = std::min(options.per_host, options.max_workers - first);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(count));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<ChildSpec> specs,
                          MakeSpecs(options, first, count, rendezvous, ports));
  std::map<std::string, int> port_of;
  for (size_t i = 0; i < specs.size(); ++i) port_of[specs[i].name] = ports[i];
  std::unique_ptr<StatusPage> page;
  if (options.http_port.has_value()) {
    std::vector<std::string> addresses;
    for (const int port : ports) addresses.push_back(absl::StrCat(options.host, ":", port));
    absl::StatusOr<std::unique_ptr<StatusPage>> served =
        ServeJobStatus(*options.http_port, std::move(addresses), security);
    if (!served.ok()) return WithContext(served.status(), "--http_port");
    page = *std::move(served);
    children.Say(absl::StrCat("status page ", page->address()));
  }

  char host_name[256] = {};
  gethostname(host_name, sizeof(host_name) - 1);
  RestartPolicy policy;
  // Of the others only they know how many are left.
  policy.least = std::max(1, options.min_workers - (options.max_workers - count));
  policy.most_restarts = options.most_restarts;
  policy.final_codes = options.final_codes;
  policy.passes_interrupts = options.passes_interrupts;
  policy.restart_variable = kRestarts;
  policy.on_start = [&](const std::string& name, pid_t pid, int) {
    children.Say(absl::StrCat("started ", name, " pid ", pid, " port ", port_of[name]));
  };
  policy.on_end = [&](const std::string&, pid_t pid) { arbiter.NoteEnd(host_name, pid); };
  for (const ChildSpec& spec : specs) {
    const absl::StatusOr<pid_t> pid = children.Start(spec);
    if (!pid.ok()) return WithContext(pid.status(), spec.name);
    policy.on_start(spec.name, *pid, 0);
  }
  LaunchEnd end;
  end.status = children.RunWithRestarts(policy, options.grace, &end.signal, &end.codes);
  return end;
}

}  // namespace tandem::cli
