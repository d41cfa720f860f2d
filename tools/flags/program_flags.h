// The command lines of programs that are all flags (ABSL_FLAG): tandem_server and the demo.
//
// As absl::ParseCommandLine, but an error names the program and gives the code 2, near names are
// suggested, --help goes to stdout and is no error, and nothing ends the process behind the
// program's back.
#ifndef TANDEM_TOOLS_FLAGS_PROGRAM_FLAGS_H_
#define TANDEM_TOOLS_FLAGS_PROGRAM_FLAGS_H_

#include <vector>

#include "absl/types/optional.h"

namespace tandem {

struct Program {
  const char* name;         // "tandem_server", as messages have it.
  const char* usage;        // What --help prints above the flags; ends without a line end.
  const char* source_file;  // The end of the name of the file whose flags these are.
  // Flags that may be left out, but not given as nothing: "--dir=$UNSET" would mean "no folder".
  std::vector<const char*> not_empty = {};
};

// Sets the flags that `argv` names: "--name=value", "--name value", and of a bool "--name" and
// "--noname". Returns the code with which the program has to end now, or nothing: it goes on.
// Nothing but flags is taken.
absl::optional<int> ParseProgramFlags(const Program& program, int argc, char** argv);

}  // namespace tandem

#endif  // TANDEM_TOOLS_FLAGS_PROGRAM_FLAGS_H_
