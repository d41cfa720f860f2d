// Graph: nodes, and the edges between them.
//
// A node is one use of an op. A data edge leads from an output of one node to an input of another;
// a control edge says that one node runs after another. Nodes are checked against their op when
// they are added, so a Graph that exists is well formed: attributes are complete and of the right
// kind, inputs have the right number and types, names are unique, and what shape inference can tell
// is known. Only cycles are looked for later (TopologicalOrder), because the loops of TensorFlow 1
// may be closed through NextIteration.
//
// Threads: as a container: one thread writes, or many read.
// Lifetime: a Graph owns its nodes; pointers to them end with the graph or with RemoveNode.
#ifndef TANDEM_CORE_GRAPH_GRAPH_H_
#define TANDEM_CORE_GRAPH_GRAPH_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "core/graph/function_library.h"
#include "core/op/attr_value.h"
#include "core/op/op_def.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/dtype.h"

namespace tandem {

class Node;

// One output of a node. Also called an endpoint; written "name:index".
struct Output {
  Output() = default;
  Output(Node* node, int index) : node(node), index(index) {}

  bool valid() const { return node != nullptr; }
  // REQUIRES, for all below: valid().
  DataType dtype() const;  // With its reference flag.
  const PartialShape& shape() const;
  std::string name() const;  // "node:1"; output 0 is "node".

  friend bool operator==(const Output& a, const Output& b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator!=(const Output& a, const Output& b) { return !(a == b); }
  template <typename H>
  friend H AbslHashValue(H h, const Output& output) {
    return H::combine(std::move(h), output.node, output.index);
  }

  Node* node = nullptr;
  int index = 0;
};

// The other end of an edge out of a node.
struct Consumer {
  static constexpr int kControl = -1;
  Node* node;
  int input;   // Input of `node`, or kControl.
  int output;  // Output that it consumes, or kControl.
};

class Node {
 public:
  // Small and dense: usable as an index into arrays of size Graph::id_limit(). Nodes that were
  // added earlier have lower ids.
  int id() const { return id_; }
  const std::string& name() const { return name_; }
  const OpDef& op() const { return *op_; }
  const std::string& type() const { return op_->name; }  // The op's name.
  bool Is(absl::string_view op_name) const { return op_->name == op_name; }

  const AttrMap& attrs() const { return attrs_; }
  // Null when there is none of this name and C++ type.
  template <typename T>
  const T* Attr(absl::string_view name) const {
    const auto found = attrs_.find(std::string(name));
    return found == attrs_.end() ? nullptr : found->second.Get<T>();
  }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  Output input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  absl::Span<const Output> inputs() const { return inputs_; }
  DataType input_dtype(int i) const { return input_types_[static_cast<size_t>(i)]; }
  absl::Span<Node* const> control_inputs() const { return control_inputs_; }

  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  Output output(int i) { return Output(this, i); }
  const OutputInfo& output_info(int i) const { return outputs_[static_cast<size_t>(i)]; }
  // All edges out of this node, in an order that depends on the graph's history alone.
  absl::Span<const Consumer> consumers() const { return consumers_; }

  // Where the user wants it (a possibly partial device name), and where placement put it.
  const std::string& requested_device() const { return requested_device_; }
  void set_requested_device(std::string device) { requested_device_ = std::move(device); }
  const std::string& device() const { return device_; }
  void set_device(std::string device) { device_ = std::move(device); }

 private:
  friend class Graph;

  int id_ = 0;
  std::string name_;
  const OpDef* op_ = nullptr;
  AttrMap attrs_;
  std::vector<DataType> input_types_;
  std::vector<Output> inputs_;
  // Of each input, where its edge stands in the source's consumers_, so that an edge is removed
  // without a search: a constant may have as many consumers as the graph has nodes.
  std::vector<size_t> edge_positions_;
  std::vector<Node*> control_inputs_;
  std::vector<OutputInfo> outputs_;
  std::vector<Consumer> consumers_;
  std::string requested_device_;
  std::string device_;
};

// What a new node shall be. Type and number attributes that the inputs imply may be left out, and
// so may attributes with a default.
struct NodeSpec {
  std::string name;  // Exactly this; see Graph::UniqueName.
  std::string op;
  std::vector<Output> inputs;
  std::vector<Node*> control_inputs;
  AttrMap attrs;
  std::string device;
  // Inputs from here on are connected later with SetInput (back edges of loops); their types come
  // from the attributes. -1: none.
  int first_missing_input = -1;
};

class Graph {
 public:
  // Ops are looked up in `registry`, which outlives the graph; functions in `functions`, shared by
  // the copies of a graph.
  explicit Graph(const OpRegistry& registry = OpRegistry::Global());
  Graph(const OpRegistry& registry, std::shared_ptr<FunctionLibrary> functions);
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  // InvalidArgument: the attributes, inputs, types or shapes do not fit the op, or the name is
  // malformed. AlreadyExists: the name is taken. NotFound: no such op. The message names the node.
  absl::StatusOr<Node*> AddNode(NodeSpec spec);
  // Removes the node and all edges into it. REQUIRES: nobody consumes its outputs.
  void RemoveNode(Node* node);
  // Removes a set of nodes and all edges into them, cycles among them included. REQUIRES: nobody
  // outside the set consumes their outputs.
  void RemoveNodes(absl::Span<Node* const> nodes);

