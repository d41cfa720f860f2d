// Which checkpoints are kept.
#ifndef TANDEM_RUNTIME_CHECKPOINT_RETENTION_H_
#define TANDEM_RUNTIME_CHECKPOINT_RETENTION_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace tandem {

struct Retention {
  // The newest so many; 0: all.
  int max_to_keep = 5;
  // Of those that are no longer among the newest, one of every such span is kept for good. It then
  // leaves the list, as with TensorFlow's managers, and nobody removes it.
  absl::Duration preserve_every = absl::InfiniteDuration();
  // Besides, the so many best by metric.
  int keep_best = 0;
  bool smaller_is_better = true;
};

struct KeptCheckpoint {
  std::string prefix;
  absl::Time time;  // When it was written.
  absl::optional<double> metric;
};

struct RetentionResult {
  std::vector<KeptCheckpoint> kept;  // In the order in which they came.
  std::vector<std::string> dropped;  // To be removed.
  absl::Time last_preserved;         // When the last one was written that is kept for good.
};

// Applies the rules to checkpoints, the oldest first.
RetentionResult ApplyRetention(const Retention& retention, std::vector<KeptCheckpoint> checkpoints,
                               absl::Time last_preserved);

// The position of the best by metric, the newest of equals; -1: none has a metric (NaN is none).
int BestCheckpoint(const Retention& retention, const std::vector<KeptCheckpoint>& checkpoints);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_RETENTION_H_
