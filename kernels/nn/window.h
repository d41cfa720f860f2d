// Windows that move over images: the arithmetic that convolutions and pooling share, for their
// shape functions and their kernels.
#ifndef TANDEM_KERNELS_NN_WINDOW_H_
#define TANDEM_KERNELS_NN_WINDOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tandem {

// How four-dimensional images lie in memory: [batch, height, width, channels] or
// [batch, channels, height, width].
enum class DataFormat { kNhwc, kNchw };

// Where the dimensions are.
inline int ChannelAxis(DataFormat f) { return f == DataFormat::kNhwc ? 3 : 1; }
inline int HeightAxis(DataFormat f) { return f == DataFormat::kNhwc ? 1 : 2; }
inline int WidthAxis(DataFormat f) { return HeightAxis(f) + 1; }

// Unimplemented: another layout, such as NCHW_VECT_C.
absl::StatusOr<DataFormat> ParseDataFormat(absl::string_view name);

enum class Padding { kValid, kSame, kExplicit };

// How a window moves along one dimension. Output `o` sees inputs o * stride - pad_before +
// i * dilation for i in [0, window); those outside of the input count as padding.
struct WindowDim {
  int64_t input = 0;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t output = 0;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
};

// The window of `window` elements with the stride and dilation of `d` over `input` elements;
// `pads`, before and after, are those of explicit padding. A window that is too large by less than
// a stride has no output, as TensorFlow counts. InvalidArgument: it is too large by more; `what`
// names the elements ("rows").
absl::StatusOr<WindowDim> PlaceWindow(WindowDim d, Padding padding, const int64_t pads[2],
                                      absl::string_view what);
// The same for shape functions, -1 when `d.input` or `d.window` is unknown (-1). They refuse every
// window that is too large, as TensorFlow's do.
absl::StatusOr<int64_t> WindowOutputSize(WindowDim d, Padding padding, const int64_t pads[2],
                                         absl::string_view what);

// The attributes of an op with windows, for height (0) and width (1).
struct WindowAttrs {
  DataFormat format = DataFormat::kNhwc;
  Padding padding = Padding::kValid;
  int64_t strides[2] = {1, 1};
  int64_t dilations[2] = {1, 1};
  int64_t pads[2][2] = {};  // Of explicit padding: before and after.

  // The attributes as nodes hold them; `dilations` and `explicit_paddings` may be null.
  // InvalidArgument: lists of another length than the rank, numbers out of range.
  // `other_stride`: a stride or dilation of batch or channels is not 1.
  static absl::StatusOr<WindowAttrs> Parse(const std::string& data_format,
                                           const std::string& padding,
                                           const std::vector<int64_t>& strides,
                                           const std::vector<int64_t>* dilations,
                                           const std::vector<int64_t>* explicit_paddings,
                                           absl::StatusCode other_stride);

  // PlaceWindow along height (axis 0) or width (axis 1).
  absl::StatusOr<WindowDim> Along(int axis, int64_t input, int64_t window) const;
  // WindowOutputSize, likewise.
  absl::StatusOr<int64_t> OutputSize(int axis, int64_t input, int64_t window) const;
};

// Parse with the attributes of a node: anything with a method Attr<T>(name), that is, a KernelInit
// or a ShapeContext.
template <typename Context>
absl::StatusOr<WindowAttrs> ConvolutionAttrs(const Context& c, absl::StatusCode other_stride) {
  return WindowAttrs::Parse(
      c.template Attr<std::string>("data_format"), c.template Attr<std::string>("padding"),
      c.template Attr<std::vector<int64_t>>("strides"),
      &c.template Attr<std::vector<int64_t>>("dilations"),
      &c.template Attr<std::vector<int64_t>>("explicit_paddings"), other_stride);
}

// An image's shape in the given layout.
inline Shape::Dims ImageDims(DataFormat format, int64_t batch, int64_t height, int64_t width,
                             int64_t channels) {
  if (format == DataFormat::kNhwc) return {batch, height, width, channels};
  return {batch, channels, height, width};
}

// Copies images between the layouts: `from` is [batch, rows, columns], `to` [batch, columns, rows].
// For elements of 2, 4 and 8 bytes.
void TransposeImages(const void* from, void* to, int64_t batch, int64_t rows, int64_t columns,
                     size_t element_size);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_WINDOW_H_
