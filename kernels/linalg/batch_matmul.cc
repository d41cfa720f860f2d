// BatchMatMul, BatchMatMulV2, BatchMatMulV3: products of the matrices in the last two dimensions,
// either of which may be given as its adjoint (transposed and conjugated). From V2 on the
// dimensions before broadcast; V3 lets the types of arguments and result differ.
#include <algorithm>
#include <complex>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/linalg/gemm.h"
#include "kernels/linalg/matmul_shape.h"

namespace tandem {
namespace {

PartialShape WithoutLastTwo(const PartialShape& shape) {
  return PartialShape(shape.dims().subspan(0, static_cast<size_t>(shape.rank()) - 2));
}

absl::StatusOr<PartialShape> BatchShape(const PartialShape& x, const PartialShape& y,
                                        bool broadcasts) {
  if (broadcasts) return BroadcastShapes(WithoutLastTwo(x), WithoutLastTwo(y));
  return WithoutLastTwo(x).MergeWith(WithoutLastTwo(y));
}

absl::Status Shapes(ShapeContext& c, bool broadcasts) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(1, 2));
  const PartialShape& x = c.input(0);
  const PartialShape& y = c.input(1);
  if (!x.has_rank() || !y.has_rank()) return UnknownShape(c);
  const bool adj_x = c.Attr<bool>("adj_x");
  const bool adj_y = c.Attr<bool>("adj_y");
  const int64_t inner_x = x.dim(x.rank() - (adj_x ? 2 : 1));
  const int64_t inner_y = y.dim(y.rank() - (adj_y ? 1 : 2));
  if (inner_x >= 0 && inner_y >= 0 && inner_x != inner_y) {
    return errors::InvalidArgument("matrices of shapes ", x.DebugString(), " and ", y.DebugString(),
                                   " differ in their inner size: ", inner_x, " and ", inner_y);
  }
  TANDEM_ASSIGN_OR_RETURN(PartialShape out, BatchShape(x, y, broadcasts));
  out.AddDim(x.dim(x.rank() - (adj_x ? 1 : 2)));
  out.AddDim(y.dim(y.rank() - (adj_y ? 2 : 1)));
  return c.SetOutput(0, std::move(out));
}

// For each matrix of the result, which of x (or y) it is made of.
std::vector<int64_t> SourceOfEach(const Shape& batch, const Shape& argument) {
  std::vector<int64_t> source = {0};
  const int missing = batch.rank() - (argument.rank() - 2);
  for (int i = 0; i < batch.rank(); ++i) {
    const int64_t size = i < missing ? 1 : argument.dim(i - missing);
    std::vector<int64_t> next;
    next.reserve(source.size() * static_cast<size_t>(batch.dim(i)));
    for (const int64_t base : source) {
      for (int64_t j = 0; j < batch.dim(i); ++j) next.push_back(base * size + (size == 1 ? 0 : j));
    }
    source = std::move(next);
  }
  return source;
}

