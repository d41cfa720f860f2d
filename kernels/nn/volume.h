// Windows that move over volumes: what Conv3D and the pools over volumes share. See window.h for
// images.
#ifndef TANDEM_KERNELS_NN_VOLUME_H_
#define TANDEM_KERNELS_NN_VOLUME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "kernels/nn/window.h"

namespace tandem {

// How a volume lies in memory is said by the format of its images: NHWC for [batch, depth, height,
// width, channels], NCHW for [batch, channels, depth, height, width].
inline int VolumeChannelAxis(DataFormat f) { return f == DataFormat::kNhwc ? 4 : 1; }
// The dimension of depth (axis 0), height (1) or width (2).
inline int VolumeAxis(DataFormat f, int axis) { return (f == DataFormat::kNhwc ? 1 : 2) + axis; }

inline Shape::Dims VolumeDims(DataFormat format, int64_t batch, int64_t depth, int64_t height,
                              int64_t width, int64_t channels) {
  if (format == DataFormat::kNhwc) return {batch, depth, height, width, channels};
  return {batch, channels, depth, height, width};
}

// Attributes of an op with windows, for depth (0), height (1) and width (2).
struct VolumeAttrs {
  DataFormat format = DataFormat::kNhwc;
  Padding padding = Padding::kValid;
  int64_t strides[3] = {1, 1, 1};
  int64_t dilations[3] = {1, 1, 1};
  int64_t size[3] = {1, 1, 1};  // Of a pool's window.

  // `dilations` and `ksize` may be null. InvalidArgument: lists of another length than 5, numbers
  // out of range. `other`: a stride, dilation or window over batch or channels is not 1.
  static absl::StatusOr<VolumeAttrs> Parse(const std::string& data_format,
                                           const std::string& padding,
                                           const std::vector<int64_t>& strides,
                                           const std::vector<int64_t>* dilations,
                                           const std::vector<int64_t>* ksize,
                                           absl::StatusCode other);

  // PlaceWindow and WindowOutputSize of window.h.
  absl::StatusOr<WindowDim> Along(int axis, int64_t input, int64_t window) const;
  absl::StatusOr<int64_t> OutputSize(int axis, int64_t input, int64_t window) const;
};

// `volumes` with the channels last, sharing memory if they are already.
absl::StatusOr<Tensor> WithChannelsLast(KernelContext& c, const Tensor& volumes, DataFormat format);
// The way back, into an output.
void FromChannelsLast(const Tensor& channels_last, DataFormat format, Tensor& volumes);

// A vector of 5 sizes, int32 or int64, as a shape. InvalidArgument: it is none.
absl::StatusOr<Shape> VolumeSizes(const Tensor& sizes, absl::string_view name);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_VOLUME_H_
