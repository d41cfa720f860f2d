#include "tools/demo_program/workers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "runtime/cluster/job_environment.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/launch.h"

namespace tandem::demo {
namespace {

// That it may go better next time (EX_TEMPFAIL of sysexits.h).
constexpr int kTryAgain = 75;

bool EndedWith(const std::vector<int>& statuses, const std::vector<int>& codes) {
  return absl::c_all_of(statuses, [&](int status) {
    return WIFEXITED(status) && absl::c_linear_search(codes, WEXITSTATUS(status));
  });
}

class ChiefCallback final : public Callback {
 public:
  explicit ChiefCallback(CallbackPtr callback) : callback_(std::move(callback)) {}

  absl::Status OnBegin(Trainer& trainer) override {
    if (!trainer.is_chief()) KeepLogQuiet(/*is_chief=*/false);
    return callback_->OnBegin(trainer);
  }
  // Who is chief may change between two steps.
  absl::StatusOr<Next> OnStep(Trainer& trainer, const TrainingProgress& progress) override {
    KeepLogQuiet(trainer.is_chief());
    return trainer.is_chief() ? callback_->OnStep(trainer, progress) : Next::kGoOn;
  }
  absl::StatusOr<Next> OnEpoch(Trainer& trainer, int epoch, const EpochResult& result) override {
    return trainer.is_chief() ? callback_->OnEpoch(trainer, epoch, result) : Next::kGoOn;
  }
  absl::Status OnEnd(Trainer& trainer, const absl::Status& status) override {
    return callback_->OnEnd(trainer, status);
  }

 private:
  const CallbackPtr callback_;
};

}  // namespace

absl::Status RunInWorkers(const std::string& workers, const std::vector<std::string>& flags,
                          int* code) {
  *code = 1;
  cli::LaunchOptions launch;
  const absl::StatusOr<std::pair<int, int>> range = ParseWorkerRange(workers);
  if (!range.ok()) return WithContext(range.status(), "--workers");
  std::tie(launch.min_workers, launch.max_workers) = *range;
  launch.per_host = launch.max_workers;
  TANDEM_ASSIGN_OR_RETURN(const std::string program, PathOfThisProgram());
  launch.command = {program};
  launch.command.insert(launch.command.end(), flags.begin(), flags.end());
  launch.most_restarts = 10;
  launch.final_codes = {1, 2};
  launch.passes_interrupts = true;
  launch.inherits_output = true;
  TANDEM_ASSIGN_OR_RETURN(const cli::LaunchEnd end, cli::Launch(launch));
  return EndOfJob(end.status, end.signal, end.codes, code);
}

absl::StatusOr<std::string> PathOfThisProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) {
    return errors::Unavailable("this program cannot be found: /proc/self/exe: ",
                               std::strerror(errno));
  }
  return std::string(path, static_cast<size_t>(length));
}

absl::Status EndOfJob(const absl::Status& failure, int signal, const std::vector<int>& codes,
                      int* code) {
  if (!failure.ok()) {
    // Of a call that was wrong.
    const bool is_usage = absl::c_any_of(
        codes, [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 2; });
    *code = is_usage ? 2 : 1;
    return failure;
  }
  *code = 0;
  // A signal may come when they are done.
  if (signal == 0 || EndedWith(codes, {0})) return absl::OkStatus();
  const int ended_by = 128 + signal;
  std::string others;  // Who ended without having saved.
  for (size_t i = 0; i < codes.size(); ++i) {
    if (EndedWith({codes[i]}, {0, ended_by, 128 + SIGTERM})) continue;
    absl::StrAppend(&others, "; ",
                    codes.size() == 1 ? std::string("the chief") : absl::StrCat("worker:", i), " ",
                    cli::HowItEnded(codes[i]));
  }
  // 143 says that all is saved, and that it may be started elsewhere.
  *code = signal == SIGTERM && !others.empty() ? 1 : ended_by;
  return errors::Cancelled("SIG", sigabbrev_np(signal), " ended the workers",
                           others.empty() ? "" : "; not all of them have ended by themselves",
                           others);
}

int WorkerExitCode(const absl::Status& status) {
  const bool may_go_better =
      absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsDeadlineExceeded(status);
  return may_go_better ? kTryAgain : ExitCodeOf(status);
}

int RestartCount() {
  const char* const text = std::getenv("TANDEM_RESTART_COUNT");
  int count = 0;
  return text != nullptr && absl::SimpleAtoi(text, &count) ? count : 0;
}

CallbackPtr InChiefOnly(CallbackPtr callback) {
  return std::make_shared<ChiefCallback>(std::move(callback));
}

void KeepLogQuiet(bool is_chief) {
  static const bool is_set = [] {
    const char* const level = std::getenv("TANDEM_LOG_LEVEL");
    return level != nullptr && *level != '\0';
  }();
  if (!is_set) SetLogLevel(is_chief ? LogSeverity::kWarning : LogSeverity::kError);
}

}  // namespace tandem::demo
