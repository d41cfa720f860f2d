#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/graph/import.h"
#include "core/io/npy.h"
#include "core/passes/optimize.h"
#include "proto/graph.pb.h"
#include "runtime/session/session.h"
#include "runtime/session/timeline.h"
#include "tools/cli/command.h"
#include "tools/cli/graph_argument.h"
#include "tools/cli/json_value.h"
#include "tools/cli/remote_target.h"
#include "tools/cli/time_limit.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem run GRAPH [--feed NAME=VALUE]… [--fetch NAME]… [--target NODE]… [OPTION…]\n\n"
    "Runs a part of a GraphDef (binary or text) once and prints what was fetched.\n\n"
    "  --feed NAME=VALUE   a value in JSON: 1.5, [1,2,3], [[1,0],[0,1]], true; also nan, inf, "
    "-inf.\n"
    "                      For a string the text as it stands, unless it begins with \" or [:\n"
    "                      then it is JSON (\"text\", [\"a\",\"b\"])\n"
    "  --feed NAME=@FILE   an array from a NumPy .npy file\n"
    "  --fetch NAME        an output to print: node, or node:1. Numbers have all the digits that\n"
    "                      it takes to feed the same ones again\n"
    "  --target NODE       a node to run without printing anything\n"
    "  --target=grpc://HOST:PORT  runs on this server, instead of in this process\n"
    "  --save NAME=FILE    writes a fetched output to a .npy file (may be combined with --fetch)\n"
    "  --trace=FILE        writes a timeline for chrome://tracing or ui.perfetto.dev\n"
    "  --timeout=SECONDS   ends the command when it takes longer, reading files included, and "
    "says\n"
    "                      what it was doing: of a run, which nodes wait\n"
    "  --devices=CPU:2     devices of the session (default: TANDEM_DEVICES, else one CPU)\n"
    "  --soft_placement    nodes that ask for devices which do not exist run elsewhere\n"
    "  --passes=-NAME,…    switches optimization passes off (none: all); as TANDEM_PASSES\n\n"
    "Examples:\n"
    "  tandem run add.pbtxt --feed x=2 --feed y=[1,2,3] --fetch sum\n"
    "  tandem run model.pb --feed images=@images.npy --fetch logits --trace=step.json\n";

// Splits "name=value"; the name may hold a ':' but no '='.
absl::StatusOr<std::pair<std::string, std::string>> NameAndValue(const std::string& flag,
                                                                 const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return errors::InvalidArgument("--", flag, " ", text, ": it must be of the form NAME=VALUE");
  }
  return std::make_pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<Tensor> FeedValue(const Graph& graph, const std::string& name,
                                 const std::string& value) {
  TANDEM_ASSIGN_OR_RETURN(const Output output, graph.GetOutput(name));
  if (absl::StartsWith(value, "@")) return ReadNpy(value.substr(1));
  if (output.index < 0 || output.node->num_outputs() == 0) {
    return errors::InvalidArgument("'", name, "' has no value that could be fed");
  }
  return TensorFromJson(value, RemoveReference(output.dtype()));
}

absl::Status WriteTrace(const RunMetadata& metadata, const std::string& path) {
  std::ofstream file(path);
  file << ChromeTrace(metadata.events) << "\n";
  file.close();
  if (file) return absl::OkStatus();
  return errors::FailedPrecondition("the timeline cannot be written to '", path,
                                    "': ", std::strerror(errno));
}

absl::StatusOr<absl::Duration> Timeout(const Arguments& arguments) {
  if (!arguments.Has("timeout")) return absl::InfiniteDuration();
  double seconds;
  // Not a number compares false.
  if (!absl::SimpleAtod(arguments.Last("timeout"), &seconds) || !(seconds > 0)) {
    return errors::InvalidArgument("--timeout=", arguments.Last("timeout"),
                                   ": it must be a number of seconds above 0");
  }
  return absl::Seconds(seconds);
}

