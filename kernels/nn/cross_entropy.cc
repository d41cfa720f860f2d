// SoftmaxCrossEntropyWithLogits and SparseSoftmaxCrossEntropyWithLogits: the loss of each row of
// logits and its derivative with respect to them, in one pass over the row.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/softmax_rows.h"

namespace tandem {
namespace {

// With s the softmax of the logits and l the labels:
//   loss = -sum(l log s) = sum(l (log(sum of exps) - shifted)),  backprop = s - l
template <typename T>
class DenseKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    using C = ComputeType<T>;
    const Tensor& logits = c.input(0);
    const Tensor& labels = c.input(1);
    const auto fail = [&] {
      return errors::InvalidArgument("logits of shape ", logits.shape().DebugString(),
                                     " and labels of shape ", labels.shape().DebugString(),
                                     " must be matrices of one shape, or broadcast to one");
    };
    if (!logits.shape().IsMatrix() || !labels.shape().IsMatrix()) return fail();
    const absl::StatusOr<PartialShape> both = BroadcastShapes(logits.shape(), labels.shape());
    if (!both.ok()) return fail();
    const int64_t rows = both->dim(0);
    const int64_t columns = both->dim(1);
    TANDEM_ASSIGN_OR_RETURN(Tensor* const loss, c.AllocateOutput(0, Shape({rows})));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const backprop, c.AllocateOutput(1, Shape({rows, columns})));
    if (rows == 0) return absl::OkStatus();
    T* const to_loss = loss->MutableElements<T>().data();
    if (columns == 0) {
      std::fill_n(to_loss, rows, T(0.0f));
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(const Tensor all_logits, Widened(c, logits, columns));
    TANDEM_ASSIGN_OR_RETURN(const Tensor all_labels, Widened(c, labels, columns));
    const int64_t logits_stride = logits.shape().dim(0) == rows ? columns : 0;
    const int64_t labels_stride = labels.shape().dim(0) == rows ? columns : 0;
    const T* const from_labels = all_labels.Elements<T>().data();
    T* const to_backprop = backprop->MutableElements<T>().data();
    ForSoftmaxBlocks(all_logits.Elements<T>().data(), rows, columns, logits_stride, c.parallel(),
                     [&](const SoftmaxBlock<C>& block) {
                       for (int64_t r = 0; r < block.rows; ++r) {
                         const int64_t row = block.first_row + r;
                         const T* const l = from_labels + row * labels_stride;
                         C* const terms = block.shifted + r * columns;
                         C* const softmax = block.exps + r * columns;
                         const C log_sum = std::log(block.sums[r]);
                         const C scale = C(1) / block.sums[r];
                         for (int64_t j = 0; j < columns; ++j) {
                           const C label = static_cast<C>(l[j]);
                           terms[j] = label * (log_sum - terms[j]);
                           softmax[j] = softmax[j] * scale - label;
                         }
                         to_loss[row] = T(Sum(terms, columns));
                         FromCompute(softmax, to_backprop + row * columns, columns);
                       }
                     });
    return absl::OkStatus();
  }

 private:
  // Columns that broadcast, written out; a case without use, which is not worth a fast way.
  static absl::StatusOr<Tensor> Widened(KernelContext& c, const Tensor& from, int64_t columns) {
    if (from.shape().dim(1) == columns) return from;
    const int64_t rows = from.shape().dim(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor to, c.AllocateTemporary(from.dtype(), Shape({rows, columns})));
    for (int64_t r = 0; r < rows; ++r) {
      std::fill_n(to.MutableElements<T>().data() + r * columns, columns,
                  from.Elements<T>()[static_cast<size_t>(r)]);
    }
    return to;
  }
};

// The same for labels that are 1 at one place and 0 elsewhere.
template <typename T>
class SparseKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    using C = ComputeType<T>;
    const Tensor& logits = c.input(0);
    const Tensor& labels = c.input(1);
    if (!logits.shape().IsMatrix() || !labels.shape().IsVector() ||
        logits.shape().dim(0) != labels.shape().dim(0)) {
      return errors::InvalidArgument("logits of shape ", logits.shape().DebugString(),
                                     " and labels of shape ", labels.shape().DebugString(),
                                     " must be a matrix and a vector with an entry for each row");
    }
    const int64_t rows = logits.shape().dim(0);
    const int64_t columns = logits.shape().dim(1);
    if (columns < 1) {
      return errors::InvalidArgument("logits of shape ", logits.shape().DebugString(),
                                     " must have one class at least");
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t label = LabelAt(labels, row);
      if (label < 0 || label >= columns) {
        return errors::InvalidArgument("label ", label, " of row ", row,
                                       " is outside the valid range [0, ", columns, ")");
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const loss, c.AllocateOutput(0, Shape({rows})));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const backprop, c.AllocateOutput(1, logits.shape()));
    T* const to_loss = loss->MutableElements<T>().data();
    T* const to_backprop = backprop->MutableElements<T>().data();
    ForSoftmaxBlocks(logits.Elements<T>().data(), rows, columns, columns, c.parallel(),
                     [&](const SoftmaxBlock<C>& block) {
                       for (int64_t r = 0; r < block.rows; ++r) {
                         const int64_t row = block.first_row + r;
                         const int64_t label = LabelAt(labels, row);
                         C* const softmax = block.exps + r * columns;
                         const C scale = C(1) / block.sums[r];
                         to_loss[row] =
                             T(std::log(block.sums[r]) - block.shifted[r * columns + label]);
                         for (int64_t j = 0; j < columns; ++j) softmax[j] *= scale;
                         softmax[label] -= C(1);
                         FromCompute(softmax, to_backprop + row * columns, columns);
                       }
                     });
    return absl::OkStatus();
  }

 private:
  static int64_t LabelAt(const Tensor& labels, int64_t i) {
    return labels.dtype() == kInt32 ? labels.Elements<int32_t>()[static_cast<size_t>(i)]
                                    : labels.Elements<int64_t>()[static_cast<size_t>(i)];
  }
};

