// FusedBatchNormV3, FusedBatchNormGradV3 and _FusedBatchNormEx: normalization of each channel over
// the batch and all pixels (Ioffe and Szegedy 2015).
//
//   y = (x - mean) / sqrt(variance + epsilon) * scale + offset
//
// In training, mean and variance are those of x, taken in two passes over x. `batch_variance` is
// the unbiased estimate (n - 1 in the denominator), and `reserve_space_2`, which the gradient
// wants, the variance of these n numbers itself. Statistics and sums are float, whatever T is.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/batch_norm_gradient.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

// Images seen as [rows, channels, inner].
struct View {
  int64_t rows = 1;
  int64_t channels = 1;
  int64_t inner = 1;
  int64_t count() const { return rows * inner; }  // Elements of a channel.
};

absl::StatusOr<View> ViewOf(const Shape& x, const std::string& data_format) {
  const bool volume = data_format.size() == 5;
  if (x.rank() != (volume ? 5 : 4)) {
    return errors::InvalidArgument("x must have rank ", volume ? 5 : 4, " in the layout ",
                                   data_format, ", not shape ", x.DebugString());
  }
  View v;
  const bool channels_first = data_format[1] == 'C';
  const int axis = channels_first ? 1 : x.rank() - 1;
  for (int i = 0; i < axis; ++i) v.rows *= x.dim(i);
  v.channels = x.dim(axis);
  for (int i = axis + 1; i < x.rank(); ++i) v.inner *= x.dim(i);
  return v;
}

absl::Status CheckVector(const Tensor& t, absl::string_view name, int64_t channels) {
  if (t.shape().IsVector() && t.num_elements() == channels) return absl::OkStatus();
  return errors::InvalidArgument(name, " must be a vector of ", channels,
                                 " numbers, one for each channel of x, not of shape ",
                                 t.shape().DebugString());
}

// totals[c] = the sum of f(element, c), and for two sums of f's second, over all elements of
// channel c.
template <int kSums, typename F>
void ChannelSums(const View& v, ParallelRunner& parallel, float* totals, F f) {
  ColumnSums<kSums>(v.rows, v.channels, 0.4 * kSums * static_cast<double>(v.channels * v.inner),
                    parallel, totals, [&](int64_t row, float* sums) { f(row, sums); });
}

// Some neighbouring elements: where channels lie side by side those of several channels, from
// `channel` on, and of several rows when channels are few; else of one channel. Results go through
// a buffer of this size on the stack: an output may lie in an input's memory, which would keep the
// compiler from making vectors.
constexpr int64_t kPiece = 256;
struct Piece {
  int64_t first = 0;  // Of all elements.
  int64_t n = 0;
  int64_t channel = 0;
};

// How many rows one piece may span.
int64_t RowsPerPiece(const View& v) {
  return v.inner == 1 ? std::max<int64_t>(1, kPiece / std::max<int64_t>(1, v.channels)) : 1;
}
// A number for each channel, repeated for the rows of a piece.
std::vector<float> Repeated(const View& v, const float* channels) {
  std::vector<float> all;
  const int64_t rows = RowsPerPiece(v);
  all.reserve(static_cast<size_t>(rows * v.channels));
  for (int64_t i = 0; i < rows; ++i) all.insert(all.end(), channels, channels + v.channels);
  return all;
}

// Calls f(piece) for pieces that together are all elements.
template <typename F>
void ForPieces(const View& v, double nanoseconds, ParallelRunner& parallel, F f) {
  const bool side_by_side = v.inner == 1;
  const int64_t total = v.rows * v.channels * v.inner;
  const int64_t run = side_by_side ? v.channels * RowsPerPiece(v) : v.inner;
  const int64_t runs = run > 0 ? (total + run - 1) / run : 0;
  parallel.For(runs, nanoseconds * static_cast<double>(run), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t last = std::min(total, (r + 1) * run);
      for (int64_t i = r * run; i < last; i += kPiece) {
        f(Piece{i, std::min(kPiece, last - i), side_by_side ? i - r * run : r % v.channels});
      }
    }
  });
}

class BatchNormKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    epsilon_ = init.Attr<float>("epsilon");
    data_format_ = init.Attr<std::string>("data_format");
    is_training_ = init.Attr<bool>("is_training");
    return absl::OkStatus();
  }

 protected:
  float epsilon_ = 0;
  std::string data_format_;
  bool is_training_ = true;
};

template <typename T>
class ForwardKernel : public BatchNormKernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_RETURN_IF_ERROR(BatchNormKernel::Init(init));
    factor_ = init.Attr<float>("exponential_avg_factor");
    if (init.op().name == "_FusedBatchNormEx") {
      const std::string& mode = init.Attr<std::string>("activation_mode");
      if (mode != "Identity" && mode != "Relu") {
        return errors::Unimplemented("activation_mode ", mode, "; known are Identity and Relu");
      }
      relu_ = mode == "Relu";
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const View v, ViewOf(x.shape(), data_format_));
    const bool wants_given = !is_training_ || factor_ != 1.0f;
    static constexpr const char* kNames[] = {"x", "scale", "offset", "mean", "variance"};
    for (int i = 1; i < 5; ++i) {
      if (i >= 3 && !wants_given) continue;
      TANDEM_RETURN_IF_ERROR(CheckVector(c.input(i), kNames[i], v.channels));
    }
    for (int i = 5; i < c.num_inputs(); ++i) {
      if (i > 5 || c.input(i).shape() != x.shape()) {
        return errors::InvalidArgument("there may be one side input, shaped like x (",
                                       x.shape().DebugString(), ")");
      }
    }
    // Statistics first: x's memory may be reused for y.
    const float* const given_mean = wants_given ? c.input(3).Elements<float>().data() : nullptr;
    const float* const given_variance = wants_given ? c.input(4).Elements<float>().data() : nullptr;
    float* out[5] = {};
    for (int i = 1; i < 5; ++i) {
      TANDEM_ASSIGN_OR_RETURN(Tensor* const t, c.AllocateOutput(i, Shape({v.channels})));
      out[i] = t->MutableElements<float>().data();
      std::fill_n(out[i], v.channels, 0.0f);
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const third, c.AllocateOutput(5, Shape()));
    third->MutableElements<float>()[0] = 0;
    if (x.num_elements() == 0) {
      TANDEM_RETURN_IF_ERROR(c.AllocateOutput(0, x.shape()).status());
      std::fill_n(out[1], v.channels, std::numeric_limits<float>::quiet_NaN());
      std::fill_n(out[2], v.channels, std::numeric_limits<float>::quiet_NaN());
      return absl::OkStatus();
    }
    const T* const from = x.Elements<T>().data();
    if (is_training_) {
      Statistics(v, from, c.parallel(), out[3], out[4]);
      const float unbias =
          static_cast<float>(static_cast<double>(v.count()) /
                             static_cast<double>(std::max<int64_t>(v.count() - 1, 1)));
      for (int64_t i = 0; i < v.channels; ++i) {
        const float unbiased = out[4][i] * unbias;
        out[1][i] = wants_given ? (1 - factor_) * given_mean[i] + factor_ * out[3][i] : out[3][i];
        out[2][i] = wants_given ? (1 - factor_) * given_variance[i] + factor_ * unbiased : unbiased;
      }
    } else {
      std::copy_n(given_mean, v.channels, out[1]);
      std::copy_n(given_variance, v.channels, out[2]);
    }
    const float* const mean = is_training_ ? out[3] : given_mean;
    const float* const variance = is_training_ ? out[4] : given_variance;
    std::vector<float> factor(static_cast<size_t>(v.channels));
    const float* const scale = c.input(1).Elements<float>().data();
    for (int64_t i = 0; i < v.channels; ++i) {
      factor[static_cast<size_t>(i)] = scale[i] / std::sqrt(variance[i] + epsilon_);
    }
    const float* const offset = c.input(2).Elements<float>().data();
    const T* const side = c.num_inputs() > 5 ? c.input(5).Elements<T>().data() : nullptr;
    TANDEM_ASSIGN_OR_RETURN(Tensor* const y, c.ForwardOrAllocate({0}, 0, x.shape()));
    Normalize(v, from, mean, factor.data(), offset, side, y->MutableElements<T>().data(),
              c.parallel());
    return absl::OkStatus();
  }

 private:
  static void Statistics(const View& v, const T* x, ParallelRunner& parallel, float* mean,
                         float* variance) {
    const float n = static_cast<float>(v.count());
    ChannelSums<1>(v, parallel, mean, [&](int64_t row, float* __restrict sums) {
      const T* const from = x + row * v.channels * v.inner;
      if (v.inner == 1) {
        for (int64_t i = 0; i < v.channels; ++i) sums[i] += static_cast<float>(from[i]);
        return;
      }
      for (int64_t i = 0; i < v.channels; ++i) {
        sums[i] +=
            SumOf(v.inner, [&](int64_t j) { return static_cast<float>(from[i * v.inner + j]); });
      }
    });
    for (int64_t i = 0; i < v.channels; ++i) mean[i] /= n;
    ChannelSums<1>(v, parallel, variance, [&](int64_t row, float* __restrict sums) {
      const T* const from = x + row * v.channels * v.inner;
      if (v.inner == 1) {
        for (int64_t i = 0; i < v.channels; ++i) {
          const float d = static_cast<float>(from[i]) - mean[i];
          sums[i] += d * d;
        }
        return;
      }
      for (int64_t i = 0; i < v.channels; ++i) {
        sums[i] += SumOf(v.inner, [&](int64_t j) {
          const float d = static_cast<float>(from[i * v.inner + j]) - mean[i];
          return d * d;
        });
      }
    });
    for (int64_t i = 0; i < v.channels; ++i) variance[i] /= n;
  }

  // f(0) + … + f(n - 1), as eight interleaved sums.
  template <typename F>
  static float SumOf(int64_t n, F f) {
    constexpr int64_t kLanes = 8;
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
    }
    for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += f(i);
    return Sum(lanes, kLanes);
  }

  void Normalize(const View& v, const T* x, const float* mean, const float* factor,
                 const float* offset, const T* side, T* y, ParallelRunner& parallel) const {
    const std::vector<float> means = Repeated(v, mean);
    const std::vector<float> factors = Repeated(v, factor);
    const std::vector<float> offsets = Repeated(v, offset);
    ForPieces(v, 0.5, parallel, [&](const Piece& p) {
      float values[kPiece];
      ToCompute(x + p.first, values, p.n);
      if (v.inner == 1) {
        const float* const m = means.data() + p.channel;
        const float* const f = factors.data() + p.channel;
        const float* const o = offsets.data() + p.channel;
        for (int64_t i = 0; i < p.n; ++i) values[i] = (values[i] - m[i]) * f[i] + o[i];
      } else {
        const float m = mean[p.channel];
        const float f = factor[p.channel];
        const float o = offset[p.channel];
        for (int64_t i = 0; i < p.n; ++i) values[i] = (values[i] - m) * f + o;
      }
      if (side != nullptr) {
        for (int64_t i = 0; i < p.n; ++i) values[i] += static_cast<float>(side[p.first + i]);
      }
      if (relu_) {
        for (int64_t i = 0; i < p.n; ++i) values[i] = values[i] <= 0.0f ? 0.0f : values[i];
      }
      FromCompute(values, y + p.first, p.n);
    });
  }

  float factor_ = 1;
  bool relu_ = false;
};

