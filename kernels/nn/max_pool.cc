// MaxPool, MaxPoolGrad and MaxPoolGradGrad.
//
// Of equal elements in a window the first one, row by row, is the largest: it gets the whole
// gradient. An element that is not a number is passed over unless it is the first. The gradient ops
// look at the input again instead of trusting `orig_output`.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/pool.h"

namespace tandem {
namespace {

// Loops over the channels of one pixel. They are the only code that is compiled for each type;
// where windows are is worked out around them.

// Where TensorFlow starts its search: below it is minus infinity alone, which no maximum is.
template <typename T>
T Lowest() {
  if constexpr (std::is_same_v<T, Float16>) {
    return Float16::FromBits(0xfbff);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return Bfloat16::FromBits(0xff7f);
  } else {
    return std::numeric_limits<T>::lowest();
  }
}
template <typename T>
void RaiseToLowest(T* x, int64_t n) {
  if constexpr (!std::is_integral_v<T>) {
    const T lowest = Lowest<T>();
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] < lowest ? lowest : x[i];
  }
}

template <typename T>
void TakeLarger(const T* __restrict x, T* __restrict best, int64_t n) {
  for (int64_t i = 0; i < n; ++i) best[i] = best[i] < x[i] ? x[i] : best[i];
}
// The whole of a 2 x 2 window, the most common one, at once.
template <typename T>
void LargestOfFour(const T* a, const T* b, const T* c, const T* d, T* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T ab = a[i] < b[i] ? b[i] : a[i];
    const T abc = ab < c[i] ? c[i] : ab;
    to[i] = abc < d[i] ? d[i] : abc;
  }
  RaiseToLowest(to, n);
}
template <typename T>
void TakeLargerAndPlace(const T* __restrict x, T* __restrict best, int32_t* __restrict place,
                        int32_t here, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool larger = best[i] < x[i];
    best[i] = larger ? x[i] : best[i];
    place[i] = larger ? here : place[i];
  }
}

template <typename T>
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else {
    return a + b;
  }
}
// to += gradient where the window's largest element is `here`.
template <typename T>
void AddWhere(const T* __restrict gradient, const int32_t* __restrict place, int32_t here,
              T* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = place[i] == here ? Plus(to[i], gradient[i]) : to[i];
}
// The gradient of a whole 2 x 2 window that overlaps no other. The results go through the stack,
// which nothing else points to: with nine pointers that may alias, the compiler gives up making
// vectors.
template <typename T>
void SpreadToFour(const T* const x[4], const T* gradient, T* const to[4], int64_t channels) {
  constexpr int64_t kAtOnce = 64;
  const T* const x0 = x[0];
  const T* const x1 = x[1];
  const T* const x2 = x[2];
  const T* const x3 = x[3];
  const T zero{};
  for (int64_t first = 0; first < channels; first += kAtOnce) {
    const int64_t end = std::min(channels, first + kAtOnce);
    T results[4][kAtOnce];
    for (int64_t i = first; i < end; ++i) {
      // Loads and comparisons without conditions, for the same end.
      const T a = x0[i], b = x1[i], c = x2[i], d = x3[i], g = gradient[i];
      const bool at1 = a < b;
      const T best1 = at1 ? b : a;
      const bool at2 = best1 < c;
      const T best2 = at2 ? c : best1;
      const bool at3 = best2 < d;
      const T before3 = at3 ? zero : g;
      const T before2 = at2 ? zero : before3;
      const T g0 = at1 ? zero : before2;
      const T g1 = at1 ? before2 : zero;
      const T g2 = at2 ? before3 : zero;
      const T g3 = at3 ? g : zero;
      results[0][i - first] = g0;
      results[1][i - first] = g1;
      results[2][i - first] = g2;
      results[3][i - first] = g3;
    }
    for (int k = 0; k < 4; ++k) std::copy_n(results[k], end - first, to[k] + first);
  }
}

