// The coordinator of a job, for tests that kill it: schedules steps that count (counting.h) and
// prints what becomes of them.
//
//   counting_job --steps=100 --servers=2
//   began counter_0=17 counter_1=17     what the servers had, whose coordinator was killed; else 0
//   ended 1 … ended 100                 steps, in the order in which they end
//   counted counter_0=117 counter_1=117
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "strategies/strategy.h"
#include "tests/parameter_server/counting.h"

ABSL_FLAG(int, steps, 100, "how many steps are run");
ABSL_FLAG(int, servers, 2, "how many servers the job has");
ABSL_FLAG(absl::Duration, pause, absl::ZeroDuration(), "between two steps");
ABSL_FLAG(bool, synchronous, false, "cut steps into parts");

namespace tandem::testing {
namespace {

absl::Status PrintCounters(const char* what, const CountingStep& step, StrategyRunner& runner) {
  std::string line = what;
  for (const std::string& name : step.counters) {
    TANDEM_ASSIGN_OR_RETURN(const Tensor value, runner.ReadVariable(name));
    absl::StrAppend(&line, " ", name, "=", CountIn(value));
  }
  std::puts(line.c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status Run() {
  Strategy::ParameterServerOptions options;
  options.heartbeat = absl::Milliseconds(100);
  if (absl::GetFlag(FLAGS_synchronous)) {
    options.mode = Strategy::ParameterServerMode::kSynchronous;
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Strategy> strategy,
                          Strategy::ParameterServer(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<StrategyBuilder> builder, strategy->NewBuilder());
  TANDEM_ASSIGN_OR_RETURN(const CountingStep step,
                          BuildCountingStep(*builder, absl::GetFlag(FLAGS_servers)));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<StrategyRunner> runner,
                          strategy->NewRunner(*builder));
  TANDEM_RETURN_IF_ERROR(runner->Initialize());
  TANDEM_ASSIGN_OR_RETURN(const int program, runner->AddProgram(step.signature));
  TANDEM_RETURN_IF_ERROR(PrintCounters("began", step, *runner));
  Mutex mu;
  CondVar changed;
  int running = 0;
  int ended = 0;
  absl::Status status;
  const auto wait_until_at_most = [&](int most) {
    MutexLock lock(mu);
    while (running > most) changed.Wait(mu);
    return status;
  };
  for (int i = 0; i < absl::GetFlag(FLAGS_steps); ++i) {
    TANDEM_RETURN_IF_ERROR(wait_until_at_most(runner->max_steps_in_flight() - 1));
    {
      MutexLock lock(mu);
      ++running;
    }
    runner->Start(program, CountingInput(), [&](StrategyRunner::Result result) {
      MutexLock lock(mu);
      --running;
      if (result.ok()) {
        std::printf("ended %d\n", ++ended);
        std::fflush(stdout);
      } else if (status.ok()) {
        status = result.status();
      }
      changed.NotifyAll();
    });
    if (absl::GetFlag(FLAGS_pause) > absl::ZeroDuration()) {
      absl::SleepFor(absl::GetFlag(FLAGS_pause));
    }
  }
  TANDEM_RETURN_IF_ERROR(wait_until_at_most(0));
  for (const MemberEvent& event : runner->TakeMemberEvents()) {
    std::printf("%s %s: %s\n", event.member.c_str(),
                event.kind == MemberEvent::Kind::kLeft ? "left" : "joined", event.reason.c_str());
  }
  return PrintCounters("counted", step, *runner);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = tandem::testing::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "counting_job: %s\n", status.ToString().c_str());
  return 1;
}