// With h = (x - mean) / sqrt(variance + epsilon) and E the mean over a channel:
//   doffset = sum(dy),  dscale = sum(dy h),
//   dx = scale / sqrt(variance + epsilon) (dy - E(dy) - h E(dy h)) in training, where mean and
//   variance follow x; otherwise without the two means.
template <typename T>
class BackwardKernel : public BatchNormKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& dy = c.input(0);
    const Tensor& x = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const View v, ViewOf(x.shape(), data_format_));
    if (dy.shape() != x.shape()) {
      return errors::InvalidArgument("y_backprop has shape ", dy.shape().DebugString(), ", x has ",
                                     x.shape().DebugString(), "; they must be the same");
    }
    static constexpr const char* kNames[] = {"", "", "scale", "reserve_space_1", "reserve_space_2"};
    for (int i = 2; i < 5; ++i) {
      TANDEM_RETURN_IF_ERROR(CheckVector(c.input(i), kNames[i], v.channels));
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dscale, c.AllocateOutput(1, Shape({v.channels})));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const doffset, c.AllocateOutput(2, Shape({v.channels})));
    TANDEM_RETURN_IF_ERROR(c.AllocateOutput(3, Shape({0})).status());
    TANDEM_RETURN_IF_ERROR(c.AllocateOutput(4, Shape({0})).status());
    const float* const scale = c.input(2).Elements<float>().data();
    const float* const mean = c.input(3).Elements<float>().data();
    const float* const variance = c.input(4).Elements<float>().data();

    // sum(dy), then sum(dy (x - mean)).
    const int64_t n = v.channels;
    std::vector<float> sums(static_cast<size_t>(2 * n));
    const T* const from_dy = dy.Elements<T>().data();
    const T* const from_x = x.Elements<T>().data();
    ChannelSums<2>(v, c.parallel(), sums.data(), [&](int64_t row, float* __restrict s) {
      const T* const g = from_dy + row * n * v.inner;
      const T* const px = from_x + row * n * v.inner;
      float* __restrict const s2 = s + n;
      if (v.inner == 1) {
        for (int64_t i = 0; i < n; ++i) {
          const float d = static_cast<float>(g[i]);
          s[i] += d;
          s2[i] += d * (static_cast<float>(px[i]) - mean[i]);
        }
        return;
      }
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i * v.inner; j < (i + 1) * v.inner; ++j) {
          const float d = static_cast<float>(g[j]);
          s[i] += d;
          s2[i] += d * (static_cast<float>(px[j]) - mean[i]);
        }
      }
    });

    // dx = a (dy - b - (x - mean) d)
    std::vector<float> coefficients(static_cast<size_t>(3 * n));
    float* const a = coefficients.data();
    float* const b = a + n;
    float* const d = b + n;
    const float count = static_cast<float>(v.count());
    for (int64_t i = 0; i < n; ++i) {
      const float inverse = 1 / std::sqrt(variance[i] + epsilon_);
      dscale->MutableElements<float>()[static_cast<size_t>(i)] =
          sums[static_cast<size_t>(n + i)] * inverse;
      doffset->MutableElements<float>()[static_cast<size_t>(i)] = sums[static_cast<size_t>(i)];
      a[i] = scale[i] * inverse;
      b[i] = is_training_ ? sums[static_cast<size_t>(i)] / count : 0;
      d[i] = is_training_ ? inverse * inverse * sums[static_cast<size_t>(n + i)] / count : 0;
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dx, c.ForwardOrAllocate({0}, 0, x.shape()));
    T* const to = dx->MutableElements<T>().data();
    const std::vector<float> as = Repeated(v, a);
    const std::vector<float> bs = Repeated(v, b);
    const std::vector<float> ds = Repeated(v, d);
    const std::vector<float> means = Repeated(v, mean);
    ForPieces(v, 0.6, c.parallel(), [&](const Piece& p) {
      float values[kPiece];
      ToCompute(from_dy + p.first, values, p.n);
      const T* const px = from_x + p.first;
      const float* const pa = as.data() + p.channel;
      const float* const pb = bs.data() + p.channel;
      const float* const pd = ds.data() + p.channel;
      const float* const pm = means.data() + p.channel;
      if (v.inner == 1) {
        for (int64_t i = 0; i < p.n; ++i) {
          values[i] = pa[i] * (values[i] - pb[i] - (static_cast<float>(px[i]) - pm[i]) * pd[i]);
        }
      } else {
        for (int64_t i = 0; i < p.n; ++i) {
          values[i] = pa[0] * (values[i] - pb[0] - (static_cast<float>(px[i]) - pm[0]) * pd[0]);
        }
      }
      FromCompute(values, to + p.first, p.n);
    });
    return absl::OkStatus();
  }
};

