// GradientContext: what an op's gradient function sees. It is called while gradients are added to a
// graph (core/op/gradients.h), once for each node on the way, and adds the nodes that compute the
// gradients with respect to the node's inputs from those with respect to its outputs.
//
//   // product = a b:  da = dproduct bᵀ,  db = aᵀ dproduct
//   absl::Status MatMulGradient(GradientContext& g) {
//     const Output dy = g.OutputGradient(0);
//     g.SetInputGradient(0, g.Call("MatMul", {dy, g.input(1)}, {{"transpose_b", true}}));
//     g.SetInputGradient(1, g.Call("MatMul", {g.input(0), dy}, {{"transpose_a", true}}));
//     return absl::OkStatus();
//   }
//
// Ops are called by name, since the typed wrappers are generated from the registry that holds these
// functions. Calls are checked when they are made; after the first error all return invalid
// outputs, and the error reaches the caller of AddGradients.
#ifndef TANDEM_CORE_OP_GRADIENT_CONTEXT_H_
#define TANDEM_CORE_OP_GRADIENT_CONTEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/op/attr_value.h"

namespace tandem {

// The gradient with respect to one value: dense, sparse (TensorFlow's IndexedSlices), or none.
struct Gradient {
  Gradient() = default;
  Gradient(Output dense) : values(dense) {}  // NOLINT: a dense gradient is an output.
  Gradient(Output values, Output indices, Output dense_shape)
      : values(values), indices(indices), dense_shape(dense_shape) {}

  bool exists() const { return values.valid(); }
  bool is_sparse() const { return indices.valid(); }

  // Dense: the gradient. Sparse: rows; row i of `values` belongs to row indices[i] of the whole,
  // and rows with equal indices add up.
  Output values;
  Output indices;      // Vector of int32 or int64.
  Output dense_shape;  // Vector of the same type: the shape of the whole.
};

// A gradient as one tensor of the shape of the whole. `builder` adds the nodes: a Scope or a
// GradientContext. REQUIRES: it exists.
template <typename Builder>
Output Densify(Builder& builder, const Gradient& gradient) {
  if (!gradient.is_sparse()) return gradient.values;
  const auto index = [&](int32_t i) { return builder.Constant(Tensor::Vector<int32_t>({i})); };
  const Output rows =
      builder.Call("StridedSlice", {gradient.dense_shape, index(0), index(1), index(1)},
                   {{"shrink_axis_mask", 1}});
  return builder.Call("UnsortedSegmentSum", {gradient.values, gradient.indices, rows});
}

class GradientContext {
 public:
  // Adds nodes to `graph` under names that begin with `scope`. `output_gradients` has one entry for
  // each output of `node`; those that do not exist count as zero.
  GradientContext(Graph* graph, Node* node, std::vector<Gradient> output_gradients,
                  std::string scope);

  // The node of the forward graph.
  const Node& node() const { return *node_; }
  Output input(int i) const { return node_->input(i); }
  int num_inputs() const { return node_->num_inputs(); }
  Output output(int i) const { return node_->output(i); }
  int num_outputs() const { return node_->num_outputs(); }
  // REQUIRES: the op declares the attribute with this type.
  template <typename T>
  const T& Attr(absl::string_view name) const {
    return *node_->Attr<T>(name);
  }

  bool HasOutputGradient(int i) const;
  // The gradient with respect to output `i`, dense (a sparse one is converted); zeros when there is
  // none.
  Output OutputGradient(int i);
  // The same as it came.
  const Gradient& RawOutputGradient(int i) const;

  // A new node, on the forward node's device. The output is number 0; see CallMulti for the others.
  Output Call(absl::string_view op, std::vector<Output> inputs, AttrMap attrs = {});
  // All outputs.
  std::vector<Output> CallMulti(absl::string_view op, std::vector<Output> inputs,
                                AttrMap attrs = {});
  Output Constant(Tensor value);
  // A scalar constant of a numeric type.
  Output Scalar(DataType dtype, double value);
  // The conjugate for complex types, the value itself for others.
  Output Conjugate(Output value);
  // Sums `gradient` over the dimensions in which input `i` was broadcast against input `j`, so that
  // it has the shape of input `i`.
  Output ReduceToInput(Output gradient, int i, int j);

  // Inputs that get none have no gradient.
  void SetInputGradient(int i, Gradient gradient);

  Graph& graph() { return *graph_; }
  // The first error of a call.
  const absl::Status& status() const { return status_; }
  const std::vector<Gradient>& input_gradients() const { return input_gradients_; }

 private:
  Graph* const graph_;
  Node* const node_;
  const std::vector<Gradient> output_gradients_;
  const std::string scope_;
  std::vector<Gradient> input_gradients_;
  absl::Status status_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_OP_GRADIENT_CONTEXT_H_