bool IsWhole(const WindowDim& d, const Span& span) { return span.end - span.begin == d.window; }
bool IsTwoByTwo(const Pool& p, const Span& rows, const Span& columns) {
  return p.height.window == 2 && p.width.window == 2 && IsWhole(p.height, rows) &&
         IsWhole(p.width, columns);
}
double CostOfRow(const Pool& p) {
  return 0.15 * static_cast<double>(p.width.output * p.channels) *
         static_cast<double>(p.height.window * p.width.window);
}

class PoolKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(
        attrs_, PoolAttrsOf(init, init.attrs().find("explicit_paddings") != init.attrs().end()));
    return absl::OkStatus();
  }

 protected:
  // The geometry of a gradient op, whose input 1 and `like_output` must be shaped like the pool.
  absl::StatusOr<Pool> GradientPool(KernelContext& c, const Tensor& like_output) const {
    const Shape& input = c.input(0).shape();
    TANDEM_ASSIGN_OR_RETURN(Pool pool, Pool::Make(attrs_, input));
    if (like_output.shape() != pool.output || c.input(1).shape() != pool.output) {
      return errors::InvalidArgument(
          "the pool of an input of shape ", input.DebugString(), " has shape ",
          pool.output.DebugString(), ", which orig_output of shape ",
          c.input(1).shape().DebugString(), " and the gradient of shape ",
          like_output.shape().DebugString(), " must have too");
    }
    return pool;
  }

  PoolAttrs attrs_;
};

// Channels are looked at in pieces whose state stays in the first-level cache.
constexpr int64_t kPiece = 256;

template <typename T>
class MaxPoolKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Pool p, Pool::Make(attrs_, input.shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = input.Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    c.parallel().For(p.batch * p.height.output, CostOfRow(p), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        PoolRow(p, x + row / p.height.output * p.InputImage(), row % p.height.output,
                y + row * p.width.output * p.channels);
      }
    });
    return absl::OkStatus();
  }

 private:
  static void PoolRow(const Pool& p, const T* image, int64_t out_row, T* to) {
    const Span rows = Covered(p.height, out_row);
    for (int64_t o = 0; o < p.width.output; ++o, to += p.channels) {
      const Span columns = Covered(p.width, o);
      const auto at = [&](int64_t i, int64_t j) {
        return image + (i * p.width.input + j) * p.channels;
      };
      if (IsTwoByTwo(p, rows, columns)) {
        const int64_t i = rows.begin;
        const int64_t j = columns.begin;
        LargestOfFour(at(i, j), at(i, j + 1), at(i + 1, j), at(i + 1, j + 1), to, p.channels);
        continue;
      }
      std::copy_n(at(rows.begin, columns.begin), p.channels, to);
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        for (int64_t j = columns.begin; j < columns.end; ++j) TakeLarger(at(i, j), to, p.channels);
      }
      RaiseToLowest(to, p.channels);
    }
  }
};

// Calls f(image, output pixel, rows, columns) for the windows of images [begin, end).
template <typename F>
void ForEachWindow(const Pool& p, int64_t begin, int64_t end, F f) {
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t i = 0; i < p.height.output; ++i) {
      const Span rows = Covered(p.height, i);
      for (int64_t j = 0; j < p.width.output; ++j) {
        f(n, (n * p.height.output + i) * p.width.output + j, rows, Covered(p.width, j));
      }
    }
  }
}

// For channels [first, first + n) of a window: its largest elements, and their places as numbers
// within the window.
template <typename T>
void FindLargest(const Pool& p, const T* image, const Span& rows, const Span& columns, T* best,
                 int32_t* place, int64_t first, int64_t n) {
  std::copy_n(image + (rows.begin * p.width.input + columns.begin) * p.channels + first, n, best);
  std::fill_n(place, n, 0);
  int32_t here = 0;
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t j = columns.begin; j < columns.end; ++j, ++here) {
      TakeLargerAndPlace(image + (i * p.width.input + j) * p.channels + first, best, place, here,
                         n);
    }
  }
}

