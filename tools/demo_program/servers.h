// --strategy=parameter_server: the demo with parameter servers and workers in processes of their
// own.
//
// The demo that a user starts trains nothing itself: it starts copies of itself, with the same
// flags, which find in their environment what they are: a server, a worker or the chief, which runs
// the program.
#ifndef TANDEM_TOOLS_DEMO_PROGRAM_SERVERS_H_
#define TANDEM_TOOLS_DEMO_PROGRAM_SERVERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::demo {

// Starts the processes, and a line for each says where it is ("started ps:0 pid 4711 port 40001");
// starts again who is killed; returns when all have ended, as RunInWorkers (workers.h).
absl::Status RunWithServers(int workers, int servers, const std::vector<std::string>& flags,
                            int* code);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_SERVERS_H_