class BatchMatMulBase : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    adj_x_ = init.Attr<bool>("adj_x");
    adj_y_ = init.Attr<bool>("adj_y");
    broadcasts_ = init.op().name != "BatchMatMul";
    return absl::OkStatus();
  }

 protected:
  template <typename T>
  absl::Status Multiply(KernelContext& c, const Tensor& x, const Tensor& y) {
    const Shape& xs = x.shape();
    const Shape& ys = y.shape();
    if (xs.rank() < 2 || ys.rank() < 2) {
      return errors::InvalidArgument("products want matrices, not shapes ", xs.DebugString(),
                                     " and ", ys.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(const PartialShape partial, BatchShape(xs, ys, broadcasts_));
    TANDEM_ASSIGN_OR_RETURN(const Shape batch, partial.ToShape());
    const auto last_two = [](const Shape& s) {
      return Shape({s.dim(s.rank() - 2), s.dim(s.rank() - 1)});
    };
    TANDEM_ASSIGN_OR_RETURN(const MatMulSizes sizes,
                            SizesOfMatMul(last_two(xs), last_two(ys), adj_x_, adj_y_));
    Shape::Dims dims(batch.dims().begin(), batch.dims().end());
    dims.push_back(sizes.m);
    dims.push_back(sizes.n);
    TANDEM_ASSIGN_OR_RETURN(Shape out, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, std::move(out)));
    if (output->num_elements() == 0) return absl::OkStatus();

    Gemm<T> all;
    all.m = sizes.m, all.n = sizes.n, all.k = sizes.k;
    all.a = x.Elements<T>().data(), all.lda = xs.dim(xs.rank() - 1);
    all.b = y.Elements<T>().data(), all.ldb = ys.dim(ys.rank() - 1);
    all.transpose_a = all.conjugate_a = adj_x_;
    all.transpose_b = all.conjugate_b = adj_y_;
    all.c = output->MutableElements<T>().data(), all.ldc = sizes.n;

    const int64_t count = batch.num_elements();
    const bool one_y = ys.num_elements() == sizes.k * sizes.n;
    if (count > 1 && one_y && !adj_x_ && xs.num_elements() == count * sizes.m * sizes.k) {
      // Many matrices by the same one: the rows of all of them, in one product.
      all.m *= count;
      return RunGemm(all, c.parallel());
    }
    if (count == 1) return RunGemm(all, c.parallel());
    const std::vector<int64_t> from_x = SourceOfEach(batch, xs);
    const std::vector<int64_t> from_y = SourceOfEach(batch, ys);
    const auto one = [&](int64_t i, ParallelRunner& parallel) {
      Gemm<T> gemm = all;
      gemm.a += from_x[static_cast<size_t>(i)] * sizes.m * sizes.k;
      gemm.b += from_y[static_cast<size_t>(i)] * sizes.k * sizes.n;
      gemm.c += i * sizes.m * sizes.n;
      return RunGemm(gemm, parallel);
    };
    const double multiplications =
        static_cast<double>(sizes.m) * static_cast<double>(sizes.n) * static_cast<double>(sizes.k);
    if (count < c.parallel().parallelism() && multiplications > 1e7) {
      // Few large ones: all threads on each.
      for (int64_t i = 0; i < count; ++i) TANDEM_RETURN_IF_ERROR(one(i, c.parallel()));
      return absl::OkStatus();
    }
    std::vector<absl::Status> status(static_cast<size_t>(count));
    c.parallel().For(count, 200 + 0.03 * multiplications, [&](int64_t begin, int64_t end) {
      InlineRunner inline_runner;
      for (int64_t i = begin; i < end; ++i) status[static_cast<size_t>(i)] = one(i, inline_runner);
    });
    for (const absl::Status& s : status) TANDEM_RETURN_IF_ERROR(s);
    return absl::OkStatus();
  }

 private:
  bool adj_x_ = false;
  bool adj_y_ = false;
  bool broadcasts_ = true;
};

template <typename T>
class BatchMatMulKernel : public BatchMatMulBase {
 public:
  absl::Status Compute(KernelContext& c) override { return Multiply<T>(c, c.input(0), c.input(1)); }
};

template <typename From, typename To>
void Convert(const Tensor& from, Tensor& to) {
  const From* x = from.Elements<From>().data();
  To* y = to.MutableElements<To>().data();
  const int64_t n = from.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, Bfloat16>) {
      y[i] = To(static_cast<float>(x[i]));
    } else {
      y[i] = static_cast<To>(x[i]);
    }
  }
}

// V3: an argument of another type than the result (8-bit integers, in TensorFlow's kernels) is
// converted first, without loss.
template <typename T>
class MixedBatchMatMulKernel : public BatchMatMulBase {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Tensor x, Converted(c, c.input(0)));
    TANDEM_ASSIGN_OR_RETURN(const Tensor y, Converted(c, c.input(1)));
    return Multiply<T>(c, x, y);
  }

 private:
  absl::StatusOr<Tensor> Converted(KernelContext& c, const Tensor& from) {
    if (from.dtype() == DataTypeOf<T>()) return from;
    TANDEM_ASSIGN_OR_RETURN(Tensor to, c.AllocateTemporary(DataTypeOf<T>(), from.shape()));
    if (from.dtype() == kInt8) {
      Convert<int8_t, T>(from, to);
    } else if (from.dtype() == kUint8) {
      Convert<uint8_t, T>(from, to);
    } else {
      return errors::Unimplemented("a product of ", DataTypeName(from.dtype()), " with result ",
                                   DataTypeName(DataTypeOf<T>()));
    }
    return to;
  }
};

