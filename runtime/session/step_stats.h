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

// The other way, for another task's share in a step's trace: times are put on this process's
// monotonic clock, as good as the machines' clocks agree, and the op is taken from the label.
void AppendEvents(const tensorflow::StepStats& stats, std::vector<StepTracer::Event>* events);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_STEP_STATS_H_
