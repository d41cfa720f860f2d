#include "kernels/nn/volume.h"

#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;
constexpr const char* kAxisNames[] = {"layers", "rows", "columns"};
constexpr int64_t kNoPads[2] = {0, 0};

// The three of five numbers that are for depth, height and width.
absl::Status Read(absl::string_view what, const std::vector<int64_t>& list, DataFormat format,
                  absl::StatusCode other, int64_t to[3]) {
  const auto text = [&] { return absl::StrCat(what, " [", absl::StrJoin(list, ","), "]"); };
  if (list.size() != 5) return errors::InvalidArgument(text(), " must have 5 numbers");
  for (const int64_t x : list) {
    if (x < 1 || x > kLimit) {
      return errors::InvalidArgument(text(), " must be between 1 and ", kLimit);
    }
  }
  if (list[0] != 1 || list[static_cast<size_t>(VolumeChannelAxis(format))] != 1) {
    return absl::Status(other, absl::StrCat(text(), " of batch and channels must be 1"));
  }
  for (int axis = 0; axis < 3; ++axis) {
    to[axis] = list[static_cast<size_t>(VolumeAxis(format, axis))];
  }
  return absl::OkStatus();
}

int64_t Voxels(const Shape& volumes) { return volumes.dim(2) * volumes.dim(3) * volumes.dim(4); }

}  // namespace

absl::StatusOr<VolumeAttrs> VolumeAttrs::Parse(const std::string& data_format,
                                               const std::string& padding,
                                               const std::vector<int64_t>& strides,
                                               const std::vector<int64_t>* dilations,
                                               const std::vector<int64_t>* ksize,
                                               absl::StatusCode other) {
  VolumeAttrs a;
  a.format = data_format == "NCDHW" ? DataFormat::kNchw : DataFormat::kNhwc;
  a.padding = padding == "VALID" ? Padding::kValid : Padding::kSame;
  TANDEM_RETURN_IF_ERROR(Read("strides", strides, a.format, other, a.strides));
  if (dilations != nullptr) {
    TANDEM_RETURN_IF_ERROR(Read("dilations", *dilations, a.format, other, a.dilations));
  }
  if (ksize != nullptr) {
    TANDEM_RETURN_IF_ERROR(Read("ksize", *ksize, a.format, other, a.size));
  }
  return a;
}

absl::StatusOr<WindowDim> VolumeAttrs::Along(int axis, int64_t input, int64_t window) const {
  return PlaceWindow({input, window, strides[axis], dilations[axis]}, padding, kNoPads,
                     kAxisNames[axis]);
}

absl::StatusOr<int64_t> VolumeAttrs::OutputSize(int axis, int64_t input, int64_t window) const {
  return WindowOutputSize({input, window, strides[axis], dilations[axis]}, padding, kNoPads,
                          kAxisNames[axis]);
}

absl::StatusOr<Tensor> WithChannelsLast(KernelContext& c, const Tensor& volumes,
                                        DataFormat format) {
  if (format == DataFormat::kNhwc) return volumes;
  const Shape& s = volumes.shape();
  TANDEM_ASSIGN_OR_RETURN(
      Tensor last, c.AllocateTemporary(volumes.dtype(),
                                       Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(4), s.dim(1)})));
  TransposeImages(volumes.data(), last.mutable_data(), s.dim(0), s.dim(1), Voxels(s),
                  DataTypeSize(volumes.dtype()));
  return last;
}

void FromChannelsLast(const Tensor& channels_last, DataFormat format, Tensor& volumes) {
  if (format == DataFormat::kNhwc) return;
  const Shape& s = volumes.shape();
  TransposeImages(channels_last.data(), volumes.mutable_data(), s.dim(0), Voxels(s), s.dim(1),
                  DataTypeSize(volumes.dtype()));
}

absl::StatusOr<Shape> VolumeSizes(const Tensor& sizes, absl::string_view name) {
  if (!sizes.shape().IsVector() || sizes.num_elements() != 5) {
    return errors::InvalidArgument(name, " must be a vector of 5 sizes, not a tensor of shape ",
                                   sizes.shape().DebugString());
  }
  Shape::Dims dims;
  if (sizes.dtype() == kInt64) {
    for (const int64_t size : sizes.Elements<int64_t>()) dims.push_back(size);
  } else {
    for (const int32_t size : sizes.Elements<int32_t>()) dims.push_back(size);
  }
  return Shape::FromDims(dims);
}

}  // namespace tandem
