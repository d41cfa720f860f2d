#include <sys/wait.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/cluster/job_environment.h"
#include "tools/cli/command.h"
#include "tools/cli/launch.h"
#include "tools/cli/launch_servers.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem launch --workers=MIN:MAX [OPTION…] -- COMMAND…\n\n"
    "Runs one training in several processes, copies of COMMAND, and keeps it going: a process "
    "that\n"
    "fails is started again, and joins the others, until the first copy has ended with 0. The job\n"
    "begins when MIN workers are there, and ends when all copies have ended with 0, or when fewer\n"
    "than MIN are left. Lines are printed with the worker's name before each; the last line of a "
    "job\n"
    "that failed says what failed first.\n\n"
    "On one machine this is all. On several, run it once on each, as\n"
    "  tandem launch --workers=2:4 --per_host=1 --host=10.0.0.1 --host_index=0 \\\n"
    "      --rendezvous=10.0.0.1:29400 -- ./my_trainer\n"
    "where the rendezvous is served by the one with --host_index=0.\n\n"
    "With --servers=N the training is one with parameter servers, on this machine: N servers, the\n"
    "most workers of MIN:MAX, and a chief, which runs the program, are copies of COMMAND, too. "
    "The\n"
    "job ends with the chief, and a process that fails is started again.\n\n"
    "  --workers=2:4          how many workers the job has at least and at most (4: exactly 4)\n"
    "  --servers=N            how many parameter servers the job has (default: 0)\n"
    "  --max_restarts=3       how often each worker is started again after it failed\n"
    "  --per_host=N           how many workers this machine runs (default: all of them)\n"
    "  --host=NAME            by which the others reach this machine (default: 127.0.0.1)\n"
    "  --host_index=0         which of the machines this is\n"
    "  --rendezvous=HOST:PORT where the machines meet (default: a free port of this one)\n"
    "  --devices=CPU:2        devices of each worker (default: TANDEM_DEVICES, else one CPU)\n"
    "  --http_port=PORT       a page of the job's state on http://127.0.0.1:PORT/, and metrics "
    "for\n"
    "                         Prometheus on /metrics (0: a free port, which a line tells)\n"
    "  --grace=SECONDS        how long workers may take to save and end (default: 30)\n\n"
    "For each process a line tells where it is: started worker:1 pid 4711 port 40001\n"
    "Each finds in its environment TF_CONFIG, TANDEM_RENDEZVOUS, TANDEM_WORKERS,\n"
    "TANDEM_RESTART_COUNT and, unless it is set already, its share of this machine's cores,\n"
    "TANDEM_NUM_THREADS. SIGTERM and Ctrl-C are passed on to the workers, which save and end with\n"
    "143; then so does this program.\n\n"
    "Examples:\n"
    "  tandem launch --workers=2 -- ./my_trainer --epochs=3\n"
    "  tandem launch --servers=2 --workers=2 -- ./my_trainer\n"
    "  tandem launch --workers=2:4 --max_restarts=10 -- ./my_trainer --checkpoint_dir=run\n";

absl::StatusOr<int> NumberFlag(const Arguments& arguments, const char* name, int otherwise, int low,
                               int high) {
  if (!arguments.Has(name)) return otherwise;
  int number = 0;
  const std::string text = arguments.Last(name);
  if (!absl::SimpleAtoi(text, &number) || number < low || number > high) {
    return errors::InvalidArgument("--", name, "=", text, ": a number from ", low, " to ", high,
                                   " is wanted");
  }
  return number;
}

