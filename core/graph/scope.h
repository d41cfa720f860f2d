// Scope: where and how the next nodes are added to a graph.
//
//   Scope root = Scope::NewRoot();
//   Scope layer = root.SubScope("layer").WithDevice("/cpu:1");
//   Output y = layer.Call("MatMul", {x, w}, {{"transpose_b", true}});     // "layer/MatMul"
//   Output z = layer.WithOpName("z").Call("Add", {y, 1.0});               // "layer/z"
//   TANDEM_RETURN_IF_ERROR(root.status());
//
// The generated wrappers (ops::MatMul(layer, x, w)) are a typed form of Call.
//
// A Scope is a cheap value. All scopes that stem from one root share its graph and its status. The
// first error stays: after it nothing is added any more, and what the calls return is invalid, so
// that a model may be written down without a check in each line. Whoever finishes the graph looks
// at status().
//
// Names are the scope's path and the name of the op, "layer/MatMul"; the next one is
// "layer/MatMul_1". A second SubScope("layer") of one parent is "layer_1".
//
// Threads: one at a time for all scopes of a root.
// Lifetime: the graph of NewRoot lives as long as a scope of it; ForGraph's graph outlives all.
#ifndef TANDEM_CORE_GRAPH_SCOPE_H_
#define TANDEM_CORE_GRAPH_SCOPE_H_

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"

namespace tandem {

// What may stand where an op takes an input: an output of a node, a tensor, or C++ values: 2,
// 0.5f, "text", {1, 2, 3}, {{1.f, 2.f}, {3.f, 4.f}}. Tensors and values become Const nodes, named
// after the op and its argument ("layer/Add/y"). Numbers take the type that the op's other inputs
// and attributes ask for (Mul(x, 2.0) works for an x of any floating type, and of an integer type
// as well, since 2.0 is a whole number; 2.5 would be an error there); alone, they are of their C++
// type.
class Input {
 public:
  Input(const Output& output) : output_(output) {}       // NOLINT: all of these convert on
  Input(Node* node) : output_(node, 0) {}                // NOLINT  purpose, so that
  Input(Tensor tensor) : value_(std::move(tensor)) {}    // NOLINT  Call("Add", {x, 1})
  Input(const char* text) : Input(std::string(text)) {}  // NOLINT  works.
  Input(std::string text) : value_(Tensor::Scalar<std::string>(std::move(text))) {}  // NOLINT
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Input(T value) : value_(Tensor::Scalar<Element<T>>(value)), is_literal_(true) {}  // NOLINT
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Input(std::initializer_list<T> values) : is_literal_(true) {  // NOLINT
    Fill(Shape({static_cast<int64_t>(values.size())}), {values});
  }
  // A matrix. Rows of different lengths make an input that no op takes.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Input(std::initializer_list<std::initializer_list<T>> rows) : is_literal_(true) {  // NOLINT
    const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
    for (const auto& row : rows) {
      if (row.size() != columns) return;
    }
    Fill(Shape({static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}), rows);
  }
  Input(std::initializer_list<const char*> texts);  // NOLINT

  bool is_value() const { return value_.is_valid(); }
  const Output& output() const { return output_; }
  const Tensor& value() const { return value_; }
  // A number without a type of its own.
  bool is_literal() const { return is_literal_; }

 private:
  // long long has the size of int64_t but is another type.
  template <typename T>
  using Element =
      std::conditional_t<std::is_same_v<T, long long>, int64_t,
                         std::conditional_t<std::is_same_v<T, unsigned long long>, uint64_t, T>>;

  template <typename T>
  void Fill(Shape shape, std::initializer_list<std::initializer_list<T>> rows) {
    value_ = Tensor(DataTypeOf<Element<T>>(), std::move(shape));
    auto* next = value_.MutableElements<Element<T>>().data();
    for (const auto& row : rows) next = std::copy(row.begin(), row.end(), next);
  }

  Output output_;
  Tensor value_;
  bool is_literal_ = false;
};

using InputList = std::vector<Input>;

class Scope {
 public:
  // A scope at the top of a new graph, or of one that belongs to somebody else.
  static Scope NewRoot(const OpRegistry& registry = OpRegistry::Global());
  static Scope ForGraph(Graph* graph);

  // Names below it begin with this scope's path and `name`, made unique among its children. An
  // empty name stays here.
  Scope SubScope(absl::string_view name) const;
  // The next node is named so, instead of by its op.
  Scope WithOpName(absl::string_view name) const;
  // Nodes also run after these (and after those that were given before).
  Scope WithControlDependencies(absl::Span<Node* const> nodes) const;
  Scope WithControlDependencies(std::initializer_list<Node*> nodes) const {
    return WithControlDependencies(absl::MakeConstSpan(nodes.begin(), nodes.size()));
  }
  Scope WithoutControlDependencies() const;
  // Nodes shall run on this device (core/graph/device_name.h). Part by part, the innermost scope
  // counts.
  Scope WithDevice(absl::string_view device) const;
  // Nodes shall run where `node` runs (the attribute _class).
  Scope ColocateWith(const Node* node) const;

  // Adds a node. Missing control inputs, device and so on come from this scope. Null after an
  // error.
  Node* AddNode(absl::string_view op, const InputList& inputs, AttrMap attrs = {}) const;
  // As AddNode; gives the first output. An op without outputs is an error: use AddNode.
  Output Call(absl::string_view op, const InputList& inputs, AttrMap attrs = {}) const;
  // As AddNode; gives all outputs. Empty after an error.
  std::vector<Output> CallMulti(absl::string_view op, const InputList& inputs,
                                AttrMap attrs = {}) const;
  // A Const node, named like other nodes of this scope.
  Output Constant(const Input& value) const;

  // The first error of any scope of this root. Its message names the node.
  const absl::Status& status() const;
  bool ok() const { return status().ok(); }
  // Becomes the status, if there was no error before.
  void UpdateStatus(const absl::Status& status) const;

  Graph* graph() const;
  const std::string& path() const { return path_; }      // "layer", or "" at the top.
  const std::string& device() const { return device_; }  // As AddNode sets it; may be empty.
  // What a node called `name` (an op's, as a rule) would be called here. Not reserved.
  std::string NodeName(absl::string_view name) const;

 private:
  struct Shared;

  explicit Scope(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Output AddConstant(std::string name, Tensor value) const;
  absl::StatusOr<std::vector<Output>> Resolve(const OpDef& op, const std::string& node_name,
                                              const InputList& inputs, const AttrMap& attrs) const;

  // Shared by the scopes of a root, since all of them write the one graph and status.
  std::shared_ptr<Shared> shared_;
  std::string path_;
  std::string op_name_;
  std::string device_;
  std::vector<Node*> control_dependencies_;
  std::vector<std::string> colocated_;  // "loc:@node"
};

namespace ops {

// A constant. With `dtype` the numbers take that type.
Output Const(const Scope& scope, const Input& value);
Output Const(const Scope& scope, const Input& value, DataType dtype);

}  // namespace ops

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_SCOPE_H_
