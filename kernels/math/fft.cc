// FFT, IFFT, RFFT and IRFFT: discrete Fourier transforms over the last dimension.
//
// y_k = Σ_j x_j e^(-2πi jk/n), and the inverse with + and divided by n. Of the transform of n real
// numbers the first n/2 + 1 are kept: the others are their conjugates.
#include <complex>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/math/gradient_helpers.h"
#include "unsupported/Eigen/FFT"

namespace tandem::math {
namespace {

double CostOfRow(int64_t n) { return 20 * static_cast<double>(n) + 100; }

// Transforms of one length, one after the other. Not for several threads at once.
template <typename T>
class Transforms {
 public:
  void Run(const std::complex<T>* from, std::complex<T>* to, int64_t n, bool inverse) {
    if (n == 1) {
      *to = *from;
    } else if (inverse) {
      fft_.inv(to, from, n);
    } else {
      fft_.fwd(to, from, n);
    }
  }

 private:
  Eigen::FFT<T> fft_;
};

template <typename C, bool kInverse>
class ComplexKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape shape = c.input(0).shape();
    if (shape.rank() < 1) return errors::InvalidArgument("a scalar has no Fourier transform");
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();
    const int64_t n = shape.dim(shape.rank() - 1);
    const C* const x = c.input(0).Elements<C>().data();
    C* const y = output->MutableElements<C>().data();
    c.parallel().For(shape.num_elements() / n, CostOfRow(n), [&](int64_t begin, int64_t end) {
      Transforms<typename C::value_type> transforms;
      for (int64_t i = begin; i < end; ++i) transforms.Run(x + i * n, y + i * n, n, kInverse);
    });
    return absl::OkStatus();
  }
};
template <typename C>
using ForwardKernel = ComplexKernel<C, false>;
template <typename C>
using InverseKernel = ComplexKernel<C, true>;

// How many of the transform of n real numbers are kept.
int64_t Kept(int64_t n) { return n == 0 ? 0 : n / 2 + 1; }

// The output's shape for `length` numbers, of which an input must have `needed`.
absl::StatusOr<Shape> RealShape(const Shape& input, const Tensor& fft_length, bool inverse,
                                int64_t* length) {
  TANDEM_ASSIGN_OR_RETURN(const SmallInts lengths, VectorArgument(fft_length, "fft_length"));
  if (lengths.size() != 1 || lengths[0] < 0) {
    return errors::InvalidArgument("fft_length must be one number that is not negative, not ",
                                   fft_length.DebugString());
  }
  *length = lengths[0];
  if (input.rank() < 1) return errors::InvalidArgument("a scalar has no Fourier transform");
  const int64_t given = input.dim(input.rank() - 1);
  const int64_t needed = inverse ? Kept(*length) : *length;
  if (given != 0 && given < needed) {
    return errors::InvalidArgument("an input of shape ", input.DebugString(), " has ", given,
                                   " numbers in its last dimension; ", needed,
                                   " are needed for a length of ", *length);
  }
  Shape::Dims dims(input.dims().begin(), input.dims().end());
  dims.back() = inverse ? *length : Kept(*length);
  return Shape::FromDims(dims);
}

template <typename T>
class RealForwardKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    int64_t n = 0;
    TANDEM_ASSIGN_OR_RETURN(Shape shape, RealShape(input.shape(), c.input(1), false, &n));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();
    std::complex<T>* const y = output->MutableElements<std::complex<T>>().data();
    if (input.num_elements() == 0) {
      std::fill_n(y, output->num_elements(), std::complex<T>(0));
      return absl::OkStatus();
    }
    const T* const x = input.Elements<T>().data();
    const int64_t kept = Kept(n);
    const int64_t given = input.shape().dim(input.shape().rank() - 1);
    c.parallel().For(output->num_elements() / kept, CostOfRow(n), [&](int64_t begin, int64_t end) {
      Transforms<T> transforms;
      std::vector<std::complex<T>> in(static_cast<size_t>(n)), out(in.size());
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(x + i * given, n, in.begin());
        transforms.Run(in.data(), out.data(), n, false);
        std::copy_n(out.begin(), kept, y + i * kept);
      }
    });
    return absl::OkStatus();
  }
};

