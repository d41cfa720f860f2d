#include "kernels/common/reduction.h"

#include <algorithm>

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<ReductionGeometry> ReductionGeometry::Make(const Shape& input,
                                                          absl::Span<const int64_t> axes,
                                                          bool keep_dims) {
  const int rank = input.rank();
  absl::InlinedVector<bool, 8> goes(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      return errors::InvalidArgument("cannot reduce along axis ", axis, ": the input has shape ",
                                     input.DebugString(), ", whose axes are [", -rank, ", ", rank,
                                     ")");
    }
    const size_t d = static_cast<size_t>(axis < 0 ? axis + rank : axis);
    if (goes[d]) {
      return errors::InvalidArgument("axis ", axis,
                                     " is reduced twice; each axis may be named once");
    }
    goes[d] = true;
  }

  ReductionGeometry g;
  Shape::Dims out;
  for (int d = 0; d < rank; ++d) {
    const bool reduced = goes[static_cast<size_t>(d)];
    (reduced ? g.num_reduced : g.num_kept) *= input.dim(d);
    if (!reduced) {
      out.push_back(input.dim(d));
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(g.output_shape, Shape::FromDims(out));
  if (g.num_kept == 0 || g.num_reduced == 0) return g;

  int64_t stride = 1;
  int previous = -1;  // 0: kept, 1: reduced.
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t size = input.dim(d);
    if (size == 1) continue;
    const bool reduced = goes[static_cast<size_t>(d)];
    if (previous < 0) g.inner_is_kept = !reduced;
    auto& list = reduced ? g.reduced : g.kept;
    if (previous == static_cast<int>(reduced)) {
      list.back().size *= size;
    } else {
      list.push_back({size, stride});
    }
    previous = reduced;
    stride *= size;
  }
  std::reverse(g.kept.begin(), g.kept.end());
  std::reverse(g.reduced.begin(), g.reduced.end());
  return g;
}

int64_t GridOffset(absl::Span<const ReductionGeometry::Dim> dims, int64_t index) {
  if (dims.empty()) return 0;
  int64_t offset = 0;
  for (size_t d = dims.size(); --d > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset + index * dims[0].stride;
}

}  // namespace tandem
