#include "tandem.h"

#include <cstdio>
#include <string>

namespace tandem {

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return ExitCodeOf(status);
}

}  // namespace tandem
