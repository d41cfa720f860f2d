#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/nn/convolution.h"

namespace tandem {
namespace {

// Signed overflow is undefined, that of unsigned numbers is not.
template <typename T>
T MultiplyAdd(T a, T b, T sum) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b) +
                                static_cast<uint32_t>(sum));
  } else {
    return a * b + sum;
  }
}

// The input position of `window` at output `out`, or -1 in the padding.
int64_t Position(const WindowDim& d, int64_t out, int64_t window) {
  const int64_t at = out * d.stride - d.pad_before + window * d.dilation;
  return at < d.input ? at : -1;
}

// Calls f(input offset of the pixel, output offset of the pixel, filter offset of the tap) for all
// pixels of image n that meet, in a fixed order.
template <typename F>
void ForEachTap(const Convolution& conv, int64_t n, F f) {
  const WindowDim& depth = conv.depth;
  const WindowDim& height = conv.height;
  const WindowDim& width = conv.width;
  const int64_t tap_size = conv.in_channels / conv.groups * conv.out_channels;
  int64_t out = n * depth.output * height.output * width.output * conv.out_channels;
  for (int64_t z = 0; z < depth.output; ++z) {
    for (int64_t y = 0; y < height.output; ++y) {
      for (int64_t x = 0; x < width.output; ++x, out += conv.out_channels) {
        for (int64_t h = 0; h < depth.window; ++h) {
          const int64_t layer = Position(depth, z, h);
          if (layer < 0) continue;
          for (int64_t i = 0; i < height.window; ++i) {
            const int64_t row = Position(height, y, i);
            if (row < 0) continue;
            for (int64_t j = 0; j < width.window; ++j) {
              const int64_t column = Position(width, x, j);
              if (column < 0) continue;
              const int64_t pixel =
                  ((n * depth.input + layer) * height.input + row) * width.input + column;
              const int64_t tap = (h * height.window + i) * width.window + j;
              f(pixel * conv.in_channels, out, tap * tap_size);
            }
          }
        }
      }
    }
  }
}

double CostOfImage(const Convolution& conv) {
  return 0.5 * static_cast<double>(conv.depth.output * conv.height.output * conv.width.output) *
         static_cast<double>(conv.FilterElements());
}

}  // namespace

template <typename T>
void ConvolveDirect(const Convolution& conv, const T* input, const T* filter, T* output,
                    ParallelRunner& parallel) {
  const int64_t in_group = conv.in_channels / conv.groups;
  const int64_t out_group = conv.out_channels / conv.groups;
  std::fill_n(output, conv.OutputElements(), T(0));
  parallel.For(conv.batch, CostOfImage(conv), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      ForEachTap(conv, n, [&](int64_t in, int64_t out, int64_t tap) {
        for (int64_t g = 0; g < conv.groups; ++g) {
          T* const to = output + out + g * out_group;
          for (int64_t i = 0; i < in_group; ++i) {
            const T x = input[in + g * in_group + i];
            const T* const w = filter + tap + i * conv.out_channels + g * out_group;
            for (int64_t o = 0; o < out_group; ++o) to[o] = MultiplyAdd(x, w[o], to[o]);
          }
        }
      });
    }
  });
}

template <typename T>
void ConvolveDirectToInput(const Convolution& conv, const T* filter, const T* output_gradient,
                           T* input_gradient, ParallelRunner& parallel) {
  const int64_t in_group = conv.in_channels / conv.groups;
  const int64_t out_group = conv.out_channels / conv.groups;
  std::fill_n(input_gradient, conv.InputElements(), T(0));
  parallel.For(conv.batch, CostOfImage(conv), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      ForEachTap(conv, n, [&](int64_t in, int64_t out, int64_t tap) {
        for (int64_t g = 0; g < conv.groups; ++g) {
          const T* const dy = output_gradient + out + g * out_group;
          for (int64_t i = 0; i < in_group; ++i) {
            const T* const w = filter + tap + i * conv.out_channels + g * out_group;
            T sum = 0;
            for (int64_t o = 0; o < out_group; ++o) sum = MultiplyAdd(dy[o], w[o], sum);
            T& to = input_gradient[in + g * in_group + i];
            to = MultiplyAdd(T(1), sum, to);
          }
        }
      });
    }
  });
}

template <typename T>
void ConvolveDirectToFilter(const Convolution& conv, const T* input, const T* output_gradient,
                            T* filter_gradient, ParallelRunner& parallel) {
  const int64_t in_group = conv.in_channels / conv.groups;
  const int64_t out_group = conv.out_channels / conv.groups;
  std::fill_n(filter_gradient, conv.FilterElements(), T(0));
  // Each unit owns one input channel of the filter, at all taps.
  parallel.For(
      in_group, static_cast<double>(conv.batch) * CostOfImage(conv) / static_cast<double>(in_group),
      [&](int64_t begin, int64_t end) {
        for (int64_t n = 0; n < conv.batch; ++n) {
          ForEachTap(conv, n, [&](int64_t in, int64_t out, int64_t tap) {
            for (int64_t g = 0; g < conv.groups; ++g) {
              const T* const dy = output_gradient + out + g * out_group;
              for (int64_t i = begin; i < end; ++i) {
                const T x = input[in + g * in_group + i];
                T* const to = filter_gradient + tap + i * conv.out_channels + g * out_group;
                for (int64_t o = 0; o < out_group; ++o) {
                  to[o] = MultiplyAdd(x, dy[o], to[o]);
                }
              }
            }
          });
        }
      });
}

#define TANDEM_DIRECT_(T)                                                                    \
  template void ConvolveDirect(const Convolution&, const T*, const T*, T*, ParallelRunner&); \
  template void ConvolveDirectToInput(const Convolution&, const T*, const T*, T*,            \
                                      ParallelRunner&);                                      \
  template void ConvolveDirectToFilter(const Convolution&, const T*, const T*, T*, ParallelRunner&);
TANDEM_DIRECT_(float)
TANDEM_DIRECT_(double)
TANDEM_DIRECT_(int32_t)
#undef TANDEM_DIRECT_

}  // namespace tandem
