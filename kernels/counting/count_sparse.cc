// DenseCountSparseOutput, SparseCountSparseOutput and RaggedCountSparseOutput: which numbers come
// in a vector, or in each row of a matrix, and how often, or the sum of the weights that each comes
// with; as a sparse tensor, whose columns are the numbers.
//
// Numbers from maxlength on, and negative ones, are not what a column can be: the former are left
// out. With binary_output each number that comes counts 1.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/counting/sparse_numbers.h"
#include "kernels/ragged/splits.h"

namespace tandem::counting {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

absl::Status SetShapes(ShapeContext& c, int64_t rank) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({kUnknown, rank})));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, PartialShape({kUnknown})));
  return c.SetOutput(2, PartialShape({rank}));
}

absl::Status DenseShape(ShapeContext& c) {
  const PartialShape& values = c.input(0);
  if (!values.has_rank()) return SetShapes(c, kUnknown);
  if (values.rank() < 1 || values.rank() > 2) {
    return errors::InvalidArgument("values have shape ", values.DebugString(),
                                   "; they must be a vector or a matrix");
  }
  return SetShapes(c, values.rank());
}

absl::Status SparseShape(ShapeContext& c) {
  const PartialShape& indices = c.input(0);
  return SetShapes(c, indices.has_rank() && indices.rank() == 2 ? indices.dim(1) : kUnknown);
}

absl::Status RaggedShape(ShapeContext& c) { return SetShapes(c, 2); }

// What each row counts.
template <typename W>
class Counts {
 public:
  struct Options {
    int64_t min_length = -1;
    int64_t max_length = -1;
    bool binary = false;
  };

  Counts(const Options& options, int64_t rows)
      : options_(options), rows_(static_cast<size_t>(rows)) {}

  // InvalidArgument: the value is negative.
  absl::Status Add(int64_t row, int64_t value, const W* weight) {
    if (value < 0) {
      return errors::InvalidArgument("the value ", value,
                                     " cannot be counted; values may not be negative");
    }
    if (options_.max_length >= 0 && value >= options_.max_length) return absl::OkStatus();
    largest_ = std::max(largest_, value);
    W& count = rows_[static_cast<size_t>(row)][value];
    count = options_.binary ? W{1} : static_cast<W>(count + (weight != nullptr ? *weight : W{1}));
    return absl::OkStatus();
  }

  absl::Status Write(KernelContext& c, bool is_vector) const {
    int64_t total = 0;
    for (const auto& row : rows_) total += static_cast<int64_t>(row.size());
    const int64_t rank = is_vector ? 1 : 2;
    TANDEM_ASSIGN_OR_RETURN(Tensor * indices, c.AllocateOutput(0, Shape({total, rank})));
    TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(1, Shape({total})));
    int64_t* index = indices->MutableElements<int64_t>().data();
    W* count = values->MutableElements<W>().data();
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (const auto& [value, counted] : rows_[row]) {
        if (!is_vector) *index++ = static_cast<int64_t>(row);
        *index++ = value;
        *count++ = counted;
      }
    }
    const int64_t columns = options_.max_length >= 0 ? options_.max_length
                                                     : std::max(largest_ + 1, options_.min_length);
    c.SetOutput(2, is_vector
                       ? Tensor::Vector<int64_t>({columns})
                       : Tensor::Vector<int64_t>({static_cast<int64_t>(rows_.size()), columns}));
    return absl::OkStatus();
  }

 private:
  const Options options_;
  std::vector<absl::btree_map<int64_t, W>> rows_;
  int64_t largest_ = 0;  // Where nothing is counted there is one column, as in TensorFlow.
};

// The base of the three kernels.
template <typename W>
class CountKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    options_.min_length = init.Attr<int64_t>("minlength");
    options_.max_length = init.Attr<int64_t>("maxlength");
    options_.binary = init.Attr<bool>("binary_output");
    return absl::OkStatus();
  }

 protected:
  static int64_t ValueAt(const Tensor& values, int64_t i) {
    const auto at = static_cast<size_t>(i);
    return values.dtype() == kInt32 ? values.Elements<int32_t>()[at]
                                    : values.Elements<int64_t>()[at];
  }
  // The weights, or null where there are none. InvalidArgument: they are not as the values.
  static absl::StatusOr<const W*> Weights(const Tensor& weights, const Shape& values) {
    if (weights.num_elements() == 0) return static_cast<const W*>(nullptr);
    if (weights.shape() == values) return weights.Elements<W>().data();
    return errors::InvalidArgument("weights have shape ", weights.shape().DebugString(),
                                   " and values ", values.DebugString(),
                                   "; there must be one for each, or none");
  }

  typename Counts<W>::Options options_;
};

