// The subcommands of the program `tandem`, one a file.
#ifndef TANDEM_TOOLS_CLI_COMMAND_H_
#define TANDEM_TOOLS_CLI_COMMAND_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tandem::cli {

// The words after the subcommand: flags ("--name=value", "--name value" for those that take one,
// "--name" for switches) and the rest, in order. A flag may come more than once.
class Arguments {
 public:
  // `with_value` and `switches` name the flags that exist. InvalidArgument: another one (near names
  // are suggested), or a value that is missing.
  static absl::StatusOr<Arguments> Parse(const std::vector<std::string>& words,
                                         const std::vector<std::string>& with_value,
                                         const std::vector<std::string>& switches);

  const std::vector<std::string>& positional() const { return positional_; }
  std::vector<std::string> All(absl::string_view flag) const;
  // The last value, or `otherwise`.
  std::string Last(absl::string_view flag, absl::string_view otherwise = "") const;
  bool Has(absl::string_view flag) const;

 private:
  std::vector<std::string> positional_;
  std::vector<std::pair<std::string, std::string>> flags_;
};

struct Command {
  const char* name;
  const char* summary;  // One line.
  const char* help;     // The whole text of `tandem NAME --help`.
  absl::Status (*run)(const std::vector<std::string>& words);
};

// What a process ends with that was told to end and has saved its work: whoever started it may
// start it again.
inline constexpr int kPreemptedCode = 143;

// The program ends with this code instead of 1. REQUIRES: not OK.
void SetExitCode(absl::Status* status, int code);
absl::optional<int> ExitCodeOf(const absl::Status& status);

extern const Command kRunCommand;
extern const Command kOpsCommand;
extern const Command kDevicesCommand;
extern const Command kShowCommand;
extern const Command kRecordsCommand;
extern const Command kCheckpointCommand;
extern const Command kSavedModelCommand;
extern const Command kLocalCommand;
extern const Command kLaunchCommand;
extern const Command kMembersCommand;
extern const Command kPingCommand;
extern const Command kResetCommand;
extern const Command kSubmitCommand;
extern const Command kBenchCommand;
extern const Command kFlightCommand;

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_COMMAND_H_
