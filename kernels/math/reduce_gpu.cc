// Sum, Mean, Prod, Max and Min on GPUs.
#include "kernels/math/reduce_gpu.h"

#include <algorithm>
#include <array>
#include <memory>

#include "core/base/status.h"
#include "core/op/registry.h"
#include "kernels/common/arguments.h"
#include "kernels/math/elementwise_gpu.h"
#include "kernels/math/reduce_gpu_code.h"

namespace tandem::math {
namespace {

constexpr int64_t kThreads = 256;  // As reduce_gpu.cu.cc has it.
// A piece is not worth a block, or a thread, of its own if it is shorter.
constexpr int64_t kShortestRow = 4 * kThreads;
constexpr int64_t kShortestColumn = 32;

// Sizes of the inner two of three dimensions, and all three strides; the outer ones that are not
// there have size 1.
using Grid = std::array<int64_t, 5>;
Grid GridOf(absl::Span<const ReductionGeometry::Dim> dims) {
  Grid grid = {1, 1, 0, 0, 0};
  const size_t missing = 3 - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t at = missing + i;
    if (at > 0) grid[at - 1] = dims[i].size;
    grid[2 + at] = dims[i].stride;
  }
  // The code takes a grid of one dimension by its first stride.
  if (dims.size() == 1) return {1, 1, dims[0].stride, 0, 0};
  return grid;
}

class ReductionOnGpu final : public Kernel {
 public:
  ReductionOnGpu(const std::string& name, DataType dtype, bool keep_dims, bool is_mean)
      : reduction_(name, dtype), keep_dims_(keep_dims), is_mean_(is_mean) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const SmallInts axes,
                            VectorArgument(c.input(1), "reduction_indices", true));
    TANDEM_ASSIGN_OR_RETURN(const ReductionGeometry geometry,
                            ReductionGeometry::Make(x.shape(), axes, keep_dims_));
    if (geometry.num_reduced == 1) {
      TANDEM_ASSIGN_OR_RETURN(Tensor same, c.TakeInput(0).Reshaped(geometry.output_shape));
      c.SetOutput(0, std::move(same));
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, geometry.output_shape));
    return reduction_.Run(c, geometry, x.data(), y->mutable_data(),
                          is_mean_ ? static_cast<double>(geometry.num_reduced) : 1);
  }

 private:
  const GpuReduction reduction_;
  const bool keep_dims_;
  const bool is_mean_;
};

KernelDef ReductionKernel(const std::string& name, std::vector<DataType> types,
                          bool is_mean = false) {
  KernelDef def;
  def.device = kCuda;
  def.types = {{"T", std::move(types)}};
  def.host_memory = {"reduction_indices"};
  def.factory = [name, is_mean](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<ReductionOnGpu>(name, init.Attr<DataType>("T"),
                                            init.Attr<bool>("keep_dims"), is_mean);
  };
  return def;
}

TANDEM_KERNEL("Sum", ReductionKernel("Sum", kGpuNumbers));
TANDEM_KERNEL("Mean", ReductionKernel("Sum", kGpuFloats, /*is_mean=*/true));
TANDEM_KERNEL("Prod", ReductionKernel("Prod", kGpuNumbers));
TANDEM_KERNEL("Max", ReductionKernel("Max", kGpuNumbers));
TANDEM_KERNEL("Min", ReductionKernel("Min", kGpuNumbers));

}  // namespace

GpuReduction::GpuReduction(const std::string& name, DataType dtype)
    : accumulator_(dtype == kFloat16 || dtype == kBfloat16 ? kFloat32 : dtype),
      rows_name_(absl::StrCat(name, "Rows_", DataTypeName(dtype))),
      columns_name_(absl::StrCat(name, "Columns_", DataTypeName(dtype))),
      finish_name_(absl::StrCat(name, "Finish_", DataTypeName(dtype))),
      rows_{{&kReduceGpuCode, rows_name_.c_str()}},
      columns_{{&kReduceGpuCode, columns_name_.c_str()}},
      finish_{{&kReduceGpuCode, finish_name_.c_str()}} {}

absl::Status GpuReduction::Run(KernelContext& c, const ReductionGeometry& geometry, const void* x,
                               void* y, double divisor) const {
  const int64_t kept = geometry.num_kept;
  const int64_t reduced = geometry.num_reduced;
  if (kept == 0) return absl::OkStatus();
  if (geometry.kept.size() > 3 || geometry.reduced.size() > 3) {
    return errors::Unimplemented(
        "on a GPU a reduction has at most three runs of kept and three of "
        "reduced dimensions");
  }
  GpuQueue& queue = GpuQueueOf(c.device());
  // Enough pieces for all multiprocessors, but none that is hardly worth it.
  const bool in_columns = geometry.inner_is_kept && !geometry.reduced.empty();
  const int64_t shortest = in_columns ? kShortestColumn : kShortestRow;
  const int64_t busy = queue.properties().multiprocessors * (in_columns ? 2048 : 8);
  const int64_t most = std::max<int64_t>(reduced / shortest, 1);
  const int64_t wanted = std::clamp<int64_t>(busy / kept, 1, most);
  const int64_t length = std::max<int64_t>((reduced + wanted - 1) / wanted, 1);
  const int64_t pieces = std::max<int64_t>((reduced + length - 1) / length, 1);

  TANDEM_ASSIGN_OR_RETURN(Tensor partial,
                          c.AllocateTemporary(accumulator_, Shape({pieces * kept})));
  const Grid k = GridOf(geometry.kept);
  const Grid r = GridOf(geometry.reduced);
  const GpuGrid grid =
      in_columns ? GridForElements(queue, kept * pieces) : GridForRows(kept * pieces, kThreads);
  TANDEM_RETURN_IF_ERROR(queue.Run(in_columns ? columns_ : rows_, grid, x, partial.mutable_data(),
                                   kept, reduced, pieces, length, k[0], k[1], k[2], k[3], k[4],
                                   r[0], r[1], r[2], r[3], r[4]));
  return queue.Run(finish_, GridForElements(queue, kept), partial.data(), y, kept, pieces, divisor);
}

}  // namespace tandem::math
