#include "tandem.h"

#include <cstdio>
#include <string>

namespace tandem {

int Exit(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  if (absl::IsCancelled(status)) return 130;
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace tandem
