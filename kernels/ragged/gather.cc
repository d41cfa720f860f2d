// RaggedGather: rows of a ragged tensor by index.
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/common/arguments.h"
#include "kernels/ragged/splits.h"

namespace tandem::ragged {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

absl::Status GatherShape(ShapeContext& c) {
  const auto ragged_rank = static_cast<int>(c.Attr<int64_t>("PARAMS_RAGGED_RANK"));
  const auto output_rank = static_cast<int>(c.Attr<int64_t>("OUTPUT_RAGGED_RANK"));
  for (int i = 0; i < ragged_rank; ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(ragged_rank, 1));
  const PartialShape& indices = c.input(ragged_rank + 1);
  if (indices.has_rank() && indices.rank() + ragged_rank - 1 != output_rank) {
    return errors::InvalidArgument("OUTPUT_RAGGED_RANK is ", output_rank, "; indices of shape ",
                                   indices.DebugString(), " into a tensor of ragged rank ",
                                   ragged_rank, " give ", indices.rank() + ragged_rank - 1);
  }
  for (int i = 0; i < output_rank; ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, PartialShape({kUnknown})));
  }
  PartialShape values = c.input(ragged_rank);
  if (values.has_rank()) values.SetDim(0, kUnknown);
  return c.SetOutput(output_rank, std::move(values));
}

// Values [begin, end), gathered one after the other.
struct Piece {
  int64_t begin;
  int64_t end;
};

class GatherKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    ragged_rank_ = static_cast<int>(init.Attr<int64_t>("PARAMS_RAGGED_RANK"));
    output_rank_ = static_cast<int>(init.Attr<int64_t>("OUTPUT_RAGGED_RANK"));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(ragged_rank_);
    const Tensor& indices = c.input(ragged_rank_ + 1);
    if (values.shape().rank() < 1) {
      return errors::InvalidArgument("params_dense_values is a scalar; it must have rows");
    }
    if (indices.shape().rank() + ragged_rank_ - 1 != output_rank_) {
      return errors::InvalidArgument("OUTPUT_RAGGED_RANK is ", output_rank_, "; indices of shape ",
                                     indices.shape().DebugString(),
                                     " into a tensor of ragged rank ", ragged_rank_, " give ",
                                     indices.shape().rank() + ragged_rank_ - 1);
    }
    std::vector<RowSplits> params;
    for (int i = 0; i < ragged_rank_; ++i) {
      const std::string name = absl::StrCat("params_nested_splits[", i, "]");
      TANDEM_ASSIGN_OR_RETURN(RowSplits read, ReadSplits(c.input(i), name));
      if (i > 0)
        TANDEM_RETURN_IF_ERROR(CheckEnd(params.back(), "the splits before", NumRows(read)));
      params.push_back(std::move(read));
    }
    TANDEM_RETURN_IF_ERROR(CheckEnd(params.back(), "the last splits", values.shape().dim(0)));
    TANDEM_ASSIGN_OR_RETURN(const SmallInts rows, IntsArgument(indices, "indices"));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] >= 0 && rows[i] < NumRows(params[0])) continue;
      return errors::InvalidArgument("indices[", i, "] is ", rows[i], "; there are ",
                                     NumRows(params[0]), " rows");
    }

    std::vector<RowSplits> splits = OuterSplits(indices.shape());
    const std::vector<Piece> pieces = Gather(params, rows, &splits);
    // A scalar index takes the rows of one row: the splits that say which they are go away.
    if (indices.shape().IsScalar()) splits.erase(splits.begin());
    for (size_t i = 0; i < splits.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(
          Tensor * output,
          c.AllocateOutput(static_cast<int>(i), Shape({static_cast<int64_t>(splits[i].size())})));
      TANDEM_RETURN_IF_ERROR(WriteSplits(splits[i], output));
    }
    return CopyPieces(c, values, pieces);
  }

 private:
  // Those of the dimensions that the indices have beyond the first: all rows are of one length.
  static std::vector<RowSplits> OuterSplits(const Shape& indices) {
    std::vector<RowSplits> splits;
    int64_t rows = indices.rank() > 0 ? indices.dim(0) : 1;
    for (int d = 1; d < indices.rank(); ++d) {
      RowSplits level(static_cast<size_t>(rows) + 1, 0);
      for (size_t i = 1; i < level.size(); ++i) level[i] = level[i - 1] + indices.dim(d);
      rows = level.back();
      splits.push_back(std::move(level));
    }
    return splits;
  }

  // Adds the splits of the gathered rows, and returns where their values lie.
  static std::vector<Piece> Gather(const std::vector<RowSplits>& params, const SmallInts& rows,
                                   std::vector<RowSplits>* splits) {
    std::vector<Piece> pieces;
    for (const int64_t row : rows) pieces.push_back({row, row + 1});
    for (const RowSplits& level : params) {
      RowSplits gathered = {0};
      for (Piece& piece : pieces) {
        for (int64_t row = piece.begin; row < piece.end; ++row) {
          const auto at = static_cast<size_t>(row);
          gathered.push_back(gathered.back() + level[at + 1] - level[at]);
        }
        piece = {level[static_cast<size_t>(piece.begin)], level[static_cast<size_t>(piece.end)]};
      }
      splits->push_back(std::move(gathered));
    }
    return pieces;
  }

  absl::Status CopyPieces(KernelContext& c, const Tensor& values,
                          const std::vector<Piece>& pieces) const {
    int64_t count = 0;
    for (const Piece& piece : pieces) count += piece.end - piece.begin;
    Shape::Dims dims(values.shape().dims().begin(), values.shape().dims().end());
    dims[0] = count;
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(output_rank_, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();
    const int64_t width = output->num_elements() / count;
    const DataType dtype = values.dtype();
    int64_t to = 0;
    for (const Piece& piece : pieces) {
      const int64_t size = (piece.end - piece.begin) * width;
      array::CopyElements(dtype, array::ElementAt(dtype, output->mutable_data(), to),
                          array::ElementAt(dtype, values.data(), piece.begin * width), size);
      to += size;
    }
    return absl::OkStatus();
  }

  int ragged_rank_ = 0;
  int output_rank_ = 0;
};

