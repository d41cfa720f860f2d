// RaggedTensorToTensor: a ragged tensor as a dense one, its rows padded with a default or cut.
//
// The rows are said by partitions, outermost first, each in one of several forms:
//   FIRST_DIM_SIZE  how many rows there are; the next one is VALUE_ROWIDS
//   VALUE_ROWIDS    for each value the row that it belongs to, in order
//   ROW_SPLITS      where each row begins, and where the last ends
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
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
constexpr char kFirstSize[] = "FIRST_DIM_SIZE";
constexpr char kRowIds[] = "VALUE_ROWIDS";
constexpr char kRowSplits[] = "ROW_SPLITS";

// Inputs: shape, values, default_value, and then the partitions.
constexpr int kFirstPartition = 3;

// How many ragged dimensions the partitions make. InvalidArgument: they do not follow each other.
absl::StatusOr<int> RaggedRank(const std::vector<std::string>& types) {
  bool good = !types.empty();
  const bool has_size = good && types[0] == kFirstSize;
  for (size_t i = has_size ? 1 : 0; i < types.size(); ++i) {
    good = good && (types[i] == kRowSplits || (types[i] == kRowIds && (has_size || i > 0)));
  }
  const int rank = static_cast<int>(types.size()) - (has_size ? 1 : 0);
  if (good && rank > 0) return rank;
  return errors::InvalidArgument("row_partition_types are [", absl::StrJoin(types, ", "),
                                 "]; wanted are ROW_SPLITS or VALUE_ROWIDS for each ragged ",
                                 "dimension, and FIRST_DIM_SIZE before a first VALUE_ROWIDS");
}

// The shape of the result as far as `wanted`, the op's first input, and the values' shape say it.
absl::StatusOr<PartialShape> CombinedShape(int ragged_rank, const PartialShape& wanted,
                                           const PartialShape& values) {
  if (!values.has_rank()) return wanted;
  if (values.rank() < 1) {
    return errors::InvalidArgument("values are a scalar; they must have rows");
  }
  PartialShape shape = PartialShape::UnknownOfRank(ragged_rank + values.rank());
  for (int i = 1; i < values.rank(); ++i) shape.SetDim(ragged_rank + i, values.dim(i));
  const absl::StatusOr<PartialShape> merged = shape.MergeWith(wanted);
  if (merged.ok()) return *merged;
  return errors::InvalidArgument("shape is ", wanted.DebugString(), "; a tensor of ragged rank ",
                                 ragged_rank, " with values of shape ", values.DebugString(),
                                 " becomes one of shape ", shape.DebugString());
}

absl::Status ToTensorShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int ragged_rank,
                          RaggedRank(c.Attr<std::vector<std::string>>("row_partition_types")));
  PartialShape wanted;
  // A scalar, -1, says nothing.
  if (c.input(0).has_rank() && c.input(0).rank() == 1) {
    TANDEM_ASSIGN_OR_RETURN(wanted, c.InputAsShape(0));
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, CombinedShape(ragged_rank, wanted, c.input(1)));
  return c.SetOutput(0, std::move(shape));
}

// --- Kernel

// The splits of rows from the row of each value. InvalidArgument: a row out of order or range.
absl::StatusOr<RowSplits> SplitsOfRowIds(const Tensor& tensor, int64_t rows) {
  TANDEM_ASSIGN_OR_RETURN(const SmallInts ids, VectorArgument(tensor, "a VALUE_ROWIDS partition"));
  RowSplits splits(static_cast<size_t>(rows) + 1, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= rows || (i > 0 && ids[i] < ids[i - 1])) {
      return errors::InvalidArgument("the row of value ", i, " is ", ids[i], i > 0 ? " after " : "",
                                     i > 0 ? absl::StrCat(ids[i - 1]) : "", "; there are ", rows,
                                     " rows, and they may not fall");
    }
    ++splits[static_cast<size_t>(ids[i]) + 1];
  }
  for (size_t row = 1; row < splits.size(); ++row) splits[row] += splits[row - 1];
  return splits;
}

absl::StatusOr<std::vector<RowSplits>> ReadPartitions(KernelContext& c,
                                                      const std::vector<std::string>& types) {
  std::vector<RowSplits> partitions;
  int64_t rows = -1;  // Of the next partition; not known for a first ROW_SPLITS.
  for (size_t i = 0; i < types.size(); ++i) {
    const Tensor& tensor = c.input(kFirstPartition + static_cast<int>(i));
    if (types[i] == kFirstSize) {
      TANDEM_ASSIGN_OR_RETURN(const SmallInts sizes, IntsArgument(tensor, kFirstSize));
      if (sizes.size() != 1 || sizes[0] < 0) {
        return errors::InvalidArgument(kFirstSize, " is ", tensor.DebugString(),
                                       "; the number of rows is wanted");
      }
      // Rows take memory before any value is seen: more than their splits could be no tensor.
      rows = sizes[0];
      TANDEM_RETURN_IF_ERROR(Tensor::Create(kInt64, Shape({rows})).status());
      continue;
    }
    RowSplits splits;
    if (types[i] == kRowIds) {
      TANDEM_ASSIGN_OR_RETURN(splits, SplitsOfRowIds(tensor, rows));
    } else {
      TANDEM_ASSIGN_OR_RETURN(splits, ReadSplits(tensor, "a ROW_SPLITS partition"));
      if (rows >= 0 && NumRows(splits) != rows) {
        return errors::InvalidArgument("partition ", i, " is of ", NumRows(splits),
                                       " rows; the one before it makes ", rows);
      }
    }
    rows = splits.back();
    partitions.push_back(std::move(splits));
  }
  return partitions;
}

