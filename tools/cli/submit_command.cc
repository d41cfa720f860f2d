#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/graph_file.h"
#include "core/graph/import.h"
#include "proto/graph.pb.h"
#include "runtime/session/session.h"
#include "tools/cli/command.h"
#include "tools/cli/remote_target.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem submit GRAPH --target=grpc://HOST:PORT --step=NODE [OPTION…]\n\n"
    "Trains a graph on a server: runs a node of it many times, and says how it goes.\n\n"
    "  --target=grpc://HOST:PORT  the server; one task of a cluster, which becomes the master\n"
    "  --init=NODE         runs this first, once (may be given more than once, in order)\n"
    "  --step=NODE         runs this in every step (may be given more than once)\n"
    "  --steps=COUNT       how many steps (default: 1)\n"
    "  --fetch=NAME        an output to print with the progress, and at the end\n"
    "  --timeout=SECONDS   ends with an error when one step takes longer (default: 60), or "
    "making\n"
    "                      the session (default: 130, for tasks that are being started)\n"
    "  --filter=DEVICE     only tasks that fit take part, as in /job:ps (may be repeated)\n"
    "  --soft_placement    nodes that ask for devices which do not exist run elsewhere\n\n"
    "Example:\n"
    "  tandem submit train.pb --target=grpc://localhost:2222 --init=init --step=train_op \\\n"
    "    --steps=1000 --fetch=loss\n";

struct Job {
  std::vector<std::string> steps;
  std::vector<std::string> fetches;
  int64_t count = 1;
  RunOptions options;
};

absl::StatusOr<Job> ReadJob(const Arguments& arguments) {
  Job job;
  job.steps = arguments.All("step");
  job.fetches = arguments.All("fetch");
  if (job.steps.empty() && job.fetches.empty()) {
    return errors::InvalidArgument("wants --step=NODE; see tandem submit --help");
  }
  if (arguments.Has("steps") &&
      (!absl::SimpleAtoi(arguments.Last("steps"), &job.count) || job.count < 1)) {
    return errors::InvalidArgument("--steps=", arguments.Last("steps"),
                                   ": it must be a number above 0");
  }
  double seconds = 60;
  if (arguments.Has("timeout") &&
      (!absl::SimpleAtod(arguments.Last("timeout"), &seconds) || !(seconds > 0))) {
    return errors::InvalidArgument("--timeout=", arguments.Last("timeout"),
                                   ": it must be a number of seconds above 0");
  }
  job.options.timeout = absl::Seconds(seconds);
  return job;
}

std::string Values(const Job& job, const std::vector<Tensor>& results) {
  constexpr int kShown = 6;
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) {
    absl::StrAppend(&text, "  ", job.fetches[i], ": ", results[i].DebugString(kShown));
  }
  return text;
}

absl::Status Train(Session& session, const Job& job) {
  constexpr absl::Duration kReportEvery = absl::Seconds(1);
  const absl::Time begin = absl::Now();
  absl::Time reported = begin;
  std::vector<Tensor> results;
  for (int64_t step = 1; step <= job.count; ++step) {
    absl::StatusOr<std::vector<Tensor>> ran =
        session.Run(job.options, {}, job.fetches, job.steps, nullptr);
    if (!ran.ok()) return WithContext(ran.status(), absl::StrCat("step ", step));
    results = *std::move(ran);
    const absl::Time now = absl::Now();
    if (now - reported < kReportEvery || step == job.count) continue;
    reported = now;
    std::printf("step %lld of %lld%s\n", static_cast<long long>(step),
                static_cast<long long>(job.count), Values(job, results).c_str());
    std::fflush(stdout);
  }
  const double took = std::max(absl::ToDoubleSeconds(absl::Now() - begin), 1e-9);
  std::printf("%lld steps in %.3g s, %.4g steps/s%s\n", static_cast<long long>(job.count), took,
              static_cast<double>(job.count) / took, Values(job, results).c_str());
  return absl::OkStatus();
}

absl::Status Submit(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse(words, {"target", "init", "step", "steps", "fetch", "timeout", "filter"},
                       {"soft_placement"}));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one graph file; see tandem submit --help");
  }
  if (!arguments.Has("target")) {
    return errors::InvalidArgument("wants --target=grpc://HOST:PORT; see tandem submit --help");
  }
  TANDEM_ASSIGN_OR_RETURN(const Job job, ReadJob(arguments));
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ReadGraphFile(arguments.positional()[0], &def));
  TANDEM_ASSIGN_OR_RETURN(const Graph graph, ImportGraphDef(def));
  RemoteSessionOptions options;
  options.soft_placement = arguments.Has("soft_placement");
  options.device_filters = arguments.All("filter");
  if (arguments.Has("timeout")) options.start_timeout = job.options.timeout;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          ConnectToServerThatAnswers(arguments.Last("target"), graph, options));
  for (const std::string& init : arguments.All("init")) {
    const absl::Status ran = session->Run(job.options, {}, {}, {init}, nullptr).status();
    if (!ran.ok()) return WithContext(ran, absl::StrCat("--init=", init));
  }
  return Train(*session, job);
}

}  // namespace

const Command kSubmitCommand = {"submit", "trains a graph on a server", kHelp, Submit};

}  // namespace tandem::cli
