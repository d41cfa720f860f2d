// The geometry of pooling, for the ops of max_pool.cc and avg_pool.cc.
#ifndef TANDEM_KERNELS_NN_POOL_H_
#define TANDEM_KERNELS_NN_POOL_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/op/shape_context.h"
#include "core/tensor/shape.h"
#include "kernels/nn/window.h"

namespace tandem {

struct PoolAttrs {
  WindowAttrs window;
  int64_t size[2] = {1, 1};  // Of the window: height, width.
  int64_t depth = 1;  // Of the window in channels; more than 1 for max pooling over them alone.

  // InvalidArgument: numbers out of range. Unimplemented: a window or a stride over the batch, or
  // over channels together with pixels or with overlap. `explicit_paddings` may be null.
  static absl::StatusOr<PoolAttrs> Parse(const std::string& data_format, const std::string& padding,
                                         const std::vector<int64_t>& ksize,
                                         const std::vector<int64_t>& strides,
                                         const std::vector<int64_t>* explicit_paddings);
};

// Pooling as kernels see it, whatever the layout: [batch, height, width, channels], where windows
// move over height and width. In NCHW every channel counts as an image of one channel; so does,
// when pooling over channels, every pixel, whose channels are then the width.
struct Pool {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowDim height;
  WindowDim width;
  Shape output;  // In the tensor's own layout.

  // InvalidArgument: not a shape of rank 4, or smaller than the window. Unimplemented as above.
  static absl::StatusOr<Pool> Make(const PoolAttrs& attrs, const Shape& input);

  int64_t InputImage() const { return height.input * width.input * channels; }
  int64_t OutputImage() const { return height.output * width.output * channels; }
};

// The part of a window that lies on the image.
struct Span {
  int64_t begin;
  int64_t end;
};
inline Span Covered(const WindowDim& d, int64_t output) {
  const int64_t begin = output * d.stride - d.pad_before;
  return {std::max<int64_t>(begin, 0), std::min(begin + d.window, d.input)};
}

// Attributes by name from a KernelInit or a ShapeContext.
template <typename Context>
absl::StatusOr<PoolAttrs> PoolAttrsOf(const Context& c, bool has_explicit_paddings) {
  return PoolAttrs::Parse(
      c.template Attr<std::string>("data_format"), c.template Attr<std::string>("padding"),
      c.template Attr<std::vector<int64_t>>("ksize"),
      c.template Attr<std::vector<int64_t>>("strides"),
      has_explicit_paddings ? &c.template Attr<std::vector<int64_t>>("explicit_paddings")
                            : nullptr);
}

// The shape function of MaxPool and AvgPool.
absl::Status PoolShape(ShapeContext& c, bool has_explicit_paddings);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_POOL_H_
