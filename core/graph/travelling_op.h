// Which ops of our own go to servers of ours in a client's graph, although others do not leave
// their process: steps with parameter servers (strategies/parameter_server) are made here and run
// there.
#ifndef TANDEM_CORE_GRAPH_TRAVELLING_OP_H_
#define TANDEM_CORE_GRAPH_TRAVELLING_OP_H_

#include "absl/strings/string_view.h"

namespace tandem {

// They check all of their inputs themselves, whoever made the graph.
inline bool IsTravellingOp(absl::string_view op) {
  return op == "_TandemPull" || op == "_TandemPush" || op == "_TandemSumDuplicates";
}

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_TRAVELLING_OP_H_
