// SparseCross, SparseCrossV2, SparseCrossHashed and RaggedCross: the features of several columns
// crossed, as texts or as hashes. Hashes are those of TensorFlow, since models are trained with
// the buckets that they lead to.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/ragged/crosser.h"
#include "kernels/ragged/splits.h"

namespace tandem::ragged {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;
constexpr char kSeparator[] = "_X_";

absl::Status SparseShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({kUnknown, 2})));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, PartialShape({kUnknown})));
  return c.SetOutput(2, PartialShape({2}));
}

absl::Status RaggedShape(ShapeContext& c) {
  const auto ragged = static_cast<int>(c.Attr<std::vector<DataType>>("ragged_values_types").size());
  const auto sparse = static_cast<int>(c.Attr<int64_t>("Nsparse"));
  const auto dense = static_cast<int>(c.Attr<std::vector<DataType>>("dense_types").size());
  for (int i = 0; i < ragged; ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(ragged + i, 1));
  for (int i = 0; i < sparse; ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRank(2 * ragged + i, 2));
    TANDEM_RETURN_IF_ERROR(c.RequireRank(2 * ragged + sparse + i, 1));
    TANDEM_RETURN_IF_ERROR(c.RequireRank(2 * ragged + 2 * sparse + i, 1));
  }
  for (int i = 0; i < dense; ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRank(2 * ragged + 3 * sparse + i, 2));
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({kUnknown})));
  return c.SetOutput(1, PartialShape({kUnknown}));
}

// Where each cross of a sparse result lies, and the shape of the result.
absl::Status SetIndices(KernelContext& c, const Crosser& crosser) {
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({crosser.num_crosses(), int64_t{2}}));
  TANDEM_ASSIGN_OR_RETURN(Tensor * indices, c.AllocateOutput(0, shape));
  int64_t* next = indices->MutableElements<int64_t>().data();
  int64_t longest = 0;
  for (int64_t row = 0; row < crosser.num_rows(); ++row) {
    const auto at = static_cast<size_t>(row);
    const int64_t count = crosser.splits()[at + 1] - crosser.splits()[at];
    longest = std::max(longest, count);
    for (int64_t i = 0; i < count; ++i) {
      *next++ = row;
      *next++ = i;
    }
  }
  c.SetOutput(2, Tensor::Vector<int64_t>({crosser.num_rows(), longest}));
  return absl::OkStatus();
}

// How many sparse and dense inputs there are.
class SparseCrossBase : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    sparse_ = static_cast<int>(init.Attr<int64_t>("N"));
    dense_ = static_cast<int>(init.Attr<std::vector<DataType>>("dense_types").size());
    if (init.Attr<std::vector<DataType>>("sparse_types").size() != static_cast<size_t>(sparse_)) {
      return errors::InvalidArgument("there are indices of ", sparse_, " sparse inputs, and values",
                                     " of ",
                                     init.Attr<std::vector<DataType>>("sparse_types").size());
    }
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<Crosser> Cross(const KernelContext& c) const {
    TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureColumn> columns,
                            SparseAndDenseColumns(c, 0, sparse_, dense_));
    return Crosser::Make(std::move(columns));
  }
  int after_columns() const { return 3 * sparse_ + dense_; }

 private:
  int sparse_ = 0;
  int dense_ = 0;
};

class SparseCrossKernel final : public SparseCrossBase {
 public:
  absl::Status Init(KernelInit& init) {
    hashed_ = init.Attr<bool>("hashed_output");
    buckets_ = static_cast<uint64_t>(init.Attr<int64_t>("num_buckets"));
    key_ = static_cast<uint64_t>(init.Attr<int64_t>("hash_key"));
    const bool texts_only = init.Attr<DataType>("internal_type") == kString;
    for (const char* const attr : {"sparse_types", "dense_types"}) {
      for (const DataType found : init.Attr<std::vector<DataType>>(attr)) {
        if (!texts_only || found == kString) continue;
        return errors::InvalidArgument(attr, " has ", DataTypeName(found), " and internal_type is",
                                       " string; all features must be strings then");
      }
    }
    const DataType type = init.Attr<DataType>("out_type");
    if ((type == kInt64) != hashed_) {
      return errors::InvalidArgument("out_type is ", DataTypeName(type), " and hashed_output ",
                                     hashed_, "; hashes are int64, texts strings");
    }
    return SparseCrossBase::Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Crosser crosser, Cross(c));
    TANDEM_RETURN_IF_ERROR(SetIndices(c, crosser));
    TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(1, Shape({crosser.num_crosses()})));
    if (hashed_) {
      crosser.Hashes({.first = key_, .buckets = buckets_}, values);
    } else {
      crosser.Texts(kSeparator, values);
    }
    return absl::OkStatus();
  }

 private:
  bool hashed_ = false;
  uint64_t buckets_ = 0;
  uint64_t key_ = 0;
};

