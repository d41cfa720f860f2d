// Bincount, DenseBincount, SparseBincount and RaggedBincount: how often each number below `size`
// comes, in a vector or in each row of a matrix, or the sum of the weights that it comes with.
//
// Numbers from `size` on are not counted; negative ones are refused. With binary_output a bin holds
// whether its number comes at all.
#include <cstdint>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/common/arguments.h"
#include "kernels/counting/sparse_numbers.h"
#include "kernels/ragged/splits.h"

namespace tandem::counting {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// --- Shapes

// The value of `size`, input `i`, where it is known.
absl::StatusOr<int64_t> KnownSize(const ShapeContext& c, int i) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
  const auto size = c.InputAsInt(i);
  if (!size.has_value()) return kUnknown;
  if (*size >= 0) return *size;
  return errors::InvalidArgument("size is ", *size, "; it may not be negative");
}

absl::Status BincountShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, KnownSize(c, 1));
  return c.SetOutput(0, PartialShape({size}));
}

absl::Status DenseShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, KnownSize(c, 1));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  if (input.rank() > 2) {
    return errors::InvalidArgument("input has shape ", input.DebugString(),
                                   "; it may have rank 2 at most");
  }
  if (input.rank() < 2) return c.SetOutput(0, PartialShape({size}));
  return c.SetOutput(0, PartialShape({input.dim(0), size}));
}

absl::Status SparseShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, KnownSize(c, 3));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape whole, c.InputAsShape(2));
  if (!whole.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  if (whole.rank() < 2) return c.SetOutput(0, PartialShape({size}));
  return c.SetOutput(0, PartialShape({whole.dim(0), size}));
}

absl::Status RaggedShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, KnownSize(c, 2));
  const PartialShape& splits = c.input(0);
  const int64_t ends = splits.has_rank() ? splits.dim(0) : kUnknown;
  return c.SetOutput(0, PartialShape({ends > 0 ? ends - 1 : kUnknown, size}));
}

// --- Kernels

// A sum that wraps around, where it is one of whole numbers.
template <typename T>
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

// The bins of all rows, in output 0.
template <typename T>
class Bins {
 public:
  // Allocates the output of `rows` rows of `size` bins, or of one row that is a vector when `rows`
  // is kVector. InvalidArgument: a size that is none, or weights whose shape is not that of the
  // values.
  static constexpr int64_t kVector = -1;
  static absl::StatusOr<Bins> Make(KernelContext& c, int64_t rows, const Tensor& size,
                                   const Tensor& values, const Tensor& weights, bool binary) {
    Bins bins;
    TANDEM_ASSIGN_OR_RETURN(bins.size_, ScalarArgument(size, "size"));
    if (bins.size_ < 0) {
      return errors::InvalidArgument("size is ", bins.size_, "; it may not be negative");
    }
    if (weights.num_elements() > 0 && weights.shape() != values.shape()) {
      return errors::InvalidArgument("weights have shape ", weights.shape().DebugString(),
                                     "; they must have that of the values, ",
                                     values.shape().DebugString(), ", or be empty");
    }
    Shape::Dims dims;
    if (rows != kVector) dims.push_back(rows);
    dims.push_back(bins.size_);
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
    array::ZeroElements(c.parallel(), output->dtype(), output->mutable_data(),
                        output->num_elements());
    bins.bins_ = output->MutableElements<T>().data();
    if (weights.num_elements() > 0) bins.weights_ = weights.Elements<T>().data();
    bins.binary_ = binary;
    return bins;
  }

  // Counts value number `i` in a row. InvalidArgument: it is negative.
  absl::Status Add(int64_t row, int64_t value, int64_t i) {
    if (value < 0) {
      return errors::InvalidArgument("value number ", i, " is ", value,
                                     "; values may not be negative");
    }
    if (value >= size_) return absl::OkStatus();
    T& bin = bins_[row * size_ + value];
    bin = binary_ ? T{1} : Plus(bin, weights_ != nullptr ? weights_[i] : T{1});
    return absl::OkStatus();
  }

 private:
  int64_t size_ = 0;
  T* bins_ = nullptr;
  const T* weights_ = nullptr;  // Null: each counts one.
  bool binary_ = false;
};

// Element `i` of a tensor of int32 or int64.
int64_t IntAt(const Tensor& tensor, int64_t i) {
  const auto at = static_cast<size_t>(i);
  return tensor.dtype() == kInt32 ? tensor.Elements<int32_t>()[at] : tensor.Elements<int64_t>()[at];
}

