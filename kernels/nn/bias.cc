// BiasAdd, BiasAddV1, BiasAddGrad: one number for each channel, added to all its elements.
#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/bias_channels.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

// What a type is added in: integers in unsigned arithmetic, whose overflow is defined.
template <typename T>
struct AdditionType {
  using Type = ComputeType<T>;
};
template <typename T>
requires std::is_integral_v<T>
struct AdditionType<T> {
  using Type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};
template <typename T>
using Addend = typename AdditionType<T>::Type;

template <typename T>
class BiasAddKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    channels_first_ = HasChannelsFirst(init.attrs());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& value = c.input(0);
    const Tensor& bias = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const BiasChannels s,
                            ChannelsForBias(value.shape(), bias.shape(), channels_first_));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, value.shape()));
    const T* const from = value.Elements<T>().data();
    const T* const add = bias.Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    if (s.inner == 1) {
      c.parallel().For(s.outer, 0.3 * static_cast<double>(s.channels),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t row = begin; row < end; ++row) {
                           AddRow(from + row * s.channels, add, to + row * s.channels, s.channels);
                         }
                       });
      return absl::OkStatus();
    }
    c.parallel().For(s.outer * s.channels, 0.3 * static_cast<double>(s.inner),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         const auto b = static_cast<Addend<T>>(add[row % s.channels]);
                         for (int64_t i = row * s.inner; i < (row + 1) * s.inner; ++i) {
                           to[i] = T(static_cast<Addend<T>>(from[i]) + b);
                         }
                       }
                     });
    return absl::OkStatus();
  }

 private:
  // The output may be the input's memory, which the compiler cannot know: copy, then add in place.
  static void AddRow(const T* from, const T* __restrict add, T* __restrict to, int64_t n) {
    if (from != to) std::copy_n(from, n, to);
    for (int64_t i = 0; i < n; ++i) {
      to[i] = T(static_cast<Addend<T>>(to[i]) + static_cast<Addend<T>>(add[i]));
    }
  }

  bool channels_first_ = false;
};

template <typename T>
class BiasAddGradKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    channels_first_ = HasChannelsFirst(init.attrs());
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& dy = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const BiasChannels s, ChannelsOf(dy.shape(), channels_first_));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, Shape({s.channels})));
    using Sum = Addend<T>;
    const T* const from = dy.Elements<T>().data();
    std::vector<Sum> totals(static_cast<size_t>(s.channels));
    const double cost = 0.3 * static_cast<double>(s.channels * s.inner);
    if (s.inner == 1) {
      ColumnSums<1>(s.outer, s.channels, cost, c.parallel(), totals.data(),
                    [&](int64_t row, Sum* __restrict sums) {
                      const T* const x = from + row * s.channels;
                      for (int64_t i = 0; i < s.channels; ++i) sums[i] += static_cast<Sum>(x[i]);
                    });
    } else {
      ColumnSums<1>(s.outer, s.channels, cost, c.parallel(), totals.data(),
                    [&](int64_t row, Sum* sums) {
                      for (int64_t i = 0; i < s.channels; ++i) {
                        sums[i] += SumOf(from + (row * s.channels + i) * s.inner, s.inner);
                      }
                    });
    }
    T* const to = output->MutableElements<T>().data();
    for (int64_t i = 0; i < s.channels; ++i) to[i] = T(totals[static_cast<size_t>(i)]);
    return absl::OkStatus();
  }

 private:
  static Addend<T> SumOf(const T* x, int64_t n) {
    // Eight sums, so that additions need not wait for each other.
    constexpr int64_t kLanes = 8;
    Addend<T> lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<Addend<T>>(x[i + l]);
    }
    for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += static_cast<Addend<T>>(x[i]);
    Addend<T> sum = lanes[0];
    for (int64_t l = 1; l < kLanes; ++l) sum += lanes[l];
    return sum;
  }

  bool channels_first_ = false;
};

absl::Status BiasShape(ShapeContext& c, bool channels_first) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  PartialShape value = c.input(0);
  const PartialShape& bias = c.input(1);
  if (value.has_rank() && bias.has_rank() && bias.dim(0) >= 0) {
    const int axis = ChannelAxisOf(channels_first, value.rank());
    if (value.dim(axis) < 0) value.SetDim(axis, bias.dim(0));
    if (value.dim(axis) != bias.dim(0)) {
      return errors::InvalidArgument("a bias of shape ", bias.DebugString(), " does not fit the ",
                                     value.dim(axis), " channels of shape ", value.DebugString());
    }
  }
  return c.SetOutput(0, std::move(value));
}

absl::Status BiasGradShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 2));
  const PartialShape& dy = c.input(0);
  if (!dy.has_rank()) return c.SetOutput(0, PartialShape::UnknownOfRank(1));
  const bool first = c.Attr<std::string>("data_format") == "NCHW";
  return c.SetOutput(0, PartialShape({dy.dim(ChannelAxisOf(first, dy.rank()))}));
}

absl::Status BiasAddGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  g.SetInputGradient(0, dy);
  g.SetInputGradient(
      1, g.Call("BiasAddGrad", {dy}, {{"data_format", g.Attr<std::string>("data_format")}}));
  return absl::OkStatus();
}

// The older op has no layout: channels come last.
absl::Status BiasAddV1Gradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  g.SetInputGradient(0, dy);
  g.SetInputGradient(1, g.Call("BiasAddGrad", {dy}));
  return absl::OkStatus();
}

// The sums' derivative: every element of a channel gets the channel's number.
absl::Status BiasAddGradGradient(GradientContext& g) {
  const Output d = g.OutputGradient(0);
  const std::string format = g.Attr<std::string>("data_format");
  g.SetInputGradient(
      0, g.Call("BiasAdd", {g.Call("ZerosLike", {g.input(0)}), d}, {{"data_format", format}}));
  return absl::OkStatus();
}

template <template <typename> class K>
KernelDef ForNumbers() {
  return ByType<K, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                uint16_t, uint32_t, uint64_t, std::complex<float>, std::complex<double>>("T");
}

TANDEM_OP("BiasAdd")
    .Inputs("value:T, bias:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; "
        "data_format:string{NHWC,NCHW}=NHWC")
    .Shape([](ShapeContext& c) {
      return BiasShape(c, c.Attr<std::string>("data_format") == "NCHW");
    })
    .Gradient(BiasAddGradient)
    .Cpu(ForNumbers<BiasAddKernel>());

TANDEM_OP("BiasAddV1")
    .Inputs("value:T, bias:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}")
    .Shape([](ShapeContext& c) { return BiasShape(c, false); })
    .Gradient(BiasAddV1Gradient)
    .Cpu(ForNumbers<BiasAddKernel>());

TANDEM_OP("BiasAddGrad")
    .Inputs("out_backprop:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,qint32,"
        "bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; "
        "data_format:string{NHWC,NCHW}=NHWC")
    .Shape(BiasGradShape)
    .Gradient(BiasAddGradGradient)
    .Cpu(ForNumbers<BiasAddGradKernel>());

}  // namespace
}  // namespace tandem
