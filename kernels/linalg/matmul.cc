// MatMul: the product of two matrices, either of which may be given transposed.
#include <complex>

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

template <typename T>
class MatMulKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    transpose_a_ = init.Attr<bool>("transpose_a");
    transpose_b_ = init.Attr<bool>("transpose_b");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& a = c.input(0);
    const Tensor& b = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const MatMulSizes sizes,
                            SizesOfMatMul(a.shape(), b.shape(), transpose_a_, transpose_b_));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const product, c.AllocateOutput(0, Shape({sizes.m, sizes.n})));
    Gemm<T> gemm;
    gemm.m = sizes.m, gemm.n = sizes.n, gemm.k = sizes.k;
    gemm.a = a.Elements<T>().data(), gemm.lda = a.shape().dim(1), gemm.transpose_a = transpose_a_;
    gemm.b = b.Elements<T>().data(), gemm.ldb = b.shape().dim(1), gemm.transpose_b = transpose_b_;
    gemm.c = product->MutableElements<T>().data(), gemm.ldc = sizes.n;
    return RunGemm(gemm, c.parallel());
  }

 private:
  bool transpose_a_ = false;
  bool transpose_b_ = false;
};

// product = a b:  da = dproduct bᵀ,  db = aᵀ dproduct. A transposed argument's gradient is computed
// transposed, so that no transposition is left over.
absl::Status MatMulGradient(GradientContext& g) {
  const bool ta = g.Attr<bool>("transpose_a");
  const bool tb = g.Attr<bool>("transpose_b");
  const Output dy = g.OutputGradient(0);
  const Output a = g.Conjugate(g.input(0));
  const Output b = g.Conjugate(g.input(1));
  const auto product = [&](Output x, Output y, bool tx, bool ty) {
    return g.Call("MatMul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
  };
  g.SetInputGradient(0, ta ? product(b, dy, tb, true) : product(dy, b, false, !tb));
  g.SetInputGradient(1, tb ? product(dy, a, true, ta) : product(a, dy, !ta, false));
  return absl::OkStatus();
}

TANDEM_OP("MatMul")
    .Inputs("a:T, b:T")
    .Outputs("product:T")
    .Attrs(
        "transpose_a:bool=False; transpose_b:bool=False; "
        "T:type{bfloat16,float16,float32,float64,int32,int64,uint8,uint16,uint32,uint64,"
        "complex64,complex128}; grad_a:bool=False; grad_b:bool=False")
    .Shape(MatMulShape)
    .Gradient(MatMulGradient)
    .Cpu(ByType<MatMulKernel, float, double, Float16, Bfloat16, int32_t, int64_t,
                std::complex<float>, std::complex<double>>("T"));

}  // namespace
}  // namespace tandem
