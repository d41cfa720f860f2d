// Ops that this program does not know, in graphs that are imported all the same
// (ImportOptions::keep_unknown_ops).
//
// A node of such an op becomes a _TandemMissingOp. It has the inputs and control edges of the one
// in the message, those outputs that somebody consumes, with the types that they are consumed as,
// and no attributes but `op`, the name of the op that is missing. So what does not depend on it, or
// what a feed cuts off from it, runs. It never runs itself: PruneToSignature refuses a run that
// needs it.
//
// Nobody can tell the type of an output that one consumer takes as a reference, or that two take
// differently. Such consumers become _TandemMissingOps, too, with the attribute `is_known`.
#ifndef TANDEM_CORE_GRAPH_MISSING_OP_H_
#define TANDEM_CORE_GRAPH_MISSING_OP_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace tandem {

inline constexpr char kMissingOp[] = "_TandemMissingOp";

// Gathers ops that are not there, for one message about all of them.
class UnknownOps {
 public:
  void Add(absl::string_view op, absl::string_view node);
  bool empty() const { return ops_.empty(); }
  // NotFound, with near names of those in `registry`. REQUIRES: !empty().
  absl::Status ToStatus(const OpRegistry& registry) const;

 private:
  struct Use {
    std::string first_node;
    int64_t nodes = 0;
  };
  std::map<std::string, Use, std::less<>> ops_;
};

// NotFound: `graph` has nodes of missing ops, all of which the message names, those in functions
// that other nodes call included. OK when there are none, whatever is missing in functions: they
// may never be called.
absl::Status CheckNoMissingOps(const Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_MISSING_OP_H_