// Puts rows in their places in a dense tensor that holds the default everywhere.
class Filler {
 public:
  Filler(const std::vector<RowSplits>& partitions, const Tensor& values, Tensor* output)
      : partitions_(partitions), values_(values), output_(output) {
    const Shape& shape = output->shape();
    int64_t stride = shape.num_elements();
    for (size_t level = 0; level <= partitions.size(); ++level) {
      const int64_t size = shape.dim(static_cast<int>(level));
      stride = size == 0 ? 0 : stride / size;
      strides_.push_back(stride);
    }
  }

  void Fill() {
    if (output_->num_elements() == 0) return;
    const int64_t rows = std::min(NumRows(partitions_[0]), output_->shape().dim(0));
    for (int64_t row = 0; row < rows; ++row) Row(0, row, row * strides_[0]);
  }

 private:
  // Row number `row` of a ragged dimension goes to the element `to` and those after it.
  void Row(size_t level, int64_t row, int64_t to) {
    const int64_t begin = partitions_[level][static_cast<size_t>(row)];
    const int64_t end = partitions_[level][static_cast<size_t>(row) + 1];
    const int64_t count = std::min(end - begin, output_->shape().dim(static_cast<int>(level) + 1));
    if (level + 1 == partitions_.size()) {
      const int64_t width = strides_.back();
      const DataType dtype = values_.dtype();
      array::CopyElements(dtype, array::ElementAt(dtype, output_->mutable_data(), to),
                          array::ElementAt(dtype, values_.data(), begin * width), count * width);
      return;
    }
    for (int64_t i = 0; i < count; ++i) Row(level + 1, begin + i, to + i * strides_[level + 1]);
  }

  const std::vector<RowSplits>& partitions_;
  const Tensor& values_;
  Tensor* const output_;
  std::vector<int64_t> strides_;  // Of the ragged dimensions and the one before.
};

// Fills `output` with a default that is broadcast to its inner dimensions, `inner`.
absl::Status FillDefault(KernelContext& c, const Tensor& value, absl::Span<const int64_t> inner,
                         Tensor* output) {
  const Shape& shape = value.shape();
  const auto rank = static_cast<int>(inner.size());
  bool fits = shape.rank() <= rank;
  for (int i = 0; fits && i < shape.rank(); ++i) {
    const int64_t size = inner[static_cast<size_t>(rank - shape.rank() + i)];
    fits = shape.dim(i) == 1 || shape.dim(i) == size;
  }
  if (!fits) {
    return errors::InvalidArgument("default_value has shape ", shape.DebugString(),
                                   "; it must be broadcast to that of one value, [",
                                   absl::StrJoin(inner, ","), "]");
  }
  const DataType dtype = value.dtype();
  if (output->num_elements() == 0) return absl::OkStatus();
  if (value.num_elements() == 1) {
    array::FillElements(c.parallel(), dtype, output->mutable_data(), value.data(),
                        output->num_elements());
    return absl::OkStatus();
  }
  // The first value by index, the others from it.
  int64_t width = 1;
  for (const int64_t size : inner) width *= size;
  for (int64_t i = 0; i < width; ++i) {
    int64_t rest = i;
    int64_t from = 0;
    int64_t stride = 1;
    for (int d = rank - 1; d >= rank - shape.rank(); --d) {
      const int64_t own = shape.dim(d - (rank - shape.rank()));
      const int64_t size = inner[static_cast<size_t>(d)];
      if (own > 1) from += rest % size * stride;
      stride *= own;
      rest /= size;
    }
    array::CopyElements(dtype, array::ElementAt(dtype, output->mutable_data(), i),
                        array::ElementAt(dtype, value.data(), from), 1);
  }
  for (int64_t at = width; at < output->num_elements(); at += width) {
    array::CopyElements(dtype, array::ElementAt(dtype, output->mutable_data(), at), output->data(),
                        width);
  }
  return absl::OkStatus();
}

class ToTensorKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    types_ = init.Attr<std::vector<std::string>>("row_partition_types");
    if (static_cast<int>(types_.size()) + kFirstPartition != init.num_inputs()) {
      return errors::InvalidArgument("there are ", init.num_inputs() - kFirstPartition,
                                     " partitions and ", types_.size(), " row_partition_types");
    }
    TANDEM_ASSIGN_OR_RETURN(ragged_rank_, RaggedRank(types_));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const PartialShape wanted, WantedShape(c.input(0)));
    TANDEM_ASSIGN_OR_RETURN(PartialShape shape,
                            CombinedShape(ragged_rank_, wanted, values.shape()));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<RowSplits> partitions, ReadPartitions(c, types_));
    TANDEM_RETURN_IF_ERROR(
        CheckEnd(partitions.back(), "the innermost rows", values.shape().dim(0)));
    if (shape.dim(0) < 0) shape.SetDim(0, NumRows(partitions[0]));
    for (int level = 0; level < ragged_rank_; ++level) {
      if (shape.dim(level + 1) >= 0) continue;
      const RowSplits& splits = partitions[static_cast<size_t>(level)];
      int64_t longest = 0;
      for (size_t i = 1; i < splits.size(); ++i) {
        longest = std::max(longest, splits[i] - splits[i - 1]);
      }
      shape.SetDim(level + 1, longest);
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape whole, Shape::FromDims(shape.dims()));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, whole));
    TANDEM_RETURN_IF_ERROR(FillDefault(c, c.input(2), values.shape().dims().subspan(1), output));
    Filler(partitions, values, output).Fill();
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<PartialShape> WantedShape(const Tensor& tensor) {
    TANDEM_ASSIGN_OR_RETURN(const SmallInts sizes, IntsArgument(tensor, "shape"));
    if (tensor.shape().IsVector()) return PartialShape::FromDims(sizes);
    if (tensor.shape().IsScalar() && sizes[0] == kUnknown) return PartialShape::Unknown();
    return errors::InvalidArgument("shape is ", tensor.DebugString(),
                                   "; a vector of sizes, or -1, is wanted");
  }

  std::vector<std::string> types_;
  int ragged_rank_ = 0;
};

// --- Gradient

// A tensor of the same form in which each place holds the number of its value, or -1, says where
// each gradient goes.
absl::Status ToTensorGradient(GradientContext& g) {
  TANDEM_ASSIGN_OR_RETURN(const int ragged_rank,
                          RaggedRank(g.Attr<std::vector<std::string>>("row_partition_types")));
  const Output dy = g.OutputGradient(0);
  const auto ints = [&](std::initializer_list<int64_t> values) {
    return g.Constant(Tensor::Vector<int64_t>(values));
  };
  const auto shape_of = [&](Output x) { return g.Call("Shape", {x}, {{"out_type", kInt64}}); };
  const auto element = [&](Output vector, int64_t i) {
    return g.Call("StridedSlice", {vector, ints({i}), ints({i + 1}), ints({1})},
                  {{"shrink_axis_mask", 1}});
  };
  const auto part = [&](Output vector, int64_t begin, int64_t size) {
    return g.Call("Slice", {vector, ints({begin}), ints({size})});
  };
  const Output count = element(shape_of(g.input(1)), 0);
  const Output zero = g.Constant(Tensor::Scalar<int64_t>(0));
  const Output one = g.Constant(Tensor::Scalar<int64_t>(1));
  const Output none = g.Constant(Tensor::Scalar<int64_t>(-1));
  std::vector<Output> inputs = {part(shape_of(dy), 0, ragged_rank + 1),
                                g.Call("Range", {zero, count, one}), none};
  for (int i = kFirstPartition; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  const Output places =
      g.Call("RaggedTensorToTensor", inputs,
             {{"row_partition_types", g.Attr<std::vector<std::string>>("row_partition_types")}});
  g.SetInputGradient(1, g.Call("UnsortedSegmentSum", {dy, places, count}));

  // The default gets what went nowhere else, summed to its shape.
  const Output padding = g.Call("SelectV2", {g.Call("Less", {places, zero}), zero, none});
  const Output sum = g.Call("UnsortedSegmentSum", {dy, padding, one});
  const Output shape = shape_of(g.input(2));
  const Output axes = g.CallMulti("BroadcastGradientArgs", {shape_of(sum), shape})[1];
  g.SetInputGradient(2, g.Call("Reshape", {g.Call("Sum", {sum, axes}), shape}));
  return absl::OkStatus();
}

TANDEM_OP("RaggedTensorToTensor")
    .Inputs(
        "shape:Tshape, values:T, default_value:T, "
        "row_partition_tensors:num_row_partition_tensors*Tindex")
    .Outputs("result:T")
    .Attrs(
        "T:type; Tindex:type{int64,int32}; Tshape:type{int64,int32}; "
        "num_row_partition_tensors:int>=1; row_partition_types:list(string)")
    .Shape(ToTensorShape)
    .Gradient(ToTensorGradient)
    .HostMemory({"shape", "row_partition_tensors"})
    .Cpu(Make<ToTensorKernel>("T", array::AllTypesBut({kResource, kVariant})));

}  // namespace
}  // namespace tandem::ragged
