// The geometry of pooling over volumes, for max_pool_3d.cc and avg_pool_3d.cc.
#ifndef TANDEM_KERNELS_NN_VOLUME_POOL_H_
#define TANDEM_KERNELS_NN_VOLUME_POOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/op/shape_context.h"
#include "kernels/nn/pool.h"
#include "kernels/nn/volume.h"

namespace tandem {

// As kernels see it, whatever the layout: [batch, depth, height, width, channels]. With channels
// second every channel counts as a volume of one channel.
struct VolumePool {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim depth;
  WindowDim height;
  WindowDim width;
  Shape output;  // In the tensor's own layout.

  // InvalidArgument: not a shape of rank 5, or smaller than the window.
  static absl::StatusOr<VolumePool> Make(const VolumeAttrs& attrs, const Shape& input);

  int64_t InputVolume() const { return depth.input * height.input * width.input * channels; }
  int64_t OutputVolume() const { return depth.output * height.output * width.output * channels; }
  // Of one volume, in nanoseconds, when an element of a window takes `per_element`.
  double Cost(double per_element) const {
    return per_element * static_cast<double>(OutputVolume()) *
           static_cast<double>(depth.window * height.window * width.window);
  }
};

// The part of a window that lies on the volume.
struct Block {
  Span layers;
  Span rows;
  Span columns;

  int64_t size() const {
    return (layers.end - layers.begin) * (rows.end - rows.begin) * (columns.end - columns.begin);
  }
  // Calls f(offset of the voxel in the volume) for each voxel, in the order of memory.
  template <typename F>
  void ForEachVoxel(const VolumePool& p, F f) const {
    for (int64_t h = layers.begin; h < layers.end; ++h) {
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          f(((h * p.height.input + i) * p.width.input + j) * p.channels);
        }
      }
    }
  }
};

// Calls f(offset of the output's voxel in its volume, block) for all windows of a volume.
template <typename F>
void ForEachWindow(const VolumePool& p, F f) {
  int64_t out = 0;
  for (int64_t h = 0; h < p.depth.output; ++h) {
    for (int64_t i = 0; i < p.height.output; ++i) {
      for (int64_t j = 0; j < p.width.output; ++j, out += p.channels) {
        f(out, Block{Covered(p.depth, h), Covered(p.height, i), Covered(p.width, j)});
      }
    }
  }
}

// From a KernelInit or a ShapeContext.
template <typename Context>
absl::StatusOr<VolumeAttrs> VolumePoolAttrs(const Context& c) {
  return VolumeAttrs::Parse(
      c.template Attr<std::string>("data_format"), c.template Attr<std::string>("padding"),
      c.template Attr<std::vector<int64_t>>("strides"), nullptr,
      &c.template Attr<std::vector<int64_t>>("ksize"), absl::StatusCode::kUnimplemented);
}

// The shape function of MaxPool3D and AvgPool3D.
absl::Status VolumePoolShape(ShapeContext& c);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_VOLUME_POOL_H_
