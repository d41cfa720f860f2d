// InsertCopies: puts a _TandemCopy node wherever a value crosses between the memories of two
// devices.
//
// All host devices (CPU) share one memory; every other device has its own. A value that goes from
// one such device to another goes through the host. The executor carries the copies out on the
// queue of the device (runtime/device/device.h).
#ifndef TANDEM_CORE_PASSES_INSERT_COPIES_H_
#define TANDEM_CORE_PASSES_INSERT_COPIES_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

// REQUIRES: all nodes are placed. InvalidArgument: a reference would have to cross.
absl::Status InsertCopies(Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_INSERT_COPIES_H_
