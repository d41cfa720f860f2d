// _FusedMatMul: activation(a b + bias). Made by graph passes, Tandem's and TensorFlow's.
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "kernels/linalg/gemm.h"
#include "kernels/linalg/matmul_shape.h"
#include "kernels/nn/fused_activation.h"

namespace tandem {
namespace {

template <typename T>
class FusedMatMulKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    transpose_a_ = init.Attr<bool>("transpose_a");
    transpose_b_ = init.Attr<bool>("transpose_b");
    TANDEM_ASSIGN_OR_RETURN(activation_,
                            ParseFusedOps(init.Attr<std::vector<std::string>>("fused_ops"),
                                          init.Attr<float>("leakyrelu_alpha")));
    if (init.num_inputs() != 3) {
      return errors::InvalidArgument("a bias is the only argument of these fused_ops; there are ",
                                     init.num_inputs() - 2);
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& a = c.input(0);
    const Tensor& b = c.input(1);
    const Tensor& bias = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const MatMulSizes sizes,
                            SizesOfMatMul(a.shape(), b.shape(), transpose_a_, transpose_b_));
    if (!bias.shape().IsVector() || bias.num_elements() != sizes.n) {
      return errors::InvalidArgument("a bias of shape ", bias.shape().DebugString(),
                                     " does not fit a product with ", sizes.n, " columns");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const product, c.AllocateOutput(0, Shape({sizes.m, sizes.n})));
    Gemm<T> gemm;
    gemm.m = sizes.m, gemm.n = sizes.n, gemm.k = sizes.k;
    gemm.a = a.Elements<T>().data(), gemm.lda = a.shape().dim(1), gemm.transpose_a = transpose_a_;
    gemm.b = b.Elements<T>().data(), gemm.ldb = b.shape().dim(1), gemm.transpose_b = transpose_b_;
    gemm.c = product->MutableElements<T>().data(), gemm.ldc = sizes.n;
    TANDEM_RETURN_IF_ERROR(RunGemm(gemm, c.parallel()));
    AddBiasAndActivate(gemm.c, sizes.m, sizes.n, bias.Elements<T>().data(), activation_,
                       c.parallel());
    return absl::OkStatus();
  }

 private:
  bool transpose_a_ = false;
  bool transpose_b_ = false;
  FusedActivation activation_;
};

TANDEM_OP("_FusedMatMul")
    .Inputs("a:T, b:T, args:num_args*T")
    .Outputs("product:T")
    .Attrs(
        "transpose_a:bool=False; transpose_b:bool=False; T:type{bfloat16,float16,float32}; "
        "num_args:int>=0; fused_ops:list(string)=[]; epsilon:float=0.0001; "
        "leakyrelu_alpha:float=0.2")
    .Shape(MatMulShape)
    .Cpu(ByType<FusedMatMulKernel, float, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
