// What the ops Conv2D, its gradients and _FusedConv2D share: from shapes to a Convolution, and from
// the types of tensors to those that convolution.h computes with.
#ifndef TANDEM_KERNELS_NN_CONV2D_COMMON_H_
#define TANDEM_KERNELS_NN_CONV2D_COMMON_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernel/kernel.h"
#include "core/op/shape_context.h"
#include "core/tensor/tensor.h"
#include "kernels/nn/convolution.h"
#include "kernels/nn/tensor_conversion.h"
#include "kernels/nn/window.h"

namespace tandem {

// InvalidArgument: shapes that are not images and a filter, or do not fit each other.
absl::StatusOr<Convolution> MakeConvolution(const WindowAttrs& attrs, const Shape& input,
                                            const Shape& filter);
Shape OutputShape(const Convolution& conv);

// A vector of sizes as a shape: `sizes` holds int32. InvalidArgument: it is no vector of 4 sizes.
absl::StatusOr<Shape> ShapeFromSizes(const Tensor& sizes, absl::string_view what);

// For a kernel whose input 1 is the filter.
PackedWeightsOptions FilterCacheOptions(const KernelInit& init);

// The shape function of Conv2D and _FusedConv2D.
absl::Status Conv2DShape(ShapeContext& c);

// `images` in NHWC, sharing memory if they are already.
absl::StatusOr<Tensor> ToNhwc(KernelContext& c, const Tensor& images, DataFormat format);
// The way back, into an output.
void FromNhwc(const Tensor& nhwc, DataFormat format, Tensor& images);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_CONV2D_COMMON_H_
