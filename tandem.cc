#include "tandem.h"

#include <cstdio>
#include <string>

namespace tandem {

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  // Payloads are for programs (ExitCodeOf), not for who reads this.
  const std::string text = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  std::fprintf(stderr, "%s\n", text.c_str());
  return ExitCodeOf(status);
}

}  // namespace tandem
