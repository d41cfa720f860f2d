// Traces of steps as TensorFlow's StepStats, the part of RunMetadata that its tools draw.
#ifndef TANDEM_RUNTIME_SESSION_STEP_STATS_H_
#define TANDEM_RUNTIME_SESSION_STEP_STATS_H_

#include <vector>

#include "proto/step_stats.pb.h"
#include "runtime/executor/trace.h"

namespace tandem {

// One entry a device, in order of their names, with the names of its threads; nodes with the types
// and shapes of their outputs; times since 1970.
void FillStepStats(const std::vector<StepTracer::Event>& events, tensorflow::StepStats* stats);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_STEP_STATS_H_