absl::StatusOr<LaunchOptions> ReadLaunch(const std::vector<std::string>& words,
                                         const Arguments& arguments) {
  LaunchOptions launch;
  launch.command.assign(absl::c_find(words, "--") + 1, words.end());
  if (!arguments.positional().empty()) {
    return errors::InvalidArgument("takes no '", arguments.positional()[0],
                                   "'; the command stands behind --");
  }
  if (!arguments.Has("workers")) {
    return errors::InvalidArgument("wants --workers=MIN:MAX; see tandem launch --help");
  }
  const auto range = ParseWorkerRange(arguments.Last("workers"));
  if (!range.ok()) return WithContext(range.status(), "--workers");
  std::tie(launch.min_workers, launch.max_workers) = *range;
  TANDEM_ASSIGN_OR_RETURN(launch.most_restarts,
                          NumberFlag(arguments, "max_restarts", 3, 0, 1000000));
  TANDEM_ASSIGN_OR_RETURN(launch.per_host, NumberFlag(arguments, "per_host", launch.max_workers, 1,
                                                      launch.max_workers));
  const int last_host = (launch.max_workers - 1) / launch.per_host;
  TANDEM_ASSIGN_OR_RETURN(launch.host_index, NumberFlag(arguments, "host_index", 0, 0, last_host));
  launch.host = arguments.Last("host", "127.0.0.1");
  launch.rendezvous = arguments.Last("rendezvous");
  if (last_host > 0 && (launch.rendezvous.empty() || !arguments.Has("host"))) {
    return errors::InvalidArgument(
        "--workers=", arguments.Last("workers"), " --per_host=", launch.per_host,
        " takes several machines: they need --rendezvous=HOST:PORT, where they meet, and "
        "--host=NAME, by which each is reached");
  }
  double grace = 30;
  if (arguments.Has("grace") &&
      (!absl::SimpleAtod(arguments.Last("grace"), &grace) || !(grace >= 0))) {
    return errors::InvalidArgument("--grace=", arguments.Last("grace"),
                                   ": it must be a number of seconds");
  }
  launch.grace = absl::Seconds(grace);
  launch.devices = arguments.Last("devices");
  if (arguments.Has("http_port")) {
    TANDEM_ASSIGN_OR_RETURN(launch.http_port, NumberFlag(arguments, "http_port", 0, 0, 65535));
  }
  return launch;
}

// 0: the job has none.
absl::StatusOr<int> ReadServers(const Arguments& arguments, const LaunchOptions& launch) {
  TANDEM_ASSIGN_OR_RETURN(const int servers, NumberFlag(arguments, "servers", 0, 0, 1000));
  if (servers == 0) return servers;
  for (const char* flag : {"per_host", "host", "host_index", "rendezvous"}) {
    if (!arguments.Has(flag)) continue;
    return errors::InvalidArgument(
        "--", flag,
        " goes with several machines, --servers with this one alone; on several, start "
        "each process with a TF_CONFIG that names all");
  }
  if (launch.min_workers != launch.max_workers) {
    return errors::InvalidArgument("--workers=", arguments.Last("workers"),
                                   ": with --servers it is one number; workers that are lost are "
                                   "not missed until they are there again");
  }
  return servers;
}

absl::StatusOr<LaunchEnd> LaunchServers(const LaunchOptions& launch, int servers) {
  ServerLaunchOptions options;
  options.command = launch.command;
  options.servers = servers;
  options.workers = launch.max_workers;
  options.devices = launch.devices;
  options.http_port = launch.http_port;
  options.most_restarts = launch.most_restarts;
  options.grace = launch.grace;
  TANDEM_ASSIGN_OR_RETURN(LaunchEnd end, LaunchWithServers(options));
  // What the chief says of itself counts for the job.
  const int chief = end.codes.back();
  if (end.status.ok() && end.signal == 0 && WIFEXITED(chief) && WEXITSTATUS(chief) > 128) {
    end.signal = WEXITSTATUS(chief) - 128;
  }
  end.codes = {chief};
  return end;
}

absl::Status Run(const std::vector<std::string>& words) {
  const auto dashes = absl::c_find(words, "--");
  if (dashes == words.end() || dashes + 1 == words.end()) {
    return errors::InvalidArgument("wants a command behind --; see tandem launch --help");
  }
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse({words.begin(), dashes},
                       {"workers", "servers", "max_restarts", "per_host", "host", "host_index",
                        "rendezvous", "devices", "grace", "http_port"},
                       {}));
  TANDEM_ASSIGN_OR_RETURN(const LaunchOptions launch, ReadLaunch(words, arguments));
  TANDEM_ASSIGN_OR_RETURN(const int servers, ReadServers(arguments, launch));
  TANDEM_ASSIGN_OR_RETURN(LaunchEnd end,
                          servers > 0 ? LaunchServers(launch, servers) : Launch(launch));
  if (!end.status.ok() || end.signal == 0) return end.status;
  absl::Status ended =
      errors::Cancelled("SIG", sigabbrev_np(end.signal), " ended the command before its time");
  const bool saved = absl::c_all_of(end.codes, [](int code) {
    return WIFEXITED(code) && (WEXITSTATUS(code) == 0 || WEXITSTATUS(code) == kPreemptedCode);
  });
  if (saved) SetExitCode(&ended, kPreemptedCode);
  return ended;
}

}  // namespace

const Command kLaunchCommand = {
    "launch", "runs one training in several processes, restarts what fails", kHelp, Run};

}  // namespace tandem::cli
