#include "tandem.h"

#include <cstdio>
#include <string>

namespace tandem {

int Exit(const absl::Status& status) {
  const int code = ExitCodeOf(status);
  // Also of a process that has served until its job had ended.
  if (code == 0) return 0;
  // Payloads are for programs (ExitCodeOf), not for who reads this.
  const std::string text = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  std::fprintf(stderr, "%s\n", text.c_str());
  return code;
}

}  // namespace tandem
