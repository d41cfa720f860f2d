// The commands of `formats`, which reads and writes files for the tests of the formats: on the
// other side TensorFlow reads what it wrote, and writes what it reads.
#ifndef TANDEM_TESTS_CLIENTS_FORMATS_COMMAND_H_
#define TANDEM_TESTS_CLIENTS_FORMATS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tandem::formats {

struct Command {
  const char* name;
  const char* usage;  // The words behind the name.
  size_t least_words;
  absl::Status (*run)(const std::vector<std::string>& words);
};

extern const absl::Span<const Command> kBundleCommands;
extern const absl::Span<const Command> kArrayCommands;
extern const absl::Span<const Command> kRecordCommands;
extern const absl::Span<const Command> kExampleCommands;
extern const absl::Span<const Command> kEventCommands;

}  // namespace tandem::formats

#endif  // TANDEM_TESTS_CLIENTS_FORMATS_COMMAND_H_