template <typename W>
class DenseCountKernel final : public CountKernel<W> {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(0);
    const Shape& shape = values.shape();
    if (shape.rank() < 1 || shape.rank() > 2) {
      return errors::InvalidArgument("values have shape ", shape.DebugString(),
                                     "; they must be a vector or a matrix");
    }
    TANDEM_ASSIGN_OR_RETURN(const W* weights, this->Weights(c.input(1), shape));
    const bool is_vector = shape.IsVector();
    Counts<W> counts(this->options_, is_vector ? 1 : shape.dim(0));
    const int64_t columns = is_vector ? values.num_elements() : shape.dim(1);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      TANDEM_RETURN_IF_ERROR(counts.Add(i / columns, this->ValueAt(values, i),
                                        weights != nullptr ? weights + i : nullptr));
    }
    return counts.Write(c, is_vector);
  }
};

template <typename W>
class SparseCountKernel final : public CountKernel<W> {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& indices = c.input(0);
    const Tensor& values = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Shape whole, WholeShape(indices, values, c.input(2)));
    TANDEM_ASSIGN_OR_RETURN(const W* weights, this->Weights(c.input(3), values.shape()));
    const bool is_vector = whole.IsVector();
    // A row costs memory also where nothing is counted in it.
    const int64_t rows = is_vector ? 1 : whole.dim(0);
    if (rows > kMaxRows) {
      return errors::ResourceExhausted("dense_shape has ", rows, " rows; at most ", kMaxRows,
                                       " can be counted");
    }
    Counts<W> counts(this->options_, rows);
    const auto index = indices.Elements<int64_t>();
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      for (int d = 0; d < whole.rank(); ++d) {
        const int64_t at = index[static_cast<size_t>(i * whole.rank() + d)];
        if (at >= 0 && at < whole.dim(d)) continue;
        return errors::InvalidArgument("indices[", i, ", ", d, "] is ", at, "; dense_shape is ",
                                       whole.DebugString());
      }
      const int64_t row = is_vector ? 0 : index[static_cast<size_t>(2 * i)];
      TANDEM_RETURN_IF_ERROR(
          counts.Add(row, this->ValueAt(values, i), weights != nullptr ? weights + i : nullptr));
    }
    return counts.Write(c, is_vector);
  }

 private:
  static constexpr int64_t kMaxRows = int64_t{1} << 28;
};

template <typename W>
class RaggedCountKernel final : public CountKernel<W> {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const ragged::RowSplits splits,
                            ragged::ReadSplits(c.input(0), "splits"));
    TANDEM_RETURN_IF_ERROR(ragged::CheckEnd(splits, "splits", values.num_elements()));
    if (ragged::NumRows(splits) == 0) {
      return errors::InvalidArgument("splits have no rows; there must be one at least");
    }
    TANDEM_ASSIGN_OR_RETURN(const W* weights, this->Weights(c.input(2), values.shape()));
    Counts<W> counts(this->options_, ragged::NumRows(splits));
    for (int64_t row = 0; row < ragged::NumRows(splits); ++row) {
      const int64_t end = splits[static_cast<size_t>(row) + 1];
      for (int64_t i = splits[static_cast<size_t>(row)]; i < end; ++i) {
        TANDEM_RETURN_IF_ERROR(
            counts.Add(row, this->ValueAt(values, i), weights != nullptr ? weights + i : nullptr));
      }
    }
    return counts.Write(c, /*is_vector=*/false);
  }
};

constexpr char kOutputs[] =
    "output_indices:int64, output_values:output_type, output_dense_shape:int64";
constexpr char kAttrs[] =
    "T:type{int32,int64}; minlength:int>=-1=-1; maxlength:int>=-1=-1; binary_output:bool; "
    "output_type:type{int32,int64,float32,float64}";

TANDEM_OP("DenseCountSparseOutput")
    .Inputs("values:T, weights:output_type")
    .Outputs(kOutputs)
    .Attrs(kAttrs)
    .Shape(DenseShape)
    .HostMemory({"output_dense_shape"})
    .Cpu(ByType<DenseCountKernel, int32_t, int64_t, float, double>("output_type"));

TANDEM_OP("SparseCountSparseOutput")
    .Inputs("indices:int64, values:T, dense_shape:int64, weights:output_type")
    .Outputs(kOutputs)
    .Attrs(kAttrs)
    .Shape(SparseShape)
    .HostMemory({"dense_shape", "output_dense_shape"})
    .Cpu(ByType<SparseCountKernel, int32_t, int64_t, float, double>("output_type"));

TANDEM_OP("RaggedCountSparseOutput")
    .Inputs("splits:int64, values:T, weights:output_type")
    .Outputs(kOutputs)
    .Attrs(kAttrs)
    .Shape(RaggedShape)
    .HostMemory({"splits", "output_dense_shape"})
    .Cpu(ByType<RaggedCountKernel, int32_t, int64_t, float, double>("output_type"));

}  // namespace
}  // namespace tandem::counting
