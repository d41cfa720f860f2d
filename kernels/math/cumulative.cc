// Cumsum, Cumprod: each element is the sum or product of those up to it along an axis; `exclusive`
// without itself, `reverse` from the end.
#include <algorithm>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

struct Plus {
  static constexpr int kNeutral = 0;
  template <typename T>
  static T Apply(T x, T y) {
    return static_cast<T>(x + y);
  }
};
struct Times {
  static constexpr int kNeutral = 1;
  template <typename T>
  static T Apply(T x, T y) {
    return Multiply(x, y);
  }
};

// The rows of a block [length][inner], first to last (or last to first with a negative step), for
// `columns` of their elements. Half types keep the running value in float.
template <typename Op, typename T>
void Scan(const void* x, void* y, int64_t length, int64_t step, int64_t columns, bool exclusive) {
  using A = std::conditional_t<kIsHalf<T>, float, T>;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if (columns == 1) {
    A sum = A(Op::kNeutral);
    for (int64_t i = 0; i < length; ++i, from += step, to += step) {
      const A next = Op::Apply(sum, static_cast<A>(*from));
      *to = static_cast<T>(exclusive ? sum : next);
      sum = next;
    }
    return;
  }
  constexpr int64_t kColumns = 256;
  A sum[kColumns];
  std::fill_n(sum, columns, A(Op::kNeutral));
  for (int64_t i = 0; i < length; ++i, from += step, to += step) {
    if (exclusive) {
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        const A value = static_cast<A>(from[j]);
        to[j] = static_cast<T>(sum[j]);
        sum[j] = Op::Apply(sum[j], value);
      }
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        sum[j] = Op::Apply(sum[j], static_cast<A>(from[j]));
        to[j] = static_cast<T>(sum[j]);
      }
    }
  }
}

using ScanLoop = void (*)(const void* x, void* y, int64_t length, int64_t step, int64_t columns,
                          bool exclusive);

template <typename Op>
ScanLoop LoopFor(DataType type) {
  switch (type) {
    case kFloat32:
      return Scan<Op, float>;
    case kFloat64:
      return Scan<Op, double>;
    case kFloat16:
      return Scan<Op, Float16>;
    case kBfloat16:
      return Scan<Op, Bfloat16>;
    case kComplex64:
      return Scan<Op, std::complex<float>>;
    case kComplex128:
      return Scan<Op, std::complex<double>>;
    case kInt8:
    case kUint8:
      return Scan<Op, uint8_t>;
    case kInt16:
    case kUint16:
      return Scan<Op, uint16_t>;
    case kInt32:
    case kUint32:
      return Scan<Op, uint32_t>;
    case kInt64:
    case kUint64:
      return Scan<Op, uint64_t>;
    default:
      return nullptr;
  }
}

template <typename Op>
class ScanKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    exclusive_ = init.Attr<bool>("exclusive");
    reverse_ = init.Attr<bool>("reverse");
    size_ = DataTypeSize(init.input_dtype(0));
    loop_ = LoopFor<Op>(init.input_dtype(0));
    return loop_ != nullptr ? absl::OkStatus()
                            : errors::Unimplemented(DataTypeName(init.input_dtype(0)));
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const int axis, AxisArgument(c.input(1), "axis", x.shape().rank()));
    const char* const from = static_cast<const char*>(x.data());
    const Shape shape = x.shape();
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.ForwardOrAllocate({0}, 0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    char* const to = static_cast<char*>(output->mutable_data());
    const int64_t length = shape.dim(axis);
    int64_t inner = 1;
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
    const int64_t outer = shape.num_elements() / inner / length;
    constexpr int64_t kColumns = 256;
    const int64_t chunks = (inner + kColumns - 1) / kColumns;
    const double cost = 1.0 * static_cast<double>(length * std::min(inner, kColumns));
    c.parallel().For(outer * chunks, cost, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % chunks * kColumns;
        const int64_t row = reverse_ ? length - 1 : 0;
        const size_t offset =
            static_cast<size_t>((unit / chunks * length + row) * inner + first) * size_;
        loop_(from + offset, to + offset, length, reverse_ ? -inner : inner,
              std::min(kColumns, inner - first), exclusive_);
      }
    });
    return absl::OkStatus();
  }

 private:
  bool exclusive_ = false;
  bool reverse_ = false;
  size_t size_ = 0;
  ScanLoop loop_ = nullptr;
};

absl::Status ScanShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  const absl::optional<int64_t> axis = c.InputAsInt(1);
  if (axis.has_value() && c.input(0).has_rank()) {
    TANDEM_RETURN_IF_ERROR(ShapeContext::ResolveAxis(*axis, c.input(0).rank()).status());
  }
  return UnchangedShape(c);
}

// Element i goes into all sums from i on: the sums run the other way round.
Output ReversedSum(GradientContext& g, Output values) {
  return g.Call("Cumsum", {values, g.input(1)},
                {{"exclusive", g.Attr<bool>("exclusive")}, {"reverse", !g.Attr<bool>("reverse")}});
}
absl::Status CumsumGradient(GradientContext& g) {
  g.SetInputGradient(0, ReversedSum(g, g.OutputGradient(0)));
  return absl::OkStatus();
}
// Each product holds x once: its derivative is the product divided by x. Where x is 0 it is taken
// as 0, as TensorFlow does.
absl::Status CumprodGradient(GradientContext& g) {
  const Output products = g.Call("Mul", {g.OutputGradient(0), g.Conjugate(g.output(0))});
  g.SetInputGradient(0, g.Call("DivNoNan", {ReversedSum(g, products), g.Conjugate(g.input(0))}));
  return absl::OkStatus();
}

template <typename Op>
OpDefBuilder ScanOp(const char* name, GradientFunction gradient) {
  return OpDefBuilder(name)
      .Inputs("x:T, axis:Tidx")
      .Outputs("out:T")
      .Attrs(
          "exclusive:bool=False; reverse:bool=False; T:type{float32,float64,int32,uint8,int16,"
          "int8,complex64,int64,qint8,quint8,qint32,bfloat16,qint16,quint16,uint16,complex128,"
          "float16,uint32,uint64}; Tidx:type{int32,int64}=int32")
      .Shape(ScanShape)
      .Gradient(gradient)
      .HostMemory({"axis"})
      .Cpu(Make<ScanKernel<Op>>(
          "T", {kFloat32, kFloat64, kFloat16, kBfloat16, kComplex64, kComplex128, kInt8, kInt16,
                kInt32, kInt64, kUint8, kUint16, kUint32, kUint64}));
}
const OpRegistration cumsum(ScanOp<Plus>("Cumsum", CumsumGradient));
const OpRegistration cumprod(ScanOp<Times>("Cumprod", CumprodGradient));

}  // namespace
}  // namespace tandem::math