// The server to run on, if one is named; the rest are nodes, whose names hold no "://".
absl::StatusOr<std::string> TakeServer(std::vector<std::string>* targets) {
  std::string server;
  const auto is_server = [](const std::string& target) {
    return absl::StartsWith(target, "grpc://");
  };
  for (const std::string& target : *targets) {
    if (!is_server(target)) continue;
    if (!server.empty()) return errors::InvalidArgument("--target names two servers");
    server = target;
  }
  targets->erase(std::remove_if(targets->begin(), targets->end(), is_server), targets->end());
  return server;
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(
      const Arguments arguments,
      Arguments::Parse(words,
                       {"feed", "fetch", "target", "save", "trace", "timeout", "devices", "passes"},
                       {"soft_placement"}));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one graph file; see tandem run --help");
  }
  TANDEM_ASSIGN_OR_RETURN(const absl::Duration timeout, Timeout(arguments));
  TimeLimit limit(timeout, [&](const std::string& doing) {
    std::fprintf(stderr, "tandem run: not done after %s (--timeout), while %s\n",
                 absl::FormatDuration(timeout).c_str(), doing.c_str());
    _exit(1);
  });
  const std::string& path = arguments.positional()[0];
  limit.Doing(absl::StrCat("reading the graph from '", path, "'"));
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ReadGraphArgument(path, &def));
  limit.Doing("checking the graph");
  TANDEM_ASSIGN_OR_RETURN(const Graph graph, ImportGraphDef(def));

  Session::Feeds feeds;
  for (const std::string& feed : arguments.All("feed")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("feed", feed));
    limit.Doing(absl::StrCat("reading --feed ", pair.first, "=", pair.second.substr(0, 100)));
    absl::StatusOr<Tensor> value = FeedValue(graph, pair.first, pair.second);
    if (!value.ok()) return WithContext(value.status(), absl::StrCat("--feed ", pair.first));
    feeds.emplace_back(pair.first, *std::move(value));
  }
  std::vector<std::string> fetches = arguments.All("fetch");
  const size_t num_printed = fetches.size();
  std::vector<std::string> files;
  for (const std::string& save : arguments.All("save")) {
    TANDEM_ASSIGN_OR_RETURN(const auto pair, NameAndValue("save", save));
    fetches.push_back(pair.first);
    files.push_back(pair.second);
  }

  SessionOptions session_options;
  session_options.soft_placement = arguments.Has("soft_placement");
  if (arguments.Has("passes")) {
    const absl::Status switched = SwitchPasses(arguments.Last("passes"), &session_options.optimize);
    if (!switched.ok()) return WithContext(switched, "--passes");
  }
  if (arguments.Has("devices")) {
    TANDEM_ASSIGN_OR_RETURN(const auto counts, ParseDeviceCounts(arguments.Last("devices")));
    TANDEM_ASSIGN_OR_RETURN(session_options.devices, DeviceSet::Create(counts));
  }
  RunOptions run_options;
  run_options.trace = arguments.Has("trace");
  std::vector<std::string> targets = arguments.All("target");
  TANDEM_ASSIGN_OR_RETURN(const std::string server, TakeServer(&targets));
  std::unique_ptr<Session> session;
  if (server.empty()) {
    TANDEM_ASSIGN_OR_RETURN(session, Session::Create(graph, session_options));
  } else {
    if (arguments.Has("devices") || arguments.Has("passes")) {
      return errors::InvalidArgument("--devices and --passes belong to the server at ", server);
    }
    RemoteSessionOptions remote;
    remote.soft_placement = session_options.soft_placement;
    remote.start_timeout = std::min(
        remote.start_timeout, limit.DoingWhatEndsItself(absl::StrCat("connecting to ", server)));
    TANDEM_ASSIGN_OR_RETURN(session, ConnectToServerThatAnswers(server, graph, remote));
  }
  RunMetadata metadata;
  run_options.timeout = limit.DoingWhatEndsItself("compiling and running the graph");
  const absl::StatusOr<std::vector<Tensor>> results =
      session->Run(run_options, feeds, fetches, targets, &metadata);
  // A run that failed at the limit has said so; the limit must not come before it.
  if (results.ok()) limit.Doing("writing the results");
  // Of a run that failed, too: it shows what the step had done by then.
  absl::Status traced;
  if (run_options.trace) traced = WriteTrace(metadata, arguments.Last("trace"));
  if (!results.ok()) return results.status();
  for (size_t i = 0; i < results->size(); ++i) {
    if (i < num_printed) {
      std::printf("%s: %s\n", fetches[i].c_str(), (*results)[i].DebugString(1000).c_str());
    } else {
      TANDEM_RETURN_IF_ERROR(WriteNpy(files[i - num_printed], (*results)[i]));
    }
  }
  return traced;
}

}  // namespace

const Command kRunCommand = {"run", "runs a part of a graph and prints what is fetched", kHelp,
                             Run};

}  // namespace tandem::cli