  // Replaces input `i`, or connects one that was left out. Takes constant time. InvalidArgument
  // when the types differ.
  absl::Status SetInput(Node* node, int i, Output source);
  // Adding an edge that is there, or removing one that is not, changes nothing.
  void AddControlEdge(Node* from, Node* to);
  void RemoveControlEdge(Node* from, Node* to);
  // Lets all consumers of `from` (data edges) consume `to`. Linear in their number. InvalidArgument
  // when the types differ; nothing has changed then.
  absl::Status ReplaceOutput(Output from, Output to);
  // Lets every node that ran after `from` (control edges) run after `to` instead.
  void MoveControlConsumers(Node* from, Node* to);
  // Gives the node new values for `attrs` and more inputs and outputs, behind those it has; edges
  // stay. So a loop or a call comes to give out more than it did. InvalidArgument: the attributes
  // and inputs do not fit the op, or change what is there; then nothing has changed.
  absl::Status GrowNode(Node* node, const std::vector<Output>& more_inputs, AttrMap attrs);
  // For passes: a node that takes another one's place also takes its name, by which errors, roots
  // and users know it.
  void SwapNames(Node* a, Node* b);
  // For passes. REQUIRES: the op declares the attribute with this kind.
  void SetAttr(Node* node, absl::string_view name, AttrValue value);

  // Runs the node's shape function again, with what its inputs know now.
  absl::Status InferShape(Node* node);

  Node* FindNode(absl::string_view name) const;
  // NotFound, with near names suggested.
  absl::StatusOr<Node*> GetNode(absl::string_view name) const;
  // Parses "name", "name:1" or "^name" (control; index Consumer::kControl).
  absl::StatusOr<Output> GetOutput(absl::string_view text) const;
  // `base`, or `base`_1, `base`_2, … whichever is free first.
  std::string UniqueName(absl::string_view base);

  int num_nodes() const { return static_cast<int>(by_name_.size()); }
  int id_limit() const { return static_cast<int>(nodes_.size()); }
  Node* node(int id) const { return nodes_[static_cast<size_t>(id)].get(); }  // Null when removed.
  // In order of id.
  std::vector<Node*> nodes() const;

  // Every node after those it consumes, edges from NextIteration to Merge aside; the order is the
  // same in every process. InvalidArgument names the nodes of a cycle.
  absl::StatusOr<std::vector<Node*>> TopologicalOrder() const;

  // A copy with the same ids, which shares the function library.
  Graph Clone() const;

  const OpRegistry& registry() const { return *registry_; }
  FunctionLibrary& functions() { return *functions_; }
  const FunctionLibrary& functions() const { return *functions_; }
  const std::shared_ptr<FunctionLibrary>& shared_functions() const { return functions_; }
  // Looks functions up in `functions` from here on. REQUIRES: it has those that the nodes call.
  void set_shared_functions(std::shared_ptr<FunctionLibrary> functions) {
    functions_ = std::move(functions);
  }

 private:
  void Connect(Node* node, int i, Output source);
  void Disconnect(Node* node, int i);
  // Takes the edge at `position` out of the node's consumers; the last one takes its place.
  static void EraseConsumer(Node* node, size_t position);

  const OpRegistry* registry_;
  std::shared_ptr<FunctionLibrary> functions_;
  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<std::string, Node*> by_name_;
  absl::flat_hash_map<std::string, int> name_suffixes_;
};

// True for the edge that closes a loop of TensorFlow 1: from NextIteration to Merge.
bool IsBackEdge(const Node& from, const Node& to);

// Puts the node's name, op and device around an error, once.
absl::Status WithNode(const absl::Status& status, const Node& node);

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_GRAPH_H_