absl::Status SetOutputs(ShapeContext& c, PartialShape logits) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({logits.dim(0)})));
  return c.SetOutput(1, std::move(logits));
}

absl::Status DenseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  absl::StatusOr<PartialShape> both = BroadcastShapes(c.input(0), c.input(1));
  if (!both.ok()) {
    return errors::InvalidArgument("logits of shape ", c.input(0).DebugString(),
                                   " and labels of shape ", c.input(1).DebugString(),
                                   " do not fit each other");
  }
  return SetOutputs(c, both->has_rank() ? *std::move(both) : PartialShape::UnknownOfRank(2));
}

absl::Status SparseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  PartialShape logits = c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(2);
  if (c.input(1).has_rank() && c.input(1).dim(0) >= 0) {
    const int64_t labels = c.input(1).dim(0);
    if (logits.dim(0) >= 0 && logits.dim(0) != labels) {
      return errors::InvalidArgument("logits of shape ", logits.DebugString(), " have ",
                                     logits.dim(0), " rows, but there are ", labels, " labels");
    }
    logits.SetDim(0, labels);
  }
  return SetOutputs(c, std::move(logits));
}

// A number for each row as a column, so that it multiplies the row.
Output AsColumn(GradientContext& g, Output x) {
  return g.Call("ExpandDims", {x, g.Constant(Tensor::Scalar<int32_t>(-1))});
}

// The gradient with respect to the logits: of the loss it is the second output; the second output's
// own derivative is that of the softmax.
Output LogitsGradient(GradientContext& g) {
  const Output first = g.HasOutputGradient(0)
                           ? g.Call("Mul", {AsColumn(g, g.OutputGradient(0)), g.output(1)})
                           : Output();
  if (!g.HasOutputGradient(1)) return first;
  const Output d = g.OutputGradient(1);
  const Output softmax = g.Call("Softmax", {g.input(0)});
  const Output sums =
      g.Call("Sum", {g.Call("Mul", {d, softmax}), g.Constant(Tensor::Scalar<int32_t>(-1))},
             {{"keep_dims", true}});
  const Output second = g.Call("Mul", {g.Call("Sub", {d, sums}), softmax});
  return first.valid() ? g.Call("AddV2", {first, second}) : second;
}

absl::Status DenseGradient(GradientContext& g) {
  Output logits = LogitsGradient(g);
  Output labels;
  if (g.HasOutputGradient(0)) {
    const Output log_softmax = g.Call("LogSoftmax", {g.input(0)});
    labels = g.Call("Mul", {AsColumn(g, g.OutputGradient(0)), g.Call("Neg", {log_softmax})});
  }
  if (g.HasOutputGradient(1)) {
    const Output second = g.Call("Neg", {g.OutputGradient(1)});
    labels = labels.valid() ? g.Call("AddV2", {labels, second}) : second;
  }
  const PartialShape& a = g.input(0).shape();
  const PartialShape& b = g.input(1).shape();
  if (a.IsFullyDefined() && b.IsFullyDefined() && a != b) {
    logits = g.ReduceToInput(logits, 0, 1);
    labels = g.ReduceToInput(labels, 1, 0);
  }
  g.SetInputGradient(0, logits);
  g.SetInputGradient(1, labels);
  return absl::OkStatus();
}

absl::Status SparseGradient(GradientContext& g) {
  g.SetInputGradient(0, LogitsGradient(g));
  return absl::OkStatus();
}

TANDEM_OP("SoftmaxCrossEntropyWithLogits")
    .Inputs("features:T, labels:T")
    .Outputs("loss:T, backprop:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(DenseShape)
    .Gradient(DenseGradient)
    .Cpu(ByType<DenseKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("SparseSoftmaxCrossEntropyWithLogits")
    .Inputs("features:T, labels:Tlabels")
    .Outputs("loss:T, backprop:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}; Tlabels:type{int32,int64}=int64")
    .Shape(SparseShape)
    .Gradient(SparseGradient)
    .Cpu(ByType<SparseKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