// The shape of a vector with a number for each channel, merged from x and the given inputs.
absl::StatusOr<PartialShape> ChannelVector(ShapeContext& c, int x, int first_vector,
                                           int last_vector) {
  const std::string& data_format = c.Attr<std::string>("data_format");
  const int rank = data_format.size() == 5 ? 5 : 4;
  TANDEM_RETURN_IF_ERROR(c.RequireRank(x, rank));
  PartialShape channels = PartialShape::UnknownOfRank(1);
  if (c.input(x).has_rank()) {
    channels = PartialShape({c.input(x).dim(data_format[1] == 'C' ? 1 : rank - 1)});
  }
  for (int i = first_vector; i <= last_vector; ++i) {
    TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
    if (!channels.IsCompatibleWith(c.input(i))) {
      return errors::InvalidArgument("input ", i, " of shape ", c.input(i).DebugString(),
                                     " must have a number for each channel, ",
                                     channels.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(channels, channels.MergeWith(c.input(i)));
  }
  return channels;
}

absl::Status ForwardShape(ShapeContext& c) {
  const bool given = !c.Attr<bool>("is_training") || c.Attr<float>("exponential_avg_factor") != 1;
  TANDEM_ASSIGN_OR_RETURN(const PartialShape channels, ChannelVector(c, 0, 1, given ? 4 : 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(3, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(4, 1));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, c.input(0)));
  // Nothing is said of the last one, which differs between devices.
  for (int i = 1; i < 5; ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, channels));
  return absl::OkStatus();
}

absl::Status BackwardShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const PartialShape channels, ChannelVector(c, 1, 2, 4));
  TANDEM_ASSIGN_OR_RETURN(PartialShape x, c.input(0).MergeWith(c.input(1)));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, std::move(x)));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, channels));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(2, channels));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(3, PartialShape({0})));
  return c.SetOutput(4, PartialShape({0}));
}

