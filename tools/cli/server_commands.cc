// The commands that speak to a server: ping, reset.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/device_name.h"
#include "runtime/rpc/remote_server.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kPingHelp[] =
    "tandem ping TARGET… [--timeout=SECONDS]\n\n"
    "Asks servers whether they are there, and prints who answered and how long it took. Ends with "
    "1\n"
    "when one did not answer in time (default: 5 s). Works with TensorFlow's servers, too.\n\n"
    "Example:\n"
    "  tandem ping grpc://localhost:2222\n";

constexpr char kResetHelp[] =
    "tandem reset TARGET [--container NAME]… [--filter DEVICE]… [--timeout=SECONDS]\n\n"
    "Closes all sessions of a server and forgets the variables of all tasks of its cluster.\n\n"
    "  --container NAME   forget what is in this container (default: the default one)\n"
    "  --filter DEVICE    only tasks that fit, as in /job:ps/task:0\n"
    "  --timeout=SECONDS  (default: 30)\n\n"
    "Example:\n"
    "  tandem reset grpc://localhost:2222 --filter /job:ps\n";

absl::StatusOr<absl::Duration> Timeout(const Arguments& arguments, double otherwise) {
  double seconds = otherwise;
  if (arguments.Has("timeout") &&
      (!absl::SimpleAtod(arguments.Last("timeout"), &seconds) || !(seconds > 0))) {
    return errors::InvalidArgument("--timeout=", arguments.Last("timeout"),
                                   ": it must be a number of seconds above 0");
  }
  return absl::Seconds(seconds);
}

absl::Status Ping(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, {"timeout"}, {}));
  TANDEM_ASSIGN_OR_RETURN(const absl::Duration timeout, Timeout(arguments, 5));
  if (arguments.positional().empty()) {
    return errors::InvalidArgument("names a server, as in tandem ping grpc://localhost:2222");
  }
  absl::Status result;
  for (const std::string& target : arguments.positional()) {
    TANDEM_ASSIGN_OR_RETURN(const RemoteServer server, RemoteServer::Create(target));
    // The first call makes the connection; the second one tells how quick it is.
    absl::StatusOr<std::vector<RemoteDevice>> devices = server.OwnDevices(timeout);
    const absl::Time asked = absl::Now();
    if (devices.ok()) devices = server.OwnDevices(timeout);
    if (!devices.ok()) {
      std::printf("%s: no answer\n", target.c_str());
      if (result.ok()) result = devices.status();
      continue;
    }
    const std::string took =
        absl::FormatDuration(absl::Trunc(absl::Now() - asked, absl::Microseconds(1)));
    std::string task = "a server without devices";
    if (!devices->empty()) {
      const absl::StatusOr<DeviceName> name = DeviceName::Parse((*devices)[0].name);
      task = name.ok() ? name->TaskName() : (*devices)[0].name;
    }
    std::printf("%s: %s, %zu device%s, answered in %s\n", target.c_str(), task.c_str(),
                devices->size(), devices->size() == 1 ? "" : "s", took.c_str());
  }
  return result;
}

absl::Status Reset(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments,
                          Arguments::Parse(words, {"container", "filter", "timeout"}, {}));
  TANDEM_ASSIGN_OR_RETURN(const absl::Duration timeout, Timeout(arguments, 30));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one server, as in tandem reset grpc://localhost:2222");
  }
  TANDEM_ASSIGN_OR_RETURN(const RemoteServer server,
                          RemoteServer::Create(arguments.positional()[0]));
  return server.Reset(arguments.All("container"), arguments.All("filter"), timeout);
}

}  // namespace

const Command kPingCommand = {"ping", "asks servers whether they are there", kPingHelp, Ping};
const Command kResetCommand = {"reset", "lets a server forget its sessions and variables",
                               kResetHelp, Reset};

}  // namespace tandem::cli