template <typename T>
class RealInverseKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    int64_t n = 0;
    TANDEM_ASSIGN_OR_RETURN(Shape shape, RealShape(input.shape(), c.input(1), true, &n));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, std::move(shape)));
    if (output->num_elements() == 0) return absl::OkStatus();
    T* const y = output->MutableElements<T>().data();
    if (input.num_elements() == 0) {
      std::fill_n(y, output->num_elements(), T(0));
      return absl::OkStatus();
    }
    const std::complex<T>* const x = input.Elements<std::complex<T>>().data();
    const int64_t given = input.shape().dim(input.shape().rank() - 1);
    c.parallel().For(output->num_elements() / n, CostOfRow(n), [&](int64_t begin, int64_t end) {
      Transforms<T> transforms;
      std::vector<std::complex<T>> in(static_cast<size_t>(n)), out(in.size());
      for (int64_t i = begin; i < end; ++i) {
        // Those that are their own conjugates count as real, as they are for real results.
        for (int64_t k = 0; k < Kept(n); ++k) {
          const std::complex<T> value = x[i * given + k];
          const bool is_own = k == 0 || 2 * k == n;
          in[static_cast<size_t>(k)] = is_own ? std::complex<T>(value.real()) : value;
          if (!is_own) in[static_cast<size_t>(n - k)] = std::conj(value);
        }
        transforms.Run(in.data(), out.data(), n, true);
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = out[static_cast<size_t>(j)].real();
      }
    });
    return absl::OkStatus();
  }
};

absl::Status ComplexShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  return UnchangedShape(c);
}
template <bool kInverse>
absl::Status RealShapes(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  if (!c.input(0).has_rank()) return UnchangedShape(c);
  PartialShape output = c.input(0);
  int64_t last = PartialShape::kUnknownDim;
  if (const absl::optional<Tensor> length = c.InputValue(1)) {
    TANDEM_ASSIGN_OR_RETURN(const SmallInts n, VectorArgument(*length, "fft_length"));
    if (n.size() != 1 || n[0] < 0) {
      return errors::InvalidArgument("fft_length must be one number that is not negative, not ",
                                     length->DebugString());
    }
    last = kInverse ? n[0] : Kept(n[0]);
  }
  output.SetDim(output.rank() - 1, last);
  return c.SetOutput(0, std::move(output));
}

// --- Gradients

Output Ints(GradientContext& g, std::initializer_list<int32_t> values) {
  return g.Constant(Tensor::Vector<int32_t>(values));
}
// The number of elements in the last dimension, a vector of one int32.
Output LastDim(GradientContext& g, Output x) {
  return g.Call("StridedSlice", {g.Call("Shape", {x}), Ints(g, {-1}), Ints(g, {0}), Ints(g, {1})},
                {{"end_mask", 1}});
}
Output As(GradientContext& g, Output x, DataType type) {
  return g.Call("Cast", {x}, {{"DstT", type}});
}
// A number of elements, a vector of one int32, as a real number of the type of `like`'s parts, and
// that as a number of its type.
DataType RealOf(Output like) {
  const DataType type = RemoveReference(like.dtype());
  return type == kComplex64 ? kFloat32 : type == kComplex128 ? kFloat64 : type;
}
Output Number(GradientContext& g, Output count, Output like) {
  const Output real = As(g, count, RealOf(like));
  if (!IsComplex(RemoveReference(like.dtype()))) return real;
  return g.Call("Complex", {real, g.Call("ZerosLike", {real})},
                {{"T", RealOf(like)}, {"Tout", RemoveReference(like.dtype())}});
}
// `x` with zeros after its last dimension, so that it has `size` (a vector of one int32) elements.
Output PadLast(GradientContext& g, Output x, Output size) {
  const Output more = g.Call("Sub", {size, LastDim(g, x)});
  const Output outer =
      g.Call("StridedSlice", {g.Call("Shape", {x}), Ints(g, {0}), Ints(g, {-1}), Ints(g, {1})});
  const Output shape = g.Call("ConcatV2", {outer, more, g.Scalar(kInt32, 0)});
  const Output zeros = g.Call("Fill", {shape, g.Scalar(RemoveReference(x.dtype()), 0)});
  return g.Call("ConcatV2", {x, zeros, g.Scalar(kInt32, -1)});
}