class SparseCrossV2Kernel final : public SparseCrossBase {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& separator = c.input(after_columns());
    if (!separator.shape().IsScalar()) {
      return errors::InvalidArgument("sep has shape ", separator.shape().DebugString(),
                                     "; it must be a scalar");
    }
    TANDEM_ASSIGN_OR_RETURN(const Crosser crosser, Cross(c));
    TANDEM_RETURN_IF_ERROR(SetIndices(c, crosser));
    TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(1, Shape({crosser.num_crosses()})));
    crosser.Texts(separator.Elements<std::string>()[0], values);
    return absl::OkStatus();
  }
};

class SparseCrossHashedKernel final : public SparseCrossBase {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const int64_t buckets,
                            ScalarArgument(c.input(after_columns()), "num_buckets"));
    const Tensor& strong = c.input(after_columns() + 1);
    const Tensor& salt = c.input(after_columns() + 2);
    if (!strong.shape().IsScalar()) {
      return errors::InvalidArgument("strong_hash has shape ", strong.shape().DebugString(),
                                     "; it must be a scalar");
    }
    if (!salt.shape().IsVector() || salt.num_elements() != 2) {
      return errors::InvalidArgument("salt has shape ", salt.shape().DebugString(),
                                     "; it must be two numbers");
    }
    TANDEM_ASSIGN_OR_RETURN(const Crosser crosser, Cross(c));
    TANDEM_RETURN_IF_ERROR(SetIndices(c, crosser));
    TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(1, Shape({crosser.num_crosses()})));
    const auto numbers = salt.Elements<int64_t>();
    Crosser::HashOptions options;
    // The salt is the key; without a strong hash it does nothing.
    if (strong.Elements<bool>()[0]) {
      options.key = {static_cast<uint64_t>(numbers[0]), static_cast<uint64_t>(numbers[1])};
    }
    options.hashes_numbers = true;
    options.buckets = buckets > 0 ? static_cast<uint64_t>(buckets) : 0;
    crosser.Hashes(options, values);
    return absl::OkStatus();
  }
};

class RaggedCrossKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    ragged_ = static_cast<int>(init.Attr<std::vector<DataType>>("ragged_values_types").size());
    sparse_ = static_cast<int>(init.Attr<int64_t>("Nsparse"));
    dense_ = static_cast<int>(init.Attr<std::vector<DataType>>("dense_types").size());
    order_ = init.Attr<std::string>("input_order");
    hashed_ = init.Attr<bool>("hashed_output");
    buckets_ = static_cast<uint64_t>(init.Attr<int64_t>("num_buckets"));
    key_ = static_cast<uint64_t>(init.Attr<int64_t>("hash_key"));
    const auto count = [this](char kind) {
      return static_cast<int>(std::count(order_.begin(), order_.end(), kind));
    };
    if (count('R') != ragged_ || count('S') != sparse_ || count('D') != dense_ ||
        order_.size() != static_cast<size_t>(ragged_ + sparse_ + dense_)) {
      return errors::InvalidArgument("input_order is '", order_, "'; there are ", ragged_,
                                     " ragged inputs (R), ", sparse_, " sparse ones (S) and ",
                                     dense_, " dense ones (D)");
    }
    if (init.Attr<std::vector<DataType>>("ragged_splits_types").size() !=
            static_cast<size_t>(ragged_) ||
        init.Attr<std::vector<DataType>>("sparse_values_types").size() !=
            static_cast<size_t>(sparse_)) {
      return errors::InvalidArgument("each ragged input has values and splits, and each sparse one",
                                     " indices, values and a shape");
    }
    const DataType type = init.Attr<DataType>("out_values_type");
    if ((type == kInt64) != hashed_) {
      return errors::InvalidArgument("out_values_type is ", DataTypeName(type),
                                     " and hashed_output ", hashed_,
                                     "; hashes are int64, texts strings");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    std::vector<FeatureColumn> ragged;
    int64_t batch = -1;
    for (int i = 0; i < ragged_; ++i) {
      const std::string name = absl::StrCat("ragged_row_splits[", i, "]");
      FeatureColumn column;
      column.values = c.input(i);
      TANDEM_ASSIGN_OR_RETURN(column.starts, ReadSplits(c.input(ragged_ + i), name));
      if (!column.values.shape().IsVector()) {
        return errors::InvalidArgument("ragged_values[", i, "] has shape ",
                                       column.values.shape().DebugString(),
                                       "; it must be a vector");
      }
      TANDEM_RETURN_IF_ERROR(CheckEnd(column.starts, name, column.values.num_elements()));
      if (batch >= 0 && NumRows(column.starts) != batch) {
        return errors::InvalidArgument(name, " has ", NumRows(column.starts),
                                       " rows; the first input has ", batch);
      }
      batch = NumRows(column.starts);
      ragged.push_back(std::move(column));
    }
    TANDEM_ASSIGN_OR_RETURN(std::vector<FeatureColumn> others,
                            SparseAndDenseColumns(c, 2 * ragged_, sparse_, dense_, batch));
    std::vector<FeatureColumn> columns;
    size_t next_ragged = 0;
    size_t next_sparse = 0;
    auto next_dense = static_cast<size_t>(sparse_);
    for (const char kind : order_) {
      columns.push_back(kind == 'R'   ? std::move(ragged[next_ragged++])
                        : kind == 'S' ? std::move(others[next_sparse++])
                                      : std::move(others[next_dense++]));
    }
    TANDEM_ASSIGN_OR_RETURN(const Crosser crosser, Crosser::Make(std::move(columns)));
    TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(0, Shape({crosser.num_crosses()})));
    TANDEM_ASSIGN_OR_RETURN(Tensor * splits, c.AllocateOutput(1, Shape({crosser.num_rows() + 1})));
    if (hashed_) {
      crosser.Hashes({.first = key_, .buckets = buckets_}, values);
    } else {
      crosser.Texts(kSeparator, values);
    }
    return WriteSplits(crosser.splits(), splits);
  }

 private:
  int ragged_ = 0;
  int sparse_ = 0;
  int dense_ = 0;
  std::string order_;
  bool hashed_ = false;
  uint64_t buckets_ = 0;
  uint64_t key_ = 0;
};

