#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "runtime/cluster/membership/status_text.h"
#include "runtime/rpc/security.h"
#include "tools/cli/command.h"
#include "tools/cli/job_status.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem members HOST:PORT [OPTION…]\n\n"
    "Asks a member of a running job (the port that `tandem launch` prints for a worker, or its "
    "address\n"
    "in TF_CONFIG) who is in the group, at which step each is, and who waits for whom. Any member "
    "will\n"
    "do: one that is not the chief is asked where that is.\n\n"
    "  --metrics          print it in the text format of Prometheus\n"
    "  --timeout=SECONDS  how long to wait for an answer (default: 10)\n\n"
    "Example:\n"
    "  tandem members 127.0.0.1:40001\n";

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments,
                          Arguments::Parse(words, {"timeout"}, {"metrics"}));
  if (arguments.positional().size() != 1) {
    return errors::InvalidArgument("names one member, as in tandem members 127.0.0.1:40001");
  }
  double seconds = 10;
  if (arguments.Has("timeout") &&
      (!absl::SimpleAtod(arguments.Last("timeout"), &seconds) || !(seconds > 0))) {
    return errors::InvalidArgument("--timeout=", arguments.Last("timeout"),
                                   ": it must be a number of seconds");
  }
  TANDEM_ASSIGN_OR_RETURN(const Security security, LoadSecurity());
  const absl::Duration timeout = absl::Seconds(seconds);
  TANDEM_ASSIGN_OR_RETURN(const membership::JobStatus status,
                          AskJob({arguments.positional()[0]}, security, timeout));
  const std::string text = arguments.Has("metrics") ? membership::StatusMetrics(status)
                                                    : membership::StatusTable(status);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

const Command kMembersCommand = {"members", "shows the members of a running job", kHelp, Run};

}  // namespace tandem::cli