// x y = product:  dx = dproduct yᴴ,  dy = xᴴ dproduct, and the adjoints of these; summed over the
// dimensions in which an argument was broadcast.
absl::Status BatchMatMulGradient(GradientContext& g) {
  const bool ax = g.Attr<bool>("adj_x");
  const bool ay = g.Attr<bool>("adj_y");
  const std::string& type = g.node().type();
  const bool v3 = type == "BatchMatMulV3";
  const Output dz = g.OutputGradient(0);
  const Output x = g.input(0);
  const Output y = g.input(1);
  const auto product = [&](Output a, Output b, bool aa, bool ab, Output like) {
    AttrMap attrs = {{"adj_x", aa}, {"adj_y", ab}};
    if (v3) attrs.emplace("Tout", like.dtype());
    return g.Call(type, {a, b}, std::move(attrs));
  };
  Output dx = ax ? product(y, dz, ay, true, x) : product(dz, y, false, !ay, x);
  Output dy = ay ? product(dz, x, true, ax, y) : product(x, dz, !ax, false, y);
  const bool same_batch = x.shape().has_rank() && y.shape().has_rank() &&
                          WithoutLastTwo(x.shape()).IsFullyDefined() &&
                          WithoutLastTwo(x.shape()) == WithoutLastTwo(y.shape());
  if (type != "BatchMatMul" && !same_batch) {
    const Output shape_x = g.Call("Shape", {x});
    const Output shape_y = g.Call("Shape", {y});
    const auto batch = [&](Output shape) {
      return g.Call("StridedSlice", {shape, g.Constant(Tensor::Vector<int32_t>({0})),
                                     g.Constant(Tensor::Vector<int32_t>({-2})),
                                     g.Constant(Tensor::Vector<int32_t>({1}))});
    };
    const std::vector<Output> axes =
        g.CallMulti("BroadcastGradientArgs", {batch(shape_x), batch(shape_y)});
    if (axes.size() != 2) return g.status();
    dx = g.Call("Reshape", {g.Call("Sum", {dx, axes[0]}), shape_x});
    dy = g.Call("Reshape", {g.Call("Sum", {dy, axes[1]}), shape_y});
  }
  g.SetInputGradient(0, dx);
  g.SetInputGradient(1, dy);
  return absl::OkStatus();
}

KernelDef SameTypes() {
  return ByType<BatchMatMulKernel, float, double, Float16, Bfloat16, int16_t, int32_t, int64_t,
                std::complex<float>, std::complex<double>>("T");
}

template <typename T>
KernelDef V3(std::vector<DataType> arguments) {
  KernelDef def = Make<MixedBatchMatMulKernel<T>>("Tout", {DataTypeOf<T>()});
  def.types.push_back({"Ta", arguments});
  def.types.push_back({"Tb", std::move(arguments)});
  return def;
}

TANDEM_OP("BatchMatMul")
    .Inputs("x:T, y:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{bfloat16,float16,float32,float64,int32,int64,complex64,complex128}; "
        "adj_x:bool=False; adj_y:bool=False; grad_x:bool=False; grad_y:bool=False")
    .Shape([](ShapeContext& c) { return Shapes(c, false); })
    .Gradient(BatchMatMulGradient)
    .Cpu(SameTypes());

TANDEM_OP("BatchMatMulV2")
    .Inputs("x:T, y:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{bfloat16,float16,float32,float64,int16,int32,int64,uint8,uint16,uint32,uint64,"
        "complex64,complex128}; adj_x:bool=False; adj_y:bool=False; grad_x:bool=False; "
        "grad_y:bool=False")
    .Shape([](ShapeContext& c) { return Shapes(c, true); })
    .Gradient(BatchMatMulGradient)
    .Cpu(SameTypes());

TANDEM_OP("BatchMatMulV3")
    .Inputs("x:Ta, y:Tb")
    .Outputs("output:Tout")
    .Attrs(
        "Ta:type{bfloat16,float16,float32,float64,uint8,int8,int16,int32,int64,complex64,"
        "complex128}; Tb:type{bfloat16,float16,float32,float64,uint8,int8,int16,int32,int64,"
        "complex64,complex128}; Tout:type{bfloat16,float16,float32,float64,int16,int32,int64,"
        "complex64,complex128}; adj_x:bool=False; adj_y:bool=False; grad_x:bool=False; "
        "grad_y:bool=False")
    .Shape([](ShapeContext& c) { return Shapes(c, true); })
    .Gradient(BatchMatMulGradient)
    .Cpu(V3<float>({kFloat32}))
    .Cpu(V3<double>({kFloat64}))
    .Cpu(V3<Float16>({kFloat16}))
    .Cpu(V3<Bfloat16>({kBfloat16, kInt8, kUint8}))
    .Cpu(V3<int16_t>({DataType::kInt16}))
    .Cpu(V3<int32_t>({kInt32, kInt8, kUint8}))
    .Cpu(V3<int64_t>({kInt64}))
    .Cpu(V3<std::complex<float>>({kComplex64}))
    .Cpu(V3<std::complex<double>>({kComplex128}));

}  // namespace
}  // namespace tandem
