// --strategy=multi_worker_mirrored: the demo in several processes.
//
// The demo that a user starts trains nothing itself: it starts copies of itself, with the same
// flags, which find in their environment that they are workers of a job.
#ifndef TANDEM_TOOLS_DEMO_PROGRAM_WORKERS_H_
#define TANDEM_TOOLS_DEMO_PROGRAM_WORKERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "strategies/trainer/trainer.h"

namespace tandem::demo {

// Starts the workers, "2" or "2:4" of them, with these flags, starts again who is killed, and
// returns when all have ended: with what this process is to end with. InvalidArgument: `workers` is
// no number of them. Aborted: they have failed; the message says who did first, and why. Cancelled:
// a signal ended them, and `code` is what such a process ends with.
absl::Status RunInWorkers(const std::string& workers, const std::vector<std::string>& flags,
                          int* code);

// "/…/demo_main".
absl::StatusOr<std::string> PathOfThisProgram();

// What this process is to end with, whose children ended with `codes` (as waitpid gives them),
// after `signal` or without one (0), or failed (`failure`). See RunInWorkers.
absl::Status EndOfJob(const absl::Status& failure, int signal, const std::vector<int>& codes,
                      int* code);

// What a worker ends with after `status`. Code 1 and 2 say that it would fail again.
int WorkerExitCode(const absl::Status& status);

// How often this worker was started again; 0 also where nobody says so.
int RestartCount();

// Does what `callback` does, in the chief alone. From the first step on it also keeps the log
// quiet.
CallbackPtr InChiefOnly(CallbackPtr callback);

// Keeps the log of the chief down to warnings and that of the other workers down to errors, unless
// TANDEM_LOG_LEVEL says what is to be logged.
void KeepLogQuiet(bool is_chief);

}  // namespace tandem::demo

#endif  // TANDEM_TOOLS_DEMO_PROGRAM_WORKERS_H_
