// Waiting for what servers say of their shards.
#ifndef TANDEM_TESTS_PARAMETER_SERVER_SERVER_REPORTS_H_
#define TANDEM_TESTS_PARAMETER_SERVER_SERVER_REPORTS_H_

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "strategies/parameter_server/parameter_runner.h"

namespace tandem::testing {

// Its replica has all of it. Of a shard that has been pushed to since its replica's server began.
inline bool IsReplicated(const parameter_server::ShardReport& report) {
  return report.replica_behind == 0 && !report.replica_is_lost;
}

// A snapshot has all of it.
inline bool IsInSnapshot(const parameter_server::ShardReport& report) {
  return report.snapshot_version == report.status.version;
}

// Until all shards of the runner, one of parameter servers, are so. REQUIRES: no step runs.
inline void WaitForShards(StrategyRunner& runner,
                          bool (*are_so)(const parameter_server::ShardReport& report)) {
  auto& servers = dynamic_cast<parameter_server::ParameterRunner&>(runner);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (;;) {
    const auto reports = servers.AskServers();
    ASSERT_TRUE(reports.ok()) << reports.status();
    if (std::all_of(reports->begin(), reports->end(), are_so)) return;
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_PARAMETER_SERVER_SERVER_REPORTS_H_
