// Graph -> GraphDef.
#ifndef TANDEM_CORE_GRAPH_EXPORT_H_
#define TANDEM_CORE_GRAPH_EXPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace google {
namespace protobuf {
class MessageLite;
}  // namespace protobuf
}  // namespace google

namespace tensorflow {
class FunctionDefLibrary;
class GraphDef;
class NodeDef;
}  // namespace tensorflow

namespace tandem {

struct ExportOptions {
  // Devices where placement put the nodes, instead of those that were asked for.
  bool placed_devices = false;
  // Ops of our own (_Tandem…) are allowed: for graphs that stay in this process, or are shown to
  // people.
  bool internal_ops = false;
};

// Nodes in the order of their ids, all attributes written out, defaults too; the library's
// functions in the order of their names. FailedPrecondition: an input is not connected, or an op is
// internal. Other errors are those of TensorToProto. Messages name the node. Equal graphs give
// equal messages; for equal bytes use DeterministicBytes.
absl::Status ExportGraphDef(const Graph& graph, const ExportOptions& options,
                            tensorflow::GraphDef* def);
absl::StatusOr<tensorflow::GraphDef> ExportGraphDef(const Graph& graph,
                                                    const ExportOptions& options = {});

// One node, inputs in the form "node:1" and "^node".
absl::Status NodeToProto(const Node& node, const ExportOptions& options, tensorflow::NodeDef* def);
void LibraryToProto(const FunctionLibrary& library, tensorflow::FunctionDefLibrary* def);

// The message's bytes, with maps in the order of their keys: the same in every process.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_EXPORT_H_