absl::Status FftGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output n = Number(g, LastDim(g, dy), dy);
  g.SetInputGradient(0, g.Call("Mul", {n, g.Call("IFFT", {dy})}));
  return absl::OkStatus();
}
absl::Status IfftGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output n = Number(g, LastDim(g, dy), dy);
  g.SetInputGradient(0, g.Call("RealDiv", {g.Call("FFT", {dy}), n}));
  return absl::OkStatus();
}
// dx_j = Re Σ_k dy_k e^(2πi jk/n) over what is kept.
absl::Status RfftGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output whole = PadLast(g, dy, g.input(1));
  const Output sums = g.Call("Real", {g.Call("IFFT", {whole})},
                             {{"T", RemoveReference(dy.dtype())}, {"Tout", RealOf(dy)}});
  const Output dx = g.Call("Mul", {sums, Number(g, g.input(1), sums)});
  g.SetInputGradient(0, PadLast(g, dx, LastDim(g, g.input(0))));
  return absl::OkStatus();
}
// The transform of dy over n; twice that where a number stands for its conjugate, too.
absl::Status IrfftGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output x = g.input(0);
  const Output n = g.input(1);
  const Output transform = g.Call("RFFT", {dy, n}, {{"Tcomplex", RemoveReference(x.dtype())}});
  const Output count = g.Call("Reshape", {LastDim(g, transform), g.Constant(Tensor(kInt32, {0}))});
  const Output k = g.Call("Range", {g.Scalar(kInt32, 0), count, g.Scalar(kInt32, 1)});
  const Output first = g.Call("Equal", {k, g.Scalar(kInt32, 0)});
  const Output middle = g.Call("Equal", {g.Call("AddV2", {k, k}), n});
  const Output is_own = As(g, g.Call("LogicalOr", {first, middle}), kInt32);
  const Output times = Number(g, g.Call("Sub", {g.Scalar(kInt32, 2), is_own}), x);
  const Output weights = g.Call("RealDiv", {times, Number(g, n, x)});
  const Output dx = g.Call("Mul", {transform, weights});
  g.SetInputGradient(0, PadLast(g, dx, LastDim(g, x)));
  return absl::OkStatus();
}

constexpr char kComplexAttrs[] = "Tcomplex:type{complex64,complex128}=complex64";
constexpr char kRealAttrs[] =
    "Treal:type{float32,float64}=float32; Tcomplex:type{complex64,complex128}=complex64";

template <template <typename> class K, typename T>
KernelDef RealKernel() {
  KernelDef def = Make<K<T>>("Treal", {DataTypeOf<T>()});
  def.types.push_back({"Tcomplex", {DataTypeOf<std::complex<T>>()}});
  return def;
}

TANDEM_OP("FFT")
    .Inputs("input:Tcomplex")
    .Outputs("output:Tcomplex")
    .Attrs(kComplexAttrs)
    .Shape(ComplexShape)
    .Gradient(FftGradient)
    .Cpu(ByType<ForwardKernel, std::complex<float>, std::complex<double>>("Tcomplex"));

TANDEM_OP("IFFT")
    .Inputs("input:Tcomplex")
    .Outputs("output:Tcomplex")
    .Attrs(kComplexAttrs)
    .Shape(ComplexShape)
    .Gradient(IfftGradient)
    .Cpu(ByType<InverseKernel, std::complex<float>, std::complex<double>>("Tcomplex"));

TANDEM_OP("RFFT")
    .Inputs("input:Treal, fft_length:int32")
    .Outputs("output:Tcomplex")
    .Attrs(kRealAttrs)
    .HostMemory({"fft_length"})
    .Shape(RealShapes<false>)
    .Gradient(RfftGradient)
    .Cpu(RealKernel<RealForwardKernel, float>())
    .Cpu(RealKernel<RealForwardKernel, double>());

TANDEM_OP("IRFFT")
    .Inputs("input:Tcomplex, fft_length:int32")
    .Outputs("output:Treal")
    .Attrs(kRealAttrs)
    .HostMemory({"fft_length"})
    .Shape(RealShapes<true>)
    .Gradient(IrfftGradient)
    .Cpu(RealKernel<RealInverseKernel, float>())
    .Cpu(RealKernel<RealInverseKernel, double>());

}  // namespace
}  // namespace tandem::math
