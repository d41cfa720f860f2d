#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/io/file.h"
#include "tools/cli/command.h"
#include "tools/cli/flight_report.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem flight FILE…\n\n"
    "Lines up the flight records of several members of a group and says where they parted: who "
    "was\n"
    "missing, or called something else. A member writes its record, its last 1,000 collective\n"
    "operations, when the group ends in an error, when an operation times out, and on SIGUSR2, to\n"
    "TANDEM_FLIGHT_DIR (else TMPDIR, else /tmp): tandem_flight.GROUP.GENERATION.RANK.PID.jsonl\n\n"
    "Example:\n"
    "  tandem flight /tmp/tandem_flight.workers.2.*\n";

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, {}, {}));
  if (arguments.positional().empty()) {
    return errors::InvalidArgument("takes the files to compare: tandem flight FILE…");
  }
  std::vector<FlightFile> files;
  for (const std::string& name : arguments.positional()) {
    constexpr int64_t kMaxBytes = 64 << 20;  // A record has 1,000 short lines.
    TANDEM_ASSIGN_OR_RETURN(std::string text, ReadFile(PosixFileSystem(), name, kMaxBytes));
    files.push_back({name, std::move(text)});
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string report, FlightReport(files));
  std::printf("%s", report.c_str());
  return absl::OkStatus();
}

}  // namespace

const Command kFlightCommand = {"flight", "says where members of a group parted", kHelp, Run};

}  // namespace tandem::cli
