// Timelines of traced steps in the Chrome trace format, for chrome://tracing and Perfetto.
#ifndef TANDEM_RUNTIME_SESSION_TIMELINE_H_
#define TANDEM_RUNTIME_SESSION_TIMELINE_H_

#include <string>
#include <vector>

#include "runtime/executor/trace.h"

namespace tandem {

// A JSON document: one process a device, one row a thread, one bar a node, in microseconds from the
// first node's start. A bar has the node's name, op, and the types and shapes of its inputs and
// outputs. A node that waits (a receive, a collective) takes no thread's time but has a bar, too;
// bars that overlap on a thread lie in rows of their own.
std::string ChromeTrace(const std::vector<StepTracer::Event>& events);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SESSION_TIMELINE_H_
