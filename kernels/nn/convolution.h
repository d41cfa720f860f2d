// Convolution of images and of volumes, and its two derivatives: the arithmetic, without ops.
//
// Filters are [height, width, input channels / groups, output channels] (TensorFlow's HWIO), those
// of volumes with a depth before; output channels of group g see the input channels of group g.
// "Convolution" is correlation, as everywhere in this field: filters are not flipped.
//
// float32 goes to oneDNN (convolution_onednn.cc), whose primitives are cached by geometry and
// number of threads. Other types go to plain loops, which also are what tests compare oneDNN with
// (convolution_direct.cc).
//
// Results depend on values and geometry; in the derivatives, with several threads, also on how many
// there are, since oneDNN cuts sums over the batch by that number. The plain loops add in an order
// that does not depend on threads.
// Threads: any.
#ifndef TANDEM_KERNELS_NN_CONVOLUTION_H_
#define TANDEM_KERNELS_NN_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/kernel/parallel.h"
#include "core/tensor/tensor.h"
#include "kernels/nn/fused_activation.h"
#include "kernels/nn/packed_weights.h"
#include "kernels/nn/window.h"

namespace tandem {

struct Convolution {
  // Of volumes, [batch, depth, height, width, channels] or with the channels second.
  DataFormat format = DataFormat::kNhwc;
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int64_t groups = 1;
  bool is_volume = false;
  WindowDim depth = {1, 1, 1, 1, 1, 0, 0};  // Of an image: one layer.
  WindowDim height;
  WindowDim width;

  int64_t InputElements() const {
    return batch * in_channels * depth.input * height.input * width.input;
  }
  int64_t OutputElements() const {
    return batch * out_channels * depth.output * height.output * width.output;
  }
  int64_t FilterElements() const {
    return depth.window * height.window * width.window * (in_channels / groups) * out_channels;
  }
};

// Where a node keeps its filter in the layouts that oneDNN wants (packed_weights.h): results are
// the same bits with and without. Threads: any.
class FilterCache;
std::shared_ptr<FilterCache> NewFilterCache(const PackedWeightsOptions& options);

struct Filter {
  Filter(const float* values) : values(values) {}  // NOLINT: a filter as such.
  // `source`: the input of the kernel that `values` are, or were converted from. Both are looked at
  // during the call only. `cache` may be null.
  Filter(const float* values, const Tensor& source, FilterCache* cache)
      : values(values), source(&source), cache(cache) {}

  const float* values;
  const Tensor* source = nullptr;
  FilterCache* cache = nullptr;
};

// oneDNN. `threads` is the calling thread's number of OpenMP threads, which a primitive is made
// for. REQUIRES: neither input, output nor filter is empty. Unimplemented: a geometry that oneDNN
// does not know. ResourceExhausted: no memory.

// output = activation(convolution(input, filter) + bias), where `bias` may be null.
absl::Status ConvolveFloat(const Convolution& conv, const float* input, const Filter& filter,
                           const float* bias, const FusedActivation& activation, float* output,
                           int threads);
// The derivative with respect to the input.
absl::Status ConvolveFloatToInput(const Convolution& conv, const Filter& filter,
                                  const float* output_gradient, float* input_gradient, int threads);
// The derivative with respect to the filter.
absl::Status ConvolveFloatToFilter(const Convolution& conv, const float* input,
                                   const float* output_gradient, float* filter_gradient,
                                   int threads);

// Plain loops, for channels last whatever conv.format says. T is float, double or int32_t (whose
// overflow wraps around).
template <typename T>
void ConvolveDirect(const Convolution& conv, const T* input, const T* filter, T* output,
                    ParallelRunner& parallel);
template <typename T>
void ConvolveDirectToInput(const Convolution& conv, const T* filter, const T* output_gradient,
                           T* input_gradient, ParallelRunner& parallel);
template <typename T>
void ConvolveDirectToFilter(const Convolution& conv, const T* input, const T* output_gradient,
                            T* filter_gradient, ParallelRunner& parallel);

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_CONVOLUTION_H_
