#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"
#include "runtime/cluster/cluster_config.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/command.h"
#include "tools/cli/free_ports.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem local --jobs=JOB:COUNT,… [OPTION…] [-- COMMAND…]\n\n"
    "Starts a cluster of processes on this machine, one a task, and ends all of them together. "
    "Their\n"
    "lines are printed with the task's name before each.\n\n"
    "Without COMMAND each task is a tandem_server, and the cluster runs until Ctrl-C. With "
    "COMMAND\n"
    "each task is a copy of it, which finds its place in the environment variable TF_CONFIG; the\n"
    "cluster ends when all copies but those of the job ps have ended, or when one of them "
    "fails.\n\n"
    "  --jobs=worker:2,ps:1  the jobs, and how many tasks each has\n"
    "  --devices=CPU:2       devices of each task (default: TANDEM_DEVICES, else one CPU)\n"
    "  --server=FILE         the tandem_server to start (default: the one beside this program)\n"
    "  --grace=SECONDS       how long tasks may take to end (default: 15)\n\n"
    "For each process a line tells where it is: started worker:1 pid 4711 port 40001\n\n"
    "Examples:\n"
    "  tandem local --jobs=worker:2,ps:1\n"
    "  tandem local --jobs=worker:2 -- ./my_trainer --epochs=3\n";

absl::StatusOr<std::vector<std::pair<std::string, int>>> ParseJobs(const std::string& text) {
  constexpr int kMostTasks = 1000;
  std::vector<std::pair<std::string, int>> jobs;
  int total = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> pair = absl::StrSplit(part, ':');
    int count = 1;
    if (pair[0].empty() || pair.size() > 2 ||
        (pair.size() == 2 && (!absl::SimpleAtoi(pair[1], &count) || count < 1))) {
      return errors::InvalidArgument("--jobs=", text, ": '", part,
                                     "' is no job and its number of tasks, as in worker:2");
    }
    total += std::min(count, kMostTasks + 1);
    if (total > kMostTasks) {
      return errors::InvalidArgument("--jobs=", text, ": more than ", kMostTasks, " tasks");
    }
    jobs.emplace_back(pair[0], count);
  }
  return jobs;
}

std::string ServerBesideThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string self(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return absl::StrCat(self.substr(0, self.rfind('/') + 1), "tandem_server");
}

absl::Status Run(const std::vector<std::string>& words) {
  const auto dashes = absl::c_find(words, "--");
  std::vector<std::string> command;
  if (dashes != words.end()) {
    command.assign(dashes + 1, words.end());
    if (command.empty()) return errors::InvalidArgument("there is no command behind --");
  }
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse({words.begin(), dashes}, {"jobs", "devices", "server", "grace"}, {}));
  if (!arguments.positional().empty()) {
    return errors::InvalidArgument("takes no '", arguments.positional()[0],
                                   "'; a command stands behind --");
  }
  if (!arguments.Has("jobs")) {
    return errors::InvalidArgument("wants --jobs=worker:2,ps:1; see tandem local --help");
  }
  double grace = 15;
  if (arguments.Has("grace") &&
      (!absl::SimpleAtod(arguments.Last("grace"), &grace) || !(grace >= 0))) {
    return errors::InvalidArgument("--grace=", arguments.Last("grace"),
                                   ": it must be a number of seconds");
  }
  TANDEM_ASSIGN_OR_RETURN(const auto jobs, ParseJobs(arguments.Last("jobs")));
  int total = 0;
  for (const auto& [job, count] : jobs) total += count;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int> ports, FreePorts(total));

  nlohmann::json cluster;
  size_t port = 0;
  for (const auto& [job, count] : jobs) {
    if (cluster.contains(job)) {
      return errors::InvalidArgument("--jobs: the job '", job, "' is there twice");
    }
    for (int i = 0; i < count; ++i) {
      cluster[job].push_back(absl::StrCat("127.0.0.1:", ports[port++]));
    }
  }
  // Names and numbers of jobs have rules.
  const absl::StatusOr<ClusterConfig> checked =
      ParseClusterConfig(nlohmann::json({{"cluster", cluster}}).dump());
  if (!checked.ok()) return WithContext(checked.status(), "--jobs");

  ChildProcesses children;
  port = 0;
  for (const auto& [job, count] : jobs) {
    for (int i = 0; i < count; ++i) {
      ChildSpec spec;
      spec.name = absl::StrCat(job, ":", i);
      spec.command = command;
      if (command.empty()) {
        spec.command = {arguments.Last("server", ServerBesideThisProgram())};
      }
      spec.serves = command.empty() || job == "ps";
      const nlohmann::json config = {{"cluster", cluster}, {"task", {{"type", job}, {"index", i}}}};
      spec.environment.emplace_back("TF_CONFIG", config.dump());
      if (arguments.Has("devices")) {
        spec.environment.emplace_back("TANDEM_DEVICES", arguments.Last("devices"));
      }
      const absl::StatusOr<pid_t> pid = children.Start(spec);
      if (!pid.ok()) return WithContext(pid.status(), spec.name);
      std::printf("started %s pid %d port %d\n", spec.name.c_str(), static_cast<int>(*pid),
                  ports[port++]);
      std::fflush(stdout);
    }
  }
  int signal = 0;
  const absl::Status status = children.Run(absl::Seconds(grace), &signal);
  if (status.ok() && signal != 0 && !command.empty()) {
    return errors::Cancelled("SIG", sigabbrev_np(signal), " ended the command before its time");
  }
  return status;
}

}  // namespace

const Command kLocalCommand = {"local", "runs a cluster of processes on this machine", kHelp, Run};

}  // namespace tandem::cli
