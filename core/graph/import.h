// GraphDef -> Graph, with nothing in the message trusted.
//
// What is refused, with the node's name in the error:
//   * InvalidArgument: versions that do not fit; a name that is malformed or there twice; an input
//     that is malformed, or of a node or output that does not exist (near names are suggested);
//     control inputs before data inputs; attributes that are missing, of the wrong kind or value,
//     or unknown to the op; types and shapes that do not fit; a cycle that is not closed by an edge
//     from NextIteration to Merge; what TensorFromProto refuses; a malformed device.
//   * NotFound: ops that are neither registered nor functions of the library; all of them, with
//     near names. See ImportOptions::keep_unknown_ops.
//   * ResourceExhausted: tensors beyond ImportOptions::max_tensor_bytes.
//
// Nodes may come in any order; those that come after their inputs keep it. Attributes whose names
// begin with an underscore are kept as they are, whether or not somebody knows them. A node whose
// op is a function of the library becomes a PartitionedCall (or StatefulPartitionedCall) of it.
//
// Time and memory are linear in the size of the message. Threads: as for Graph.
#ifndef TANDEM_CORE_GRAPH_IMPORT_H_
#define TANDEM_CORE_GRAPH_IMPORT_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"

namespace tensorflow {
class GraphDef;
class OpList;
class VersionDef;
}  // namespace tensorflow

namespace tandem {

// The version of TensorFlow's graphs that Tandem reads and writes (that of 2.21), and the oldest
// producer and consumer it goes along with.
inline constexpr int kGraphVersion = 2474;
inline constexpr int kMinGraphProducer = 0;
inline constexpr int kMinGraphConsumer = 0;

struct ImportOptions {
  // Put before the names of all nodes, with a slash.
  std::string prefix;
  // Inputs of the message that are taken from the graph instead: "node", "node:1" or, for control
  // inputs, "^node" (of the output only the node counts then).
  std::map<std::string, Output> input_map;
  // Inputs that the message has no node for are looked up in the graph. For Session::Extend.
  bool inputs_from_graph = false;
  // The device of nodes that name none.
  std::string default_device;
  // The ops as the writer of the graph knew them (MetaGraphDef's stripped op list). An attribute
  // that the op here does not know is then dropped if it has the default that the writer knew.
  const tensorflow::OpList* producer_ops = nullptr;
  // Ops that only the runtime makes (_Arg, _Retval, _Tandem…) are taken: for graphs of our own
  // process. They are refused otherwise, since they are not written for what strangers put into
  // them.
  bool internal_ops = false;
  // A node whose op is not known, or whose inputs such a node cannot give, is no error: it becomes
  // one that stands in its place (core/graph/missing_op.h), and a run that needs it fails.
  bool keep_unknown_ops = false;
  // For all tensors of the message together.
  size_t max_tensor_bytes = size_t{8} << 30;
};

absl::StatusOr<Graph> ImportGraphDef(const tensorflow::GraphDef& def,
                                     const ImportOptions& options = {},
                                     const OpRegistry& registry = OpRegistry::Global());

// Adds the nodes of `def`. When it fails `graph` has the nodes that it had before; functions of the
// message may then be in the library already.
absl::Status ImportInto(Graph* graph, const tensorflow::GraphDef& def,
                        const ImportOptions& options = {});

// InvalidArgument: a graph of these versions is not for this program.
absl::Status CheckGraphVersions(const tensorflow::VersionDef& versions);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_IMPORT_H_
