// Ports for processes that are about to be started.
#ifndef TANDEM_TOOLS_CLI_FREE_PORTS_H_
#define TANDEM_TOOLS_CLI_FREE_PORTS_H_

#include <vector>

#include "absl/status/statusor.h"

namespace tandem::cli {

// Ports of the loopback address that nobody listens on, all different. Somebody may take one before
// it is used. ResourceExhausted: there are not so many.
absl::StatusOr<std::vector<int>> FreePorts(int count);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_FREE_PORTS_H_
