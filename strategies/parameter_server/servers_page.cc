#include "strategies/parameter_server/servers_page.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::parameter_server {
namespace {

struct Metric {
  const char* name;  // Behind tandem_ps_.
  const char* type;
  const char* help;
  std::function<int64_t(const ServerStatistics& server, int64_t slot_bytes)> value;
};

const std::vector<Metric>& Metrics() {
  using S = const ServerStatistics&;
  static const auto* const metrics = new std::vector<Metric>{
      {"up", "gauge", "Whether the server is there.",
       [](S s, int64_t) -> int64_t { return s.is_there ? 1 : 0; }},
      {"updates", "gauge", "Updates that the shard has applied.",
       [](S s, int64_t) { return s.report.status.version; }},
      {"pulls_total", "counter", "Calls that read.",
       [](S s, int64_t) { return s.report.status.pulls; }},
      {"pushes_total", "counter", "Calls that update, and were new.",
       [](S s, int64_t) { return s.report.status.pushes; }},
      {"pulled_bytes_total", "counter", "Bytes of what was read.",
       [](S s, int64_t) { return s.report.status.pulled_bytes; }},
      {"pushed_bytes_total", "counter", "Bytes of what came with updates.",
       [](S s, int64_t) { return s.report.status.pushed_bytes; }},
      {"repeated_pushes_total", "counter", "Pushes that had been applied before.",
       [](S s, int64_t) { return s.report.status.repeated; }},
      {"late_pushes_total", "counter", "Pushes that came too late for their step.",
       [](S s, int64_t) { return s.report.status.dropped; }},
      {"staleness_median", "gauge", "Updates between the read and the update of a step.",
       [](S s, int64_t) { return s.report.status.median_staleness; }},
      {"staleness_max", "gauge", "The most updates between the read and the update of a step.",
       [](S s, int64_t) { return s.report.status.max_staleness; }},
      {"waiting_calls", "gauge", "Calls that wait.",
       [](S s, int64_t) { return s.report.status.waiting; }},
      {"variable_bytes", "gauge", "Bytes of variables, without slots of optimizers.",
       [](S s, int64_t slots) {
         const int64_t all = s.report.status.variable_bytes;
         return all > slots ? all - slots : 0;
       }},
      {"slot_bytes", "gauge", "Bytes of slots of optimizers.",
       [](S, int64_t slots) { return slots; }},
      {"replica_behind_updates", "gauge", "Updates that the replica does not have yet.",
       [](S s, int64_t) { return s.report.replica_behind; }},
      {"replica_lost", "gauge", "Whether the server goes on without its replica.",
       [](S s, int64_t) -> int64_t { return s.report.replica_is_lost ? 1 : 0; }},
      {"losses_total", "counter", "How often the server was lost.",
       [](S s, int64_t) { return s.losses; }},
      {"lost_updates_total", "counter", "Updates that were gone when the server was there again.",
       [](S s, int64_t) { return s.lost_updates; }},
  };
  return *metrics;
}

int64_t SlotBytes(const TrainingStatistics& statistics, size_t server) {
  return server < statistics.slot_bytes.size() ? statistics.slot_bytes[server] : 0;
}

}  // namespace

std::string StatisticsTable(const TrainingStatistics& statistics) {
  std::string text = absl::StrCat("job ", statistics.job, ": ", statistics.workers_there, " of ",
                                  statistics.workers, " workers are there\n");
  for (size_t i = 0; i < statistics.servers.size(); ++i) {
    const ServerStatistics& server = statistics.servers[i];
    absl::StrAppend(&text, "\n", server.task, " at ", server.address,
                    server.is_there ? "" : " (is not there)", "\n");
    for (const Metric& metric : Metrics()) {
      absl::StrAppendFormat(&text, "  %-24s %15d  %s\n", metric.name,
                            metric.value(server, SlotBytes(statistics, i)), metric.help);
    }
  }
  return text;
}

std::string StatisticsMetrics(const TrainingStatistics& statistics) {
  std::string text = absl::StrCat(
      "# HELP tandem_ps_workers Workers that are there.\n# TYPE tandem_ps_workers gauge\n"
      "tandem_ps_workers ",
      statistics.workers_there, "\n");
  for (const Metric& metric : Metrics()) {
    absl::StrAppend(&text, "# HELP tandem_ps_", metric.name, " ", metric.help,
                    "\n# TYPE tandem_ps_", metric.name, " ", metric.type, "\n");
    for (size_t i = 0; i < statistics.servers.size(); ++i) {
      const ServerStatistics& server = statistics.servers[i];
      absl::StrAppend(&text, "tandem_ps_", metric.name, "{task=\"", server.task, "\"} ",
                      metric.value(server, SlotBytes(statistics, i)), "\n");
    }
  }
  return text;
}

}  // namespace tandem::parameter_server
