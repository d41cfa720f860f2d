#include <cstdio>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tests/clients/formats/command.h"

namespace tandem::formats {
namespace {

int Main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const auto& commands :
       {kBundleCommands, kArrayCommands, kRecordCommands, kExampleCommands, kEventCommands}) {
    for (const Command& command : commands) {
      if (words.empty() || words[0] != command.name) continue;
      const std::vector<std::string> rest(words.begin() + 1, words.end());
      const absl::Status status = rest.size() < command.least_words
                                      ? errors::InvalidArgument("expected ", command.usage)
                                      : command.run(rest);
      if (status.ok()) return 0;
      std::fprintf(stderr, "formats %s: %s\n", command.name, status.ToString().c_str());
      return 1;
    }
  }
  std::fprintf(stderr, "formats COMMAND …; command.h and the tests beside it say which\n");
  return 2;
}

}  // namespace
}  // namespace tandem::formats

int main(int argc, char** argv) { return tandem::formats::Main(argc, argv); }
