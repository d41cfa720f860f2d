// RaggedTensorToSparse: the values of a ragged tensor with their indices.
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/ragged/splits.h"

namespace tandem::ragged {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

absl::Status ToSparseShape(ShapeContext& c) {
  const int ragged_rank = c.num_inputs() - 1;
  for (int i = 0; i < ragged_rank; ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(ragged_rank, 1));
  const PartialShape& values = c.input(ragged_rank);
  const int64_t rank = values.has_rank() ? ragged_rank + values.rank() : kUnknown;
  int64_t count = values.has_rank() ? 1 : kUnknown;
  for (int i = 0; values.has_rank() && i < values.rank(); ++i) {
    count = count < 0 || values.dim(i) < 0 ? kUnknown : count * values.dim(i);
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({count, rank})));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, PartialShape({count})));
  return c.SetOutput(2, PartialShape({rank}));
}

// The values of one ragged tensor, in order, with the index of each.
class Walk {
 public:
  Walk(const std::vector<RowSplits>& splits, const Shape& values, int64_t* indices)
      : splits_(splits), values_(values), next_(indices), index_(splits.size() + 1, 0) {
    int64_t inner = 1;
    for (int i = 1; i < values.rank(); ++i) inner *= values.dim(i);
    inner_ = inner;
  }

  void Run() { Rows(0, 0, NumRows(splits_[0])); }

 private:
  // Rows [begin, end) of a ragged dimension, which are all in one row of the dimension before.
  void Rows(size_t level, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      index_[level] = row - begin;
      if (level == splits_.size()) {
        Values();
        continue;
      }
      const RowSplits& splits = splits_[level];
      Rows(level + 1, splits[static_cast<size_t>(row)], splits[static_cast<size_t>(row) + 1]);
    }
  }

  // The elements of one row of the dense values.
  void Values() {
    for (int64_t element = 0; element < inner_; ++element) {
      for (const int64_t index : index_) *next_++ = index;
      int64_t rest = element;
      for (int i = values_.rank() - 1; i >= 1; --i) {
        next_[i - 1] = rest % values_.dim(i);
        rest /= values_.dim(i);
      }
      next_ += values_.rank() - 1;
    }
  }

  const std::vector<RowSplits>& splits_;
  const Shape& values_;
  int64_t* next_;
  std::vector<int64_t> index_;
  int64_t inner_ = 1;
};

absl::Status ToSparse(KernelContext& c) {
  const int ragged_rank = c.num_inputs() - 1;
  const Tensor& values = c.input(ragged_rank);
  if (values.shape().rank() < 1) {
    return errors::InvalidArgument("rt_dense_values is a scalar; it must have rows");
  }
  std::vector<RowSplits> splits;
  for (int i = 0; i < ragged_rank; ++i) {
    const std::string name = absl::StrCat("rt_nested_splits[", i, "]");
    TANDEM_ASSIGN_OR_RETURN(RowSplits read, ReadSplits(c.input(i), name));
    if (i > 0) TANDEM_RETURN_IF_ERROR(CheckEnd(splits.back(), "the splits before", NumRows(read)));
    splits.push_back(std::move(read));
  }
  TANDEM_RETURN_IF_ERROR(CheckEnd(splits.back(), "the last splits", values.shape().dim(0)));
  const int rank = ragged_rank + values.shape().rank();
  TANDEM_ASSIGN_OR_RETURN(const Shape indices_shape,
                          Shape::FromDims({values.num_elements(), int64_t{rank}}));
  TANDEM_ASSIGN_OR_RETURN(Tensor * indices, c.AllocateOutput(0, indices_shape));
  Walk(splits, values.shape(), indices->MutableElements<int64_t>().data()).Run();
  TANDEM_ASSIGN_OR_RETURN(Tensor flat, values.Reshaped(Shape({values.num_elements()})));
  c.SetOutput(1, std::move(flat));

  TANDEM_ASSIGN_OR_RETURN(Tensor * shape, c.AllocateOutput(2, Shape({rank})));
  int64_t* size = shape->MutableElements<int64_t>().data();
  *size++ = NumRows(splits[0]);
  for (const RowSplits& level : splits) {
    int64_t longest = 0;
    for (size_t i = 1; i < level.size(); ++i) longest = std::max(longest, level[i] - level[i - 1]);
    *size++ = longest;
  }
  for (int i = 1; i < values.shape().rank(); ++i) *size++ = values.shape().dim(i);
  return absl::OkStatus();
}

absl::Status ToSparseGradient(GradientContext& g) {
  const int values = g.num_inputs() - 1;
  if (!g.HasOutputGradient(1)) return absl::OkStatus();
  g.SetInputGradient(values,
                     g.Call("Reshape", {g.OutputGradient(1), g.Call("Shape", {g.input(values)})}));
  return absl::OkStatus();
}

TANDEM_OP("RaggedTensorToSparse")
    .Inputs("rt_nested_splits:RAGGED_RANK*Tsplits, rt_dense_values:T")
    .Outputs("sparse_indices:int64, sparse_values:T, sparse_dense_shape:int64")
    .Attrs("RAGGED_RANK:int>=1; T:type; Tsplits:type{int32,int64}=int64")
    .Shape(ToSparseShape)
    .Gradient(ToSparseGradient)
    .HostMemory({"rt_nested_splits", "sparse_dense_shape"})
    .Cpu(Function(ToSparse));

}  // namespace
}  // namespace tandem::ragged
