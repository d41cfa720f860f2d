// Random members, killed, stopped or ended at random times, for rounds of groups of two to five
// processes: every survivor ends with a status that names the lost one.
#include <random>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/collective/processes_test_util.h"

namespace tandem::collective {
namespace {

TEST(ProcessFaults, SurvivorsAlwaysHearWhoWasLost) {
  constexpr int kRounds = 40;
  std::mt19937 random(20);
  absl::Duration worst;
  for (int round = 0; round < kRounds; ++round) {
    const int size = 2 + static_cast<int>(random() % 4);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    const TransportKind transport =
        random() % 2 == 0 ? TransportKind::kSharedMemory : TransportKind::kTcp;
    const bool stops = random() % 4 == 0;
    const int64_t count = random() % 2 == 0 ? 100 : 1000000;
    const absl::Duration delay = absl::Milliseconds(random() % 50);
    SCOPED_TRACE(absl::StrCat("round ", round, ": ", size, " members, victim ", victim,
                              transport == TransportKind::kTcp ? ", tcp" : ", shm",
                              stops ? ", stopped" : ", killed", ", ", count, " values"));
    GroupOptions options = TestOptions(size, transport);
    options.lost_after = absl::Seconds(3);
    Processes processes(options, AllReduceLoop(count));
    ASSERT_TRUE(processes.WaitForSteps(2));
    absl::SleepFor(delay);
    processes.Signal(victim, stops ? SIGSTOP : SIGKILL);
    const absl::Time begin = absl::Now();
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(processes.WaitForEnd(rank));
      EXPECT_EQ(processes.code(rank), absl::StatusCode::kUnavailable);
      EXPECT_TRUE(absl::StrContains(processes.message(rank),
                                    absl::StrCat("worker:", victim, " on 127.0.0.1 is lost")))
          << processes.message(rank);
    }
    if (!stops) worst = std::max(worst, absl::Now() - begin);
  }
  RecordProperty("worst_detection_of_a_kill", absl::FormatDuration(worst));
}

}  // namespace
}  // namespace tandem::collective
