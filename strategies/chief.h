// Which task of a job writes what one writes for all: its checkpoints and its log.
#ifndef TANDEM_STRATEGIES_CHIEF_H_
#define TANDEM_STRATEGIES_CHIEF_H_

#include "runtime/cluster/cluster_config.h"

namespace tandem {

// TensorFlow's rule: a chief (or master); where the cluster has none, worker 0; an evaluator for
// itself; and a process that belongs to no cluster. Threads: any.
bool IsChief(const ClusterConfig& config);

// The same of this process, as TF_CONFIG has it. True where it cannot be read.
bool IsChiefByEnvironment();

// Whether TF_CONFIG says that this process is the evaluator of its job: it trains nothing, and
// evaluates the checkpoints that the others write.
bool IsEvaluatorByEnvironment();

}  // namespace tandem

#endif  // TANDEM_STRATEGIES_CHIEF_H_
