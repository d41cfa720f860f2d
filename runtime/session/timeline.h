// Timelines of traced steps in the Chrome trace format, for chrome://tracing and Perfetto.
#ifndef TANDEM_RUNTIME_SESSION_TIMELINE_H_
#define TANDEM_RUNTIME_SESSION_TIMELINE_H_

#include <string>
#include <vector>

#include "runtime/executor/trace.h"

namespace tandem {

// A JSON document: one process a device, one row a thread, one bar a node, in microseconds from the
// first node's start.
std::string ChromeTrace(const std::vector<StepTracer::Event>& events);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_TIMELINE_H_