KernelDef Typed(KernelDef def) {
  def.types.push_back({"U", {kFloat32}});
  return def;
}

TANDEM_OP("FusedBatchNormV3")
    .Inputs("x:T, scale:U, offset:U, mean:U, variance:U")
    .Outputs(
        "y:T, batch_mean:U, batch_variance:U, reserve_space_1:U, reserve_space_2:U, "
        "reserve_space_3:U")
    .Attrs(
        "T:type{float16,bfloat16,float32}; U:type{bfloat16,float32}; epsilon:float=0.0001; "
        "exponential_avg_factor:float=1.0; "
        "data_format:string{NHWC,NCHW,NDHWC,NCDHW}=NHWC; is_training:bool=True")
    .Shape(ForwardShape)
    .Gradient(BatchNormGradient)
    .Cpu(Typed(ByType<ForwardKernel, float, Float16, Bfloat16>("T")));

TANDEM_OP("FusedBatchNormGradV3")
    .Inputs(
        "y_backprop:T, x:T, scale:float32, reserve_space_1:U, reserve_space_2:U, "
        "reserve_space_3:U")
    .Outputs(
        "x_backprop:T, scale_backprop:U, offset_backprop:U, reserve_space_4:U, "
        "reserve_space_5:U")
    .Attrs(
        "T:type{float16,bfloat16,float32}; U:type{float32}; epsilon:float=0.0001; "
        "data_format:string{NHWC,NCHW,NDHWC,NCDHW}=NHWC; is_training:bool=True")
    .Shape(BackwardShape)
    .Gradient(BatchNormSecondGradient)
    .Cpu(Typed(ByType<BackwardKernel, float, Float16, Bfloat16>("T")));

// TensorFlow's own fusion: y = activation(normalized + side input).
TANDEM_OP("_FusedBatchNormEx")
    .Inputs("x:T, scale:U, offset:U, mean:U, variance:U, side_input:num_side_inputs*T")
    .Outputs(
        "y:T, batch_mean:U, batch_variance:U, reserve_space_1:U, reserve_space_2:U, "
        "reserve_space_3:U")
    .Attrs(
        "T:type{float16,bfloat16,float32}; U:type{float32}; epsilon:float=0.0001; "
        "exponential_avg_factor:float=1.0; num_side_inputs:int>=0=0; "
        "activation_mode:string=\"Identity\"; "
        "data_format:string{NHWC,NCHW,NDHWC,NCDHW}=NHWC; is_training:bool=True")
    .Shape(ForwardShape)
    .Cpu(Typed(ByType<ForwardKernel, float, Float16, Bfloat16>("T")));

}  // namespace
}  // namespace tandem