// The same gather of the numbers of the values says where each gradient goes.
absl::Status GatherGradient(GradientContext& g) {
  const auto ragged_rank = static_cast<int>(g.Attr<int64_t>("PARAMS_RAGGED_RANK"));
  const auto output_rank = static_cast<int>(g.Attr<int64_t>("OUTPUT_RAGGED_RANK"));
  if (!g.HasOutputGradient(output_rank)) return absl::OkStatus();
  const auto ints = [&](std::initializer_list<int64_t> values) {
    return g.Constant(Tensor::Vector<int64_t>(values));
  };
  const Output shape = g.Call("Shape", {g.input(ragged_rank)}, {{"out_type", kInt64}});
  const Output count =
      g.Call("StridedSlice", {shape, ints({0}), ints({1}), ints({1})}, {{"shrink_axis_mask", 1}});
  const Output numbers = g.Call("Range", {g.Constant(Tensor::Scalar<int64_t>(0)), count,
                                          g.Constant(Tensor::Scalar<int64_t>(1))});
  std::vector<Output> inputs;
  for (int i = 0; i < ragged_rank; ++i) inputs.push_back(g.input(i));
  inputs.push_back(numbers);
  inputs.push_back(g.input(ragged_rank + 1));
  const std::vector<Output> gathered = g.CallMulti(
      "RaggedGather", inputs, {{"OUTPUT_RAGGED_RANK", g.Attr<int64_t>("OUTPUT_RAGGED_RANK")}});
  if (static_cast<int>(gathered.size()) <= output_rank) return g.status();
  const Output places = gathered[static_cast<size_t>(output_rank)];
  g.SetInputGradient(ragged_rank,
                     g.Call("UnsortedSegmentSum", {g.OutputGradient(output_rank), places, count}));
  return absl::OkStatus();
}

TANDEM_OP("RaggedGather")
    .Inputs(
        "params_nested_splits:PARAMS_RAGGED_RANK*Tsplits, params_dense_values:Tvalues, "
        "indices:Tindices")
    .Outputs("output_nested_splits:OUTPUT_RAGGED_RANK*Tsplits, output_dense_values:Tvalues")
    .Attrs(
        "Tvalues:type; Tindices:type{int32,int64}; Tsplits:type{int32,int64}=int64; "
        "PARAMS_RAGGED_RANK:int>=1; OUTPUT_RAGGED_RANK:int>=0")
    .Shape(GatherShape)
    .Gradient(GatherGradient)
    .HostMemory({"params_nested_splits", "indices", "output_nested_splits"})
    .Cpu(Make<GatherKernel>("Tvalues", array::AllTypesBut({kResource, kVariant})));

}  // namespace
}  // namespace tandem::ragged