template <typename T>
class BincountKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(auto bins, Bins<T>::Make(c, Bins<T>::kVector, c.input(1), values,
                                                     c.input(2), /*binary=*/false));
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      TANDEM_RETURN_IF_ERROR(bins.Add(0, IntAt(values, i), i));
    }
    return absl::OkStatus();
  }
};

class BinaryOutput : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    binary_ = init.Attr<bool>("binary_output");
    return absl::OkStatus();
  }

 protected:
  bool binary_ = false;
};

template <typename T>
class DenseKernel final : public BinaryOutput {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(0);
    const Shape& shape = values.shape();
    if (shape.rank() > 2) {
      return errors::InvalidArgument("input has shape ", shape.DebugString(),
                                     "; it may have rank 2 at most");
    }
    const bool rows = shape.IsMatrix();
    const int64_t columns = rows ? shape.dim(1) : values.num_elements();
    TANDEM_ASSIGN_OR_RETURN(auto bins, Bins<T>::Make(c, rows ? shape.dim(0) : Bins<T>::kVector,
                                                     c.input(1), values, c.input(2), binary_));
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      TANDEM_RETURN_IF_ERROR(bins.Add(i / columns, IntAt(values, i), i));
    }
    return absl::OkStatus();
  }
};

template <typename T>
class SparseKernel final : public BinaryOutput {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& indices = c.input(0);
    const Tensor& values = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Shape whole, WholeShape(indices, values, c.input(2)));
    const bool rows = whole.IsMatrix();
    TANDEM_ASSIGN_OR_RETURN(auto bins, Bins<T>::Make(c, rows ? whole.dim(0) : Bins<T>::kVector,
                                                     c.input(3), values, c.input(4), binary_));
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t row = rows ? IntAt(indices, 2 * i) : 0;
      if (row < 0 || (rows && row >= whole.dim(0))) {
        return errors::InvalidArgument("index number ", i, " is of row ", row, "; there are ",
                                       whole.dim(0), " rows");
      }
      TANDEM_RETURN_IF_ERROR(bins.Add(row, IntAt(values, i), i));
    }
    return absl::OkStatus();
  }
};

template <typename T>
class RaggedKernel final : public BinaryOutput {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& values = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const ragged::RowSplits splits,
                            ragged::ReadSplits(c.input(0), "splits"));
    TANDEM_RETURN_IF_ERROR(ragged::CheckEnd(splits, "splits", values.num_elements()));
    const int64_t rows = ragged::NumRows(splits);
    TANDEM_ASSIGN_OR_RETURN(auto bins,
                            Bins<T>::Make(c, rows, c.input(2), values, c.input(3), binary_));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t end = splits[static_cast<size_t>(row) + 1];
      for (int64_t i = splits[static_cast<size_t>(row)]; i < end; ++i) {
        TANDEM_RETURN_IF_ERROR(bins.Add(row, IntAt(values, i), i));
      }
    }
    return absl::OkStatus();
  }
};

TANDEM_OP("Bincount")
    .Inputs("arr:int32, size:int32, weights:T")
    .Outputs("bins:T")
    .Attrs("T:type{int32,int64,float32,float64}")
    .Shape(BincountShape)
    .NotDifferentiable()
    .HostMemory({"size"})
    .Cpu(ByType<BincountKernel, int32_t, int64_t, float, double>("T"));

TANDEM_OP("DenseBincount")
    .Inputs("input:Tidx, size:Tidx, weights:T")
    .Outputs("output:T")
    .Attrs("Tidx:type{int32,int64}; T:type{int32,int64,float32,float64}; binary_output:bool=False")
    .Shape(DenseShape)
    .NotDifferentiable()
    .HostMemory({"size"})
    .Cpu(ByType<DenseKernel, int32_t, int64_t, float, double>("T"));

TANDEM_OP("SparseBincount")
    .Inputs("indices:int64, values:Tidx, dense_shape:int64, size:Tidx, weights:T")
    .Outputs("output:T")
    .Attrs("Tidx:type{int32,int64}; T:type{int32,int64,float32,float64}; binary_output:bool=False")
    .Shape(SparseShape)
    .NotDifferentiable()
    .HostMemory({"dense_shape", "size"})
    .Cpu(ByType<SparseKernel, int32_t, int64_t, float, double>("T"));

TANDEM_OP("RaggedBincount")
    .Inputs("splits:int64, values:Tidx, size:Tidx, weights:T")
    .Outputs("output:T")
    .Attrs("Tidx:type{int32,int64}; T:type{int32,int64,float32,float64}; binary_output:bool=False")
    .Shape(RaggedShape)
    .NotDifferentiable()
    .HostMemory({"splits", "size"})
    .Cpu(ByType<RaggedKernel, int32_t, int64_t, float, double>("T"));

}  // namespace
}  // namespace tandem::counting
