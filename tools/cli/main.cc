// tandem: looks at graphs, ops and files, and runs graphs.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/version.h"
#include "core/op/registry.h"
#include "runtime/device/out_of_memory.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

const Command* const kCommands[] = {
    &kRunCommand,        &kShowCommand,       &kOpsCommand,    &kDevicesCommand, &kRecordsCommand,
    &kCheckpointCommand, &kSavedModelCommand, &kLocalCommand,  &kLaunchCommand,  &kMembersCommand,
    &kPingCommand,       &kResetCommand,      &kSubmitCommand, &kBenchCommand,   &kFlightCommand};

void PrintUsage(std::FILE* to) {
  std::fprintf(to,
               "tandem COMMAND …: looks at TensorFlow graphs, ops and files, and runs graphs.\n\n"
               "Commands:\n");
  for (const Command* command : kCommands) {
    std::fprintf(to, "  %-11s %s\n", command->name, command->summary);
  }
  std::fprintf(to,
               "\n`tandem COMMAND --help` explains one of them; `tandem --version` says which\n"
               "version this is.\n");
}

int Main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    PrintUsage(stderr);
    return 2;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    PrintUsage(stdout);
    return 0;
  }
  if (words[0] == "--version" || words[0] == "version") {
    std::printf("tandem %s\n", kVersion);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    names.push_back(command->name);
    if (words[0] != command->name) continue;
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    for (const std::string& word : rest) {
      if (word == "--") break;  // What follows is somebody else's.
      if (word == "--help" || word == "-h") {
        std::printf("%s", command->help);
        return 0;
      }
    }
    absl::Status status = CatchOutOfMemory([&] { return command->run(rest); });
    if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)) {
      status = errors::ResourceExhausted("the output could not be written: ", std::strerror(errno));
    }
    if (status.ok()) return 0;
    std::fprintf(stderr, "tandem %s: %s\n", command->name, std::string(status.message()).c_str());
    if (const absl::optional<int> code = ExitCodeOf(status)) return *code;
    // 2: the call itself was wrong; 1: it failed.
    return absl::IsInvalidArgument(status) ? 2 : 1;
  }
  std::fprintf(stderr, "tandem: there is no command '%s'%s\n", words[0].c_str(),
               DidYouMean(words[0], names).c_str());
  return 2;
}

}  // namespace
}  // namespace tandem::cli

int main(int argc, char** argv) { return tandem::cli::Main(argc, argv); }
