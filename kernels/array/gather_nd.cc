// GatherNd and ScatterNd: slices by index tuples, read and added.
//
// indices [n…, depth] hold n tuples; each names a slice of what is indexed, whose first `depth`
// dimensions it goes through.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/add_elements.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/rows.h"

namespace tandem::array {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// What to do with tuples that lie outside: fail, or leave them out.
absl::StatusOr<bool> IgnoresBadIndices(const std::string& policy) {
  if (policy.empty() || policy == "DEFAULT" || policy == "ERROR") return false;
  if (policy == "IGNORE") return true;
  return errors::InvalidArgument("'bad_indices_policy' is '", policy,
                                 "'; DEFAULT, ERROR and IGNORE are possible");
}

// Index tuples as numbers of slices of a tensor of shape `indexed`.
class Tuples {
 public:
  // REQUIRES: the last dimension of `indices` is at most the rank of `indexed`.
  Tuples(const Tensor& indices, const Shape& indexed) : indices_(indices), indexed_(indexed) {
    depth_ = indices.shape().dim(indices.shape().rank() - 1);
    count_ = Product(indices.shape().dims(), 0, indices.shape().rank() - 1);
    const int depth = static_cast<int>(depth_);
    for (int i = 0; i < depth; ++i) {
      strides_.push_back(Product(indexed.dims(), i + 1, depth));
    }
    slice_size_ = Product(indexed.dims(), depth, indexed.rank());
  }

  int64_t count() const { return count_; }
  int64_t slice_size() const { return slice_size_; }

  // Slices of tuples [begin, begin + n), n <= kIndexBlock; -1 for one that lies outside. Returns
  // the first of those, or -1.
  int64_t Read(int64_t begin, int64_t n, int64_t* slices) const {
    int64_t bad = -1;
    std::fill_n(slices, n, 0);
    int64_t block[kIndexBlock];
    const int64_t at_once = depth_ == 0 ? 0 : std::max<int64_t>(1, kIndexBlock / depth_);
    for (int64_t first = 0; depth_ > 0 && first < n; first += at_once) {
      const int64_t last = std::min(first + at_once, n);
      ReadIndices(indices_, (begin + first) * depth_, (begin + last) * depth_, block);
      for (int64_t i = first; i < last; ++i) {
        for (int64_t d = 0; d < depth_; ++d) {
          const int64_t index = block[(i - first) * depth_ + d];
          if (index < 0 || index >= indexed_.dim(static_cast<int>(d))) {
            if (bad < 0) bad = begin + i;
            slices[i] = -1;
            break;
          }
          slices[i] += index * strides_[static_cast<size_t>(d)];
        }
      }
    }
    return bad;
  }

  absl::Status Outside(int64_t tuple) const {
    std::vector<int64_t> values(static_cast<size_t>(depth_));
    ReadIndices(indices_, tuple * depth_, (tuple + 1) * depth_, values.data());
    return errors::InvalidArgument("index [", absl::StrJoin(values, ","), "] (number ", tuple,
                                   " of indices of shape ", indices_.shape().DebugString(),
                                   ") lies outside shape ", indexed_.DebugString());
  }

 private:
  const Tensor& indices_;
  const Shape& indexed_;
  int64_t depth_ = 0;
  int64_t count_ = 0;
  int64_t slice_size_ = 0;
  Ints strides_;  // In slices.
};

absl::Status CheckDepth(const Shape& indices, const Shape& indexed) {
  if (indices.rank() < 1) {
    return errors::InvalidArgument("'indices' is a scalar; it must have at least one dimension");
  }
  if (indices.dim(indices.rank() - 1) > indexed.rank()) {
    return errors::InvalidArgument("indices of shape ", indices.DebugString(), " hold ",
                                   indices.dim(indices.rank() - 1),
                                   " numbers each; what they index has shape ",
                                   indexed.DebugString(), " of rank ", indexed.rank());
  }
  return absl::OkStatus();
}

// --- GatherNd

absl::Status GatherNdShape(ShapeContext& c) {
  const PartialShape& params = c.input(0);
  const PartialShape& indices = c.input(1);
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(1, 1));
  if (!params.has_rank() || !indices.has_rank() || indices.dim(indices.rank() - 1) == kUnknown) {
    return c.SetOutput(0, PartialShape::Unknown());
  }
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > params.rank()) {
    return errors::InvalidArgument("indices of shape ", indices.DebugString(), " hold ", depth,
                                   " numbers each; params have shape ", params.DebugString(),
                                   " of rank ", params.rank());
  }
  return c.SetOutput(0, Concatenate(Subshape(indices, 0, indices.rank() - 1),
                                    Subshape(params, static_cast<int>(depth), params.rank())));
}

class GatherNdKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(ignore_,
                            IgnoresBadIndices(init.Attr<std::string>("bad_indices_policy")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& params = c.input(0);
    const Tensor& indices = c.input(1);
    if (params.shape().IsScalar()) {
      return errors::InvalidArgument("'params' is a scalar; it must have at least one dimension");
    }
    TANDEM_RETURN_IF_ERROR(CheckDepth(indices.shape(), params.shape()));
    const int rank = indices.shape().rank();
    const int depth = static_cast<int>(indices.shape().dim(rank - 1));
    const absl::Span<const int64_t> outer = indices.shape().dims();
    Ints dims(outer.begin(), outer.end() - 1);
    for (int i = depth; i < params.shape().rank(); ++i) dims.push_back(params.shape().dim(i));
    TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));

    const Tuples tuples(indices, params.shape());
    const DataType dtype = params.dtype();
    const int64_t slice = tuples.slice_size();
    const double cost =
        5 + 2 * depth +
        kNanosecondsPerByte * static_cast<double>(slice) * static_cast<double>(DataTypeSize(dtype));
    // The first tuple outside in each block: so the message does not depend on how the loop was
    // cut.
    const int64_t blocks = (tuples.count() + kIndexBlock - 1) / kIndexBlock;
    std::vector<int64_t> bad(static_cast<size_t>(blocks), -1);
    c.parallel().For(blocks, cost * kIndexBlock, [&](int64_t begin, int64_t end) {
      int64_t slices[kIndexBlock];
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kIndexBlock;
        const int64_t n = std::min(kIndexBlock, tuples.count() - first);
        bad[static_cast<size_t>(block)] = tuples.Read(first, n, slices);
        GatherRows(dtype, ElementAt(dtype, output->mutable_data(), first * slice), params.data(),
                   slice, slices, n);
      }
    });
    if (ignore_) return absl::OkStatus();
    for (const int64_t tuple : bad) {
      if (tuple >= 0) return tuples.Outside(tuple);
    }
    return absl::OkStatus();
  }

 private:
  bool ignore_ = false;
};

// ScatterNd has no int16.
DataType ScatterIndexType(DataType indices) { return indices == kInt64 ? kInt64 : kInt32; }

absl::Status GatherNdGradient(GradientContext& g) {
  const Output params = g.input(0);
  const DataType index = ScatterIndexType(RemoveReference(g.input(1).dtype()));
  const Output indices = CastTo(g, g.input(1), index);
  const PartialShape& shape = indices.valid() ? indices.shape() : PartialShape::Unknown();
  if (shape.has_rank() && shape.rank() == 2 && shape.dim(1) == 1 &&
      g.Attr<std::string>("bad_indices_policy") != "IGNORE") {
    // Whole rows: a sparse gradient.
    g.SetInputGradient(
        0, Gradient(g.OutputGradient(0), Flatten(g, indices), ShapeVector(g, params, index)));
    return absl::OkStatus();
  }
  g.SetInputGradient(
      0, g.Call("ScatterNd", {indices, g.OutputGradient(0), ShapeVector(g, params, index)},
                {{"bad_indices_policy", g.Attr<std::string>("bad_indices_policy")}}));
  return absl::OkStatus();
}

// --- ScatterNd

absl::Status ScatterNdShape(ShapeContext& c) {
  const PartialShape& indices = c.input(0);
  const PartialShape& updates = c.input(1);
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape output, c.InputAsShape(2));
  if (output.has_rank() && indices.has_rank() && updates.has_rank() &&
      indices.dim(indices.rank() - 1) != kUnknown) {
    const int64_t depth = indices.dim(indices.rank() - 1);
    if (depth > output.rank()) {
      return errors::InvalidArgument("indices of shape ", indices.DebugString(), " hold ", depth,
                                     " numbers each; the output has shape ", output.DebugString(),
                                     " of rank ", output.rank());
    }
    const PartialShape wanted =
        Concatenate(Subshape(indices, 0, indices.rank() - 1),
                    Subshape(output, static_cast<int>(depth), output.rank()));
    if (!wanted.IsCompatibleWith(updates)) {
      return errors::InvalidArgument("'updates' has shape ", updates.DebugString(), "; ",
                                     wanted.DebugString(), " is wanted for indices of shape ",
                                     indices.DebugString(), " into shape ", output.DebugString());
    }
  }
  return c.SetOutput(0, output);
}

class ScatterNdKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(ignore_,
                            IgnoresBadIndices(init.Attr<std::string>("bad_indices_policy")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& indices = c.input(0);
    const Tensor& updates = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, ShapeArgument(c.input(2), "shape"));
    TANDEM_RETURN_IF_ERROR(CheckDepth(indices.shape(), shape));
    const int depth = static_cast<int>(indices.shape().dim(indices.shape().rank() - 1));
    const absl::Span<const int64_t> outer = indices.shape().dims();
    Ints wanted(outer.begin(), outer.end() - 1);
    for (int i = depth; i < shape.rank(); ++i) wanted.push_back(shape.dim(i));
    if (updates.shape().dims() != absl::MakeConstSpan(wanted)) {
      return errors::InvalidArgument(
          "'updates' has shape ", updates.shape().DebugString(), "; [", absl::StrJoin(wanted, ","),
          "] is wanted for indices of shape ", indices.shape().DebugString(), " into shape ",
          shape.DebugString());
    }
    const Tuples tuples(indices, shape);
    std::vector<int64_t> slices(static_cast<size_t>(tuples.count()));
    for (int64_t first = 0; first < tuples.count(); first += kIndexBlock) {
      const int64_t n = std::min(kIndexBlock, tuples.count() - first);
      const int64_t bad = tuples.Read(first, n, slices.data() + first);
      if (bad >= 0 && !ignore_) return tuples.Outside(bad);
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    const DataType dtype = updates.dtype();
    ZeroElements(c.parallel(), dtype, output->mutable_data(), output->num_elements());

    // What goes to one place is added in the order of the tuples, whatever the number of threads: a
    // thread takes some columns of all slices.
    constexpr int64_t kColumns = 512;
    const int64_t slice = tuples.slice_size();
    const int64_t blocks = (slice + kColumns - 1) / kColumns;
    const double cost =
        static_cast<double>(tuples.count()) * static_cast<double>(std::min(slice, kColumns));
    c.parallel().For(blocks, cost, [&](int64_t begin, int64_t end) {
      const int64_t column = begin * kColumns;
      const int64_t columns = std::min(end * kColumns, slice) - column;
      for (size_t i = 0; i < slices.size(); ++i) {
        if (slices[i] < 0) continue;
        AddElements(dtype, ElementAt(dtype, output->mutable_data(), slices[i] * slice + column), 1,
                    ElementAt(dtype, updates.data(), static_cast<int64_t>(i) * slice + column), 1,
                    columns);
      }
    });
    return absl::OkStatus();
  }

 private:
  bool ignore_ = false;
};

absl::Status ScatterNdGradient(GradientContext& g) {
  g.SetInputGradient(1,
                     g.Call("GatherNd", {g.OutputGradient(0), g.input(0)},
                            {{"bad_indices_policy", g.Attr<std::string>("bad_indices_policy")}}));
  return absl::OkStatus();
}

TANDEM_OP("GatherNd")
    .Inputs("params:Tparams, indices:Tindices")
    .Outputs("output:Tparams")
    .Attrs("Tparams:type; Tindices:type{int16,int32,int64}; bad_indices_policy:string=\"\"")
    .Shape(GatherNdShape)
    .Gradient(GatherNdGradient)
    .Cpu(Make<GatherNdKernel>("Tparams", AllTypes()));

TANDEM_OP("ScatterNd")
    .Inputs("indices:Tindices, updates:T, shape:Tindices")
    .Outputs("output:T")
    .Attrs("T:type; Tindices:type{int16,int32,int64}; bad_indices_policy:string=\"\"")
    .Shape(ScatterNdShape)
    .Gradient(ScatterNdGradient)
    .HostMemory({"shape"})
    .Cpu(ForTypes("Tindices", {kInt32, kInt64},
                  Make<ScatterNdKernel>("T", AllTypesBut({kResource, kVariant}))));

}  // namespace
}  // namespace tandem::array
