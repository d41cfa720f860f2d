#include "kernels/nn/volume_pool.h"

#include "core/base/status.h"

namespace tandem {

absl::StatusOr<VolumePool> VolumePool::Make(const VolumeAttrs& attrs, const Shape& input) {
  if (input.rank() != 5) {
    return errors::InvalidArgument("volumes must have rank 5, not shape ", input.DebugString());
  }
  VolumePool p;
  p.batch = input.dim(0);
  p.channels = input.dim(VolumeChannelAxis(attrs.format));
  WindowDim* const dims[] = {&p.depth, &p.height, &p.width};
  for (int axis = 0; axis < 3; ++axis) {
    TANDEM_ASSIGN_OR_RETURN(
        *dims[axis],
        attrs.Along(axis, input.dim(VolumeAxis(attrs.format, axis)), attrs.size[axis]));
  }
  TANDEM_ASSIGN_OR_RETURN(
      p.output, Shape::FromDims(VolumeDims(attrs.format, p.batch, p.depth.output, p.height.output,
                                           p.width.output, p.channels)));
  if (attrs.format == DataFormat::kNchw) {
    p.batch *= p.channels;
    p.channels = 1;
  }
  return p;
}

absl::Status VolumePoolShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const VolumeAttrs attrs, VolumePoolAttrs(c));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 5));
  const PartialShape input = c.input(0).has_rank() ? c.input(0) : PartialShape::UnknownOfRank(5);
  int64_t sizes[3];
  for (int axis = 0; axis < 3; ++axis) {
    TANDEM_ASSIGN_OR_RETURN(
        sizes[axis],
        attrs.OutputSize(axis, input.dim(VolumeAxis(attrs.format, axis)), attrs.size[axis]));
  }
  return c.SetOutput(0, PartialShape(absl::MakeConstSpan(
                            VolumeDims(attrs.format, input.dim(0), sizes[0], sizes[1], sizes[2],
                                       input.dim(VolumeChannelAxis(attrs.format))))));
}

}  // namespace tandem