template <typename T>
class MaxPoolGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Pool p, GradientPool(c, c.input(2)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input.shape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = input.Elements<T>().data();
    const T* const dy = c.input(2).Elements<T>().data();
    T* const dx = output->MutableElements<T>().data();
    // Windows that tile the image write every element once; others first need zeros.
    const auto tiles = [](const WindowDim& d) {
      return d.stride == d.window && d.output * d.window == d.input && d.pad_before == 0;
    };
    const bool apart = p.height.stride >= p.height.window && p.width.stride >= p.width.window;
    const bool covers = tiles(p.height) && tiles(p.width);
    const double cost = 3 * CostOfRow(p) * static_cast<double>(p.height.output);
    c.parallel().For(p.batch, cost, [&](int64_t begin, int64_t end) {
      if (!covers || !apart || p.height.window != 2 || p.width.window != 2) {
        std::fill(dx + begin * p.InputImage(), dx + end * p.InputImage(), T{});
      }
      ForEachWindow(
          p, begin, end, [&](int64_t n, int64_t out, const Span& rows, const Span& columns) {
            const T* const image = x + n * p.InputImage();
            T* const to = dx + n * p.InputImage();
            const T* const gradient = dy + out * p.channels;
            if (apart && IsTwoByTwo(p, rows, columns)) {
              const int64_t a = (rows.begin * p.width.input + columns.begin) * p.channels;
              const int64_t b = a + p.width.input * p.channels;
              const T* const from4[4] = {image + a, image + a + p.channels, image + b,
                                         image + b + p.channels};
              T* const to4[4] = {to + a, to + a + p.channels, to + b, to + b + p.channels};
              SpreadToFour(from4, gradient, to4, p.channels);
              return;
            }
            Spread(p, image, rows, columns, gradient, to);
          });
    });
    return absl::OkStatus();
  }

 private:
  static void Spread(const Pool& p, const T* image, const Span& rows, const Span& columns,
                     const T* gradient, T* to) {
    for (int64_t first = 0; first < p.channels; first += kPiece) {
      const int64_t n = std::min(kPiece, p.channels - first);
      T best[kPiece];
      int32_t place[kPiece];
      FindLargest(p, image, rows, columns, best, place, first, n);
      int32_t here = 0;
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        for (int64_t j = columns.begin; j < columns.end; ++j, ++here) {
          AddWhere(gradient + first, place, here, to + (i * p.width.input + j) * p.channels + first,
                   n);
        }
      }
    }
  }
};

template <typename T>
class MaxPoolGradGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& gradient = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Pool p, GradientPool(c, c.input(1)));
    if (gradient.shape() != input.shape()) {
      return errors::InvalidArgument("the gradient of shape ", gradient.shape().DebugString(),
                                     " must be shaped like the input, ",
                                     input.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = input.Elements<T>().data();
    const T* const g = gradient.Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    const double cost = 3 * CostOfRow(p) * static_cast<double>(p.height.output);
    c.parallel().For(p.batch, cost, [&](int64_t begin, int64_t end) {
      ForEachWindow(
          p, begin, end, [&](int64_t n, int64_t out, const Span& rows, const Span& columns) {
            for (int64_t first = 0; first < p.channels; first += kPiece) {
              const int64_t count = std::min(kPiece, p.channels - first);
              T best[kPiece];
              int32_t place[kPiece];
              FindLargest(p, x + n * p.InputImage(), rows, columns, best, place, first, count);
              for (int64_t i = 0; i < count; ++i) {
                const int64_t width = columns.end - columns.begin;
                const int64_t row = rows.begin + place[i] / width;
                const int64_t column = columns.begin + place[i] % width;
                y[out * p.channels + first + i] =
                    g[n * p.InputImage() + (row * p.width.input + column) * p.channels + first + i];
              }
            }
          });
    });
    return absl::OkStatus();
  }
};