TANDEM_OP("SparseCross")
    .Inputs("indices:N*int64, values:sparse_types, shapes:N*int64, dense_inputs:dense_types")
    .Outputs("output_indices:int64, output_values:out_type, output_shape:int64")
    .Attrs(
        "N:int>=0; hashed_output:bool; num_buckets:int>=0; hash_key:int; "
        "sparse_types:list(type){int64,string}>=0; dense_types:list(type){int64,string}>=0; "
        "out_type:type{int64,string}; internal_type:type{int64,string}")
    .Shape(SparseShape)
    .HostMemory({"indices", "values", "shapes", "dense_inputs", "output_indices", "output_values",
                 "output_shape"})
    .Cpu(Make<SparseCrossKernel>());

TANDEM_OP("SparseCrossV2")
    .Inputs(
        "indices:N*int64, values:sparse_types, shapes:N*int64, dense_inputs:dense_types, "
        "sep:string")
    .Outputs("output_indices:int64, output_values:string, output_shape:int64")
    .Attrs(
        "N:int>=0; sparse_types:list(type){int64,string}>=0; "
        "dense_types:list(type){int64,string}>=0")
    .Shape(SparseShape)
    .HostMemory({"indices", "values", "shapes", "dense_inputs", "sep", "output_indices",
                 "output_values", "output_shape"})
    .Cpu(Make<SparseCrossV2Kernel>());

TANDEM_OP("SparseCrossHashed")
    .Inputs(
        "indices:N*int64, values:sparse_types, shapes:N*int64, dense_inputs:dense_types, "
        "num_buckets:int64, strong_hash:bool, salt:int64")
    .Outputs("output_indices:int64, output_values:int64, output_shape:int64")
    .Attrs(
        "N:int>=0; sparse_types:list(type){int64,string}>=0; "
        "dense_types:list(type){int64,string}>=0")
    .Shape(SparseShape)
    .HostMemory({"indices", "values", "shapes", "dense_inputs", "num_buckets", "strong_hash",
                 "salt", "output_indices", "output_values", "output_shape"})
    .Cpu(Make<SparseCrossHashedKernel>());

TANDEM_OP("RaggedCross")
    .Inputs(
        "ragged_values:ragged_values_types, ragged_row_splits:ragged_splits_types, "
        "sparse_indices:Nsparse*int64, sparse_values:sparse_values_types, "
        "sparse_shape:Nsparse*int64, dense_inputs:dense_types")
    .Outputs("output_values:out_values_type, output_row_splits:out_row_splits_type")
    .Attrs(
        "Nsparse:int>=0; input_order:string; hashed_output:bool; num_buckets:int>=0; hash_key:int; "
        "ragged_values_types:list(type){int64,string}>=0; "
        "ragged_splits_types:list(type){int32,int64}>=0; "
        "sparse_values_types:list(type){int64,string}>=0; "
        "dense_types:list(type){int64,string}>=0; out_values_type:type{int64,string}; "
        "out_row_splits_type:type{int32,int64}")
    .Shape(RaggedShape)
    .HostMemory({"ragged_values", "ragged_row_splits", "sparse_indices", "sparse_values",
                 "sparse_shape", "dense_inputs", "output_values", "output_row_splits"})
    .Cpu(Make<RaggedCrossKernel>());

}  // namespace
}  // namespace tandem::ragged
