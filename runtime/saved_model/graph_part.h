// GraphPart: what some nodes of a GraphDef need. A SavedModel holds much more than what one of its
// signatures runs, and may hold ops there that this program does not know. So it is cut down as a
// message, before anything is imported.
//
// Threads: any, for const methods.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_GRAPH_PART_H_
#define TANDEM_RUNTIME_SAVED_MODEL_GRAPH_PART_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/op/registry.h"
#include "core/tensor/dtype.h"

namespace tensorflow {
class FunctionDef;
class GraphDef;
class NodeDef;
class OpDef;
class OpList;
}  // namespace tensorflow

namespace tandem {

// A tensor that is given from outside.
struct FedTensor {
  std::string name;           // "node:0"
  DataType dtype = kFloat32;  // kInvalid: as the graph has it.
};

struct GraphPart {
  std::set<int> nodes;              // Positions in the message.
  std::set<std::string> functions;  // That they call, or that those call.
  // Nodes whose output 0 is given, and which need not run: placeholders take their place.
  std::map<int, DataType> given;

  void Add(const GraphPart& other);
};

// How many nodes of each op that is missing.
using MissingOps = std::map<std::string, int>;
// "Betainc (1 node), Foo (2 nodes)".
std::string MissingOpsText(const MissingOps& missing);

class GraphParts {
 public:
  // `ops`: the ops as the writer of the graph knew them. Both messages outlive this.
  // InvalidArgument: names of nodes or functions are there twice.
  static absl::StatusOr<GraphParts> Create(const tensorflow::GraphDef& graph,
                                           const tensorflow::OpList& ops,
                                           const OpRegistry& registry = OpRegistry::Global());

  // What has to be there to compute tensors ("node:0") and run nodes ("node") when `fed` is given.
  // InvalidArgument: one of the names, or an input of a node, is of a node that is not in the
  // graph.
  absl::StatusOr<GraphPart> Find(const std::vector<std::string>& roots,
                                 const std::vector<FedTensor>& fed) const;

  // The ops of a part that are neither registered nor functions.
  MissingOps Missing(const GraphPart& part) const;

  // The part as a graph. Attributes that ops here do not know are left out when they have the
  // value that the writer's op has by default.
  tensorflow::GraphDef Extract(const GraphPart& part) const;
  // The same, which takes the nodes out of `graph` instead of copying them: constants may be large.
  // REQUIRES: it is the graph that this was made of, of which nothing else is asked afterwards, or
  // a copy of it.
  tensorflow::GraphDef TakeOut(const GraphPart& part, tensorflow::GraphDef* graph) const;
  // Whether a node of the part, or of a function in it, is of this op.
  bool Uses(const GraphPart& part, absl::string_view op) const;

 private:
  // What a call of a function runs: what its results need, and what has effects.
  struct Body {
    const tensorflow::FunctionDef* def = nullptr;
    std::vector<int> nodes;
    std::set<std::string> functions;  // Called by them.
    MissingOps missing;
  };

  GraphParts(const tensorflow::GraphDef& graph, const OpRegistry& registry)
      : graph_(&graph), registry_(&registry) {}

  absl::Status AddFunctions(const tensorflow::OpList& ops);
  absl::Status ReadBody(Body& body) const;
  bool IsStateful(const std::string& op) const;
  bool IsMissing(const std::string& op) const;
  void AddCalls(const tensorflow::NodeDef& node, std::set<std::string>& functions) const;
  absl::StatusOr<int> FindNode(absl::string_view tensor) const;
  void ExtractNode(tensorflow::NodeDef* node) const;

  const tensorflow::GraphDef* graph_;
  const OpRegistry* registry_;
  absl::flat_hash_map<absl::string_view, int> by_name_;
  std::map<std::string, Body> bodies_;
  std::map<std::string, const tensorflow::OpDef*> producer_ops_;
};

// The node of a tensor or control input: "node" of "node:1", "node:output:1" and "^node".
absl::string_view NodeOfInput(absl::string_view input);

// Adds the functions that a node calls by its attributes.
void AddCalledFunctions(const tensorflow::NodeDef& node, std::set<std::string>* functions);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_GRAPH_PART_H_
