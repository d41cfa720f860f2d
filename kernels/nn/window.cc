#include "kernels/nn/window.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// Larger strides, dilations and paddings are refused, so that products of them cannot overflow.
constexpr int64_t kLimit = int64_t{1} << 31;

absl::Status CheckList(absl::string_view what, const std::vector<int64_t>& list, DataFormat format,
                       absl::StatusCode other) {
  if (list.size() != 4) {
    return errors::InvalidArgument(what, " [", absl::StrJoin(list, ","), "] must have 4 numbers");
  }
  if (list[0] != 1 || list[static_cast<size_t>(ChannelAxis(format))] != 1) {
    return absl::Status(other, absl::StrCat(what, " [", absl::StrJoin(list, ","),
                                            "] of batch and channels must be 1"));
  }
  for (const int64_t x : list) {
    if (x < 1 || x > kLimit) {
      return errors::InvalidArgument(what, " [", absl::StrJoin(list, ","),
                                     "] must be between 1 and ", kLimit);
    }
  }
  return absl::OkStatus();
}

constexpr const char* kAxisNames[] = {"rows", "columns"};

absl::Status DoesNotFit(const WindowDim& d, int64_t extent, int64_t padded,
                        absl::string_view what) {
  return errors::InvalidArgument("a window of ", d.window, " (dilated: ", extent,
                                 ") does not fit into ", padded, " ", what);
}

template <typename Word>
void Transpose(const Word* from, Word* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t c = c0; c < c1; ++c) {
        for (int64_t r = r0; r < r1; ++r) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

template <typename Word>
void TransposeAll(const void* from, void* to, int64_t batch, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < batch; ++i) {
    Transpose(static_cast<const Word*>(from) + i * rows * columns,
              static_cast<Word*>(to) + i * rows * columns, rows, columns);
  }
}

}  // namespace

absl::StatusOr<DataFormat> ParseDataFormat(absl::string_view name) {
  if (name == "NHWC") return DataFormat::kNhwc;
  if (name == "NCHW") return DataFormat::kNchw;
  return errors::Unimplemented("images in the layout ", name,
                               "; there are kernels for NHWC and NCHW");
}

absl::StatusOr<WindowAttrs> WindowAttrs::Parse(const std::string& data_format,
                                               const std::string& padding,
                                               const std::vector<int64_t>& strides,
                                               const std::vector<int64_t>* dilations,
                                               const std::vector<int64_t>* explicit_paddings,
                                               absl::StatusCode other_stride) {
  WindowAttrs a;
  TANDEM_ASSIGN_OR_RETURN(a.format, ParseDataFormat(data_format));
  const auto height = static_cast<size_t>(HeightAxis(a.format));
  TANDEM_RETURN_IF_ERROR(CheckList("strides", strides, a.format, other_stride));
  for (size_t i = 0; i < 2; ++i) a.strides[i] = strides[height + i];
  if (dilations != nullptr) {
    TANDEM_RETURN_IF_ERROR(CheckList("dilations", *dilations, a.format, other_stride));
    for (size_t i = 0; i < 2; ++i) a.dilations[i] = (*dilations)[height + i];
  }
  a.padding = padding == "VALID"  ? Padding::kValid
              : padding == "SAME" ? Padding::kSame
                                  : Padding::kExplicit;
  const bool has_pads = explicit_paddings != nullptr && !explicit_paddings->empty();
  if (a.padding != Padding::kExplicit) {
    if (has_pads) {
      return errors::InvalidArgument("explicit_paddings must be empty when padding is ", padding);
    }
    return a;
  }
  if (!has_pads || explicit_paddings->size() != 8) {
    return errors::InvalidArgument(
        "explicit_paddings must have 8 numbers when padding is EXPLICIT, not [",
        has_pads ? absl::StrJoin(*explicit_paddings, ",") : "", "]");
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    for (size_t side = 0; side < 2; ++side) {
      const int64_t pad = (*explicit_paddings)[2 * axis + side];
      const bool spatial = axis == height || axis == height + 1;
      if (pad < 0 || pad > kLimit || (!spatial && pad != 0)) {
        return errors::InvalidArgument("explicit_paddings [",
                                       absl::StrJoin(*explicit_paddings, ","),
                                       "] may not be negative, and not positive for batch and "
                                       "channels");
      }
      if (spatial) a.pads[axis - height][side] = pad;
    }
  }
  return a;
}

absl::StatusOr<WindowDim> PlaceWindow(WindowDim d, Padding padding, const int64_t pads[2],
                                      absl::string_view what) {
  if (d.window < 1 || d.window > kLimit || d.input < 0 || d.input > kLimit) {
    return errors::InvalidArgument("a window of ", d.window, " cannot move over ", d.input, " ",
                                   what);
  }
  const int64_t extent = (d.window - 1) * d.dilation + 1;
  if (padding == Padding::kSame) {
    d.output = (d.input + d.stride - 1) / d.stride;
    const int64_t pad = std::max<int64_t>(0, (d.output - 1) * d.stride + extent - d.input);
    d.pad_before = pad / 2;
    d.pad_after = pad - d.pad_before;
    return d;
  }
  d.pad_before = padding == Padding::kExplicit ? pads[0] : 0;
  d.pad_after = padding == Padding::kExplicit ? pads[1] : 0;
  const int64_t padded = d.input + d.pad_before + d.pad_after;
  if (padded <= extent - 2 * d.stride) return DoesNotFit(d, extent, padded, what);
  // The division rounds towards zero.
  d.output = (padded - extent + d.stride) / d.stride;
  return d;
}

absl::StatusOr<int64_t> WindowOutputSize(WindowDim d, Padding padding, const int64_t pads[2],
                                         absl::string_view what) {
  if (d.input < 0 || (d.window < 0 && padding != Padding::kSame)) return PartialShape::kUnknownDim;
  d.window = d.window < 0 ? 1 : d.window;
  TANDEM_ASSIGN_OR_RETURN(const WindowDim placed, PlaceWindow(d, padding, pads, what));
  const int64_t extent = (placed.window - 1) * placed.dilation + 1;
  const int64_t padded = placed.input + placed.pad_before + placed.pad_after;
  if (padded < extent) return DoesNotFit(placed, extent, padded, what);
  return placed.output;
}

absl::StatusOr<WindowDim> WindowAttrs::Along(int axis, int64_t input, int64_t window) const {
  return PlaceWindow({input, window, strides[axis], dilations[axis]}, padding, pads[axis],
                     kAxisNames[axis]);
}

absl::StatusOr<int64_t> WindowAttrs::OutputSize(int axis, int64_t input, int64_t window) const {
  return WindowOutputSize({input, window, strides[axis], dilations[axis]}, padding, pads[axis],
                          kAxisNames[axis]);
}

void TransposeImages(const void* from, void* to, int64_t batch, int64_t rows, int64_t columns,
                     size_t element_size) {
  switch (element_size) {
    case 2:
      return TransposeAll<uint16_t>(from, to, batch, rows, columns);
    case 4:
      return TransposeAll<uint32_t>(from, to, batch, rows, columns);
    default:
      return TransposeAll<uint64_t>(from, to, batch, rows, columns);
  }
}

}  // namespace tandem
