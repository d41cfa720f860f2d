// How the parameter servers of a training are, as text: a table for people, and metrics for
// Prometheus.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_PAGE_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/parameter_server/servers.h"

namespace tandem::parameter_server {

struct TrainingStatistics {
  std::string job;
  int workers = 0;
  int workers_there = 0;
  std::vector<ServerStatistics> servers;
  std::vector<int64_t> slot_bytes;  // Of each server, among its report's variable_bytes.
};

std::string StatisticsTable(const TrainingStatistics& statistics);
// With names that begin with tandem_ps_.
std::string StatisticsMetrics(const TrainingStatistics& statistics);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_SERVERS_PAGE_H_
