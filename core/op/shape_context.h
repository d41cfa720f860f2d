// ShapeContext: what a shape function sees of its node and what it has to fill in.
//
//   absl::Status MatMulShape(ShapeContext& c) {
//     TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
//     …
//     return c.SetOutput(0, PartialShape({rows, columns}));
//   }
//
// Shape functions run when a node is added to a graph, and again when more is known. They say
// InvalidArgument when inputs cannot fit; the caller adds the node's name and op.
#ifndef TANDEM_CORE_OP_SHAPE_CONTEXT_H_
#define TANDEM_CORE_OP_SHAPE_CONTEXT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/op/attr_value.h"
#include "core/op/op_def.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tandem {

// What is known of one output of a node before it runs.
struct OutputInfo {
  DataType dtype = DataType::kInvalid;  // With its reference flag.
  PartialShape shape;
  // For resource and variant outputs: types and shapes of what the handle leads to, where known.
  std::vector<std::pair<DataType, PartialShape>> handle;
};

class ShapeContext {
 public:
  // What is asked of the graph around the node. Both may answer "unknown".
  struct Values {
    // The value of input `i` when it is a constant.
    std::function<absl::optional<Tensor>(int i)> constant;
    // The value of input `i`, a vector of sizes, as far as it is known.
    std::function<PartialShape(int i)> as_shape;
  };

  ShapeContext(const OpDef& op, const AttrMap& attrs, std::vector<const OutputInfo*> inputs,
               Values values, std::vector<OutputInfo>* outputs)
      : op_(op),
        attrs_(attrs),
        inputs_(std::move(inputs)),
        values_(std::move(values)),
        outputs_(outputs) {}

  const OpDef& op() const { return op_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_->size()); }

  const PartialShape& input(int i) const { return inputs_[static_cast<size_t>(i)]->shape; }
  DataType input_dtype(int i) const { return inputs_[static_cast<size_t>(i)]->dtype; }
  const OutputInfo& input_info(int i) const { return *inputs_[static_cast<size_t>(i)]; }
  absl::optional<Tensor> InputValue(int i) const { return values_.constant(i); }
  // Input `i` is a vector of sizes: the shape that it describes, unknown where it is not constant.
  // InvalidArgument when it is known and no shape. A size of -1 is unknown.
  absl::StatusOr<PartialShape> InputAsShape(int i) const;
  // Input `i` is a constant integer scalar (int32 or int64), if so; nothing when it is not known.
  absl::optional<int64_t> InputAsInt(int i) const;

  // The attribute's value. REQUIRES: the op declares it with this type (nodes are checked before
  // shape functions run).
  template <typename T>
  const T& Attr(absl::string_view name) const {
    return *attrs_.find(std::string(name))->second.Get<T>();
  }

  DataType output_dtype(int i) const { return (*outputs_)[static_cast<size_t>(i)].dtype; }
  absl::Status SetOutput(int i, PartialShape shape) {
    (*outputs_)[static_cast<size_t>(i)].shape = std::move(shape);
    return absl::OkStatus();
  }
  void SetOutputHandle(int i, std::vector<std::pair<DataType, PartialShape>> handle) {
    (*outputs_)[static_cast<size_t>(i)].handle = std::move(handle);
  }

  // Checks of inputs. InvalidArgument names the input, its shape and what is wanted.
  absl::Status RequireRank(int i, int rank) const;
  absl::Status RequireRankAtLeast(int i, int rank) const;

  // Resolves a negative axis. InvalidArgument when it lies outside [-rank, rank).
  static absl::StatusOr<int> ResolveAxis(int64_t axis, int rank);

 private:
  std::string InputName(int i) const;

  const OpDef& op_;
  const AttrMap& attrs_;
  const std::vector<const OutputInfo*> inputs_;
  const Values values_;
  std::vector<OutputInfo>* const outputs_;
};

// Shape functions that many ops share.
absl::Status UnknownShape(ShapeContext& c);    // Nothing is known of any output.
absl::Status NoOutputs(ShapeContext& c);       // There are none.
absl::Status ScalarShape(ShapeContext& c);     // All outputs are scalars.
absl::Status UnchangedShape(ShapeContext& c);  // All outputs are shaped like input 0.
absl::Status MergedShape(ShapeContext& c);     // All inputs and outputs have one shape.
absl::Status BroadcastShape(ShapeContext& c);  // Inputs 0 and 1 broadcast to output 0.

// The shape to which `a` and `b` broadcast (NumPy's rule). InvalidArgument when they do not.
absl::StatusOr<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b);

}  // namespace tandem

#endif  // TANDEM_CORE_OP_SHAPE_CONTEXT_H_