AttrMap SameAttrs(const GradientContext& g, bool explicit_paddings) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  if (explicit_paddings) {
    attrs.emplace("explicit_paddings", g.node().attrs().find("explicit_paddings")->second);
  }
  return attrs;
}

absl::Status MaxPoolGradient(GradientContext& g) {
  g.SetInputGradient(
      0, g.Call("MaxPoolGrad", {g.input(0), g.output(0), g.OutputGradient(0)}, SameAttrs(g, true)));
  return absl::OkStatus();
}

// Where the largest elements are does not change with the input, almost everywhere; so the only
// gradients are those of the third input, in which these ops are linear.
absl::Status SetThird(GradientContext& g, Output gradient) {
  g.SetInputGradient(0, g.Call("ZerosLike", {g.input(0)}));
  g.SetInputGradient(1, g.Call("ZerosLike", {g.input(1)}));
  g.SetInputGradient(2, gradient);
  return absl::OkStatus();
}
absl::Status MaxPoolGradGradient(GradientContext& g) {
  if (g.Attr<std::string>("padding") == "EXPLICIT") {
    return errors::Unimplemented(
        "the second derivative of max pooling with explicit padding: MaxPoolGradGrad has none");
  }
  return SetThird(g, g.Call("MaxPoolGradGrad", {g.input(0), g.input(1), g.OutputGradient(0)},
                            SameAttrs(g, false)));
}
absl::Status MaxPoolGradGradGradient(GradientContext& g) {
  return SetThird(
      g, g.Call("MaxPoolGrad", {g.input(0), g.input(1), g.OutputGradient(0)}, SameAttrs(g, false)));
}

absl::Status LikeSecondInput(ShapeContext& c) { return c.SetOutput(0, c.input(1)); }

template <template <typename> class K>
KernelDef ForNumbers() {
  return ByType<K, float, double, Float16, Bfloat16, int32_t, int64_t, uint8_t, int16_t, int8_t,
                uint16_t>("T");
}
template <template <typename> class K>
KernelDef ForAllNumbers() {
  return ByType<K, float, double, Float16, Bfloat16, int32_t, int64_t, uint8_t, int16_t, int8_t,
                uint16_t, uint32_t, uint64_t>("T");
}

TANDEM_OP("MaxPool")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,bfloat16,float32,float64,int32,int64,uint8,int16,int8,uint16,qint8}="
        "float32; ksize:list(int)>=4; strides:list(int)>=4; "
        "padding:string{SAME,VALID,EXPLICIT}; explicit_paddings:list(int)=[]; "
        "data_format:string{NHWC,NCHW,NCHW_VECT_C}=NHWC")
    .Shape([](ShapeContext& c) { return PoolShape(c, true); })
    .Gradient(MaxPoolGradient)
    .Cpu(ForNumbers<MaxPoolKernel>());

TANDEM_OP("MaxPoolGrad")
    .Inputs("orig_input:T, orig_output:T, grad:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=4; strides:list(int)>=4; padding:string{SAME,VALID,EXPLICIT}; "
        "explicit_paddings:list(int)=[]; data_format:string{NHWC,NCHW}=NHWC; "
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}=float32")
    .Shape(UnchangedShape)
    .Gradient(MaxPoolGradGradient)
    .Cpu(ForAllNumbers<MaxPoolGradKernel>());

TANDEM_OP("MaxPoolGradGrad")
    .Inputs("orig_input:T, orig_output:T, grad:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=4; strides:list(int)>=4; padding:string{SAME,VALID}; "
        "data_format:string{NHWC,NCHW}=NHWC; "
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape(LikeSecondInput)
    .Gradient(MaxPoolGradGradGradient)
    .Cpu(ForAllNumbers<MaxPoolGradGradKernel>());

}  // namespace
}  // namespace tandem
