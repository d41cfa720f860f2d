#include "runtime/checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem {
namespace {

bool HasMetric(const KeptCheckpoint& checkpoint) {
  return checkpoint.metric.has_value() && !std::isnan(*checkpoint.metric);
}

// The positions of those with a metric, the best first, newer ones before older ones of the same.
std::vector<size_t> Ranking(const Retention& retention,
                            const std::vector<KeptCheckpoint>& checkpoints) {
  std::vector<size_t> order;
  for (size_t i = checkpoints.size(); i-- > 0;) {
    if (HasMetric(checkpoints[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const double x = *checkpoints[a].metric;
    const double y = *checkpoints[b].metric;
    return retention.smaller_is_better ? x < y : x > y;
  });
  return order;
}

}  // namespace

RetentionResult ApplyRetention(const Retention& retention, std::vector<KeptCheckpoint> checkpoints,
                               absl::Time last_preserved) {
  const size_t count = checkpoints.size();
  const size_t newest =
      retention.max_to_keep == 0 ? count : static_cast<size_t>(retention.max_to_keep);
  std::vector<bool> keep(count, false);
  for (size_t i = count - std::min(count, newest); i < count; ++i) keep[i] = true;
  std::vector<size_t> ranking = Ranking(retention, checkpoints);
  ranking.resize(std::min(ranking.size(), static_cast<size_t>(retention.keep_best)));
  for (const size_t i : ranking) keep[i] = true;

  RetentionResult result;
  result.last_preserved = last_preserved;
  for (size_t i = 0; i < count; ++i) {
    if (keep[i]) {
      result.kept.push_back(std::move(checkpoints[i]));
    } else if (checkpoints[i].time - result.last_preserved >= retention.preserve_every) {
      result.last_preserved = checkpoints[i].time;
    } else {
      result.dropped.push_back(std::move(checkpoints[i].prefix));
    }
  }
  return result;
}

int BestCheckpoint(const Retention& retention, const std::vector<KeptCheckpoint>& checkpoints) {
  const std::vector<size_t> ranking = Ranking(retention, checkpoints);
  return ranking.empty() ? -1 : static_cast<int>(ranking.front());
}

}  // namespace tandem
