// Softmax and LogSoftmax, over the last dimension.
#include <cmath>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/softmax_rows.h"

namespace tandem {
namespace {

template <typename T>
class SoftmaxKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    log_ = init.op().name == "LogSoftmax";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    using C = ComputeType<T>;
    const Tensor& logits = c.input(0);
    const int rank = logits.shape().rank();
    if (rank < 1) return errors::InvalidArgument("logits must have rank 1 at least, not 0");
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, logits.shape()));
    if (logits.num_elements() == 0) return absl::OkStatus();
    const int64_t columns = logits.shape().dim(rank - 1);
    const int64_t rows = logits.num_elements() / columns;
    T* const to = output->MutableElements<T>().data();
    ForSoftmaxBlocks(logits.Elements<T>().data(), rows, columns, columns, c.parallel(),
                     [&](const SoftmaxBlock<C>& block) {
                       C* const result = log_ ? block.shifted : block.exps;
                       for (int64_t r = 0; r < block.rows; ++r) {
                         C* const x = result + r * columns;
                         if (log_) {
                           const C log_sum = std::log(block.sums[r]);
                           for (int64_t j = 0; j < columns; ++j) x[j] -= log_sum;
                         } else {
                           const C scale = C(1) / block.sums[r];
                           for (int64_t j = 0; j < columns; ++j) x[j] *= scale;
                         }
                       }
                       FromCompute(result, to + block.first_row * columns, block.rows * columns);
                     });
    return absl::OkStatus();
  }

 private:
  bool log_ = false;
};

absl::Status VectorsShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  return UnchangedShape(c);
}

Output SumOfRows(GradientContext& g, Output x) {
  return g.Call("Sum", {x, g.Constant(Tensor::Scalar<int32_t>(-1))}, {{"keep_dims", true}});
}

// dx = (dy - sum(dy y)) y
absl::Status SoftmaxGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output y = g.output(0);
  const Output sums = SumOfRows(g, g.Call("Mul", {dy, y}));
  g.SetInputGradient(0, g.Call("Mul", {g.Call("Sub", {dy, sums}), y}));
  return absl::OkStatus();
}

// dx = dy - sum(dy) exp(y)
absl::Status LogSoftmaxGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output softmax = g.Call("Exp", {g.output(0)});
  g.SetInputGradient(0, g.Call("Sub", {dy, g.Call("Mul", {SumOfRows(g, dy), softmax})}));
  return absl::OkStatus();
}

TANDEM_OP("Softmax")
    .Inputs("logits:T")
    .Outputs("softmax:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(VectorsShape)
    .Gradient(SoftmaxGradient)
    .Cpu(ByType<SoftmaxKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("LogSoftmax")
    .Inputs("logits:T")
    .Outputs("logsoftmax:T")
    .Attrs("T:type{float16,bfloat16,float32,float64}")
    .Shape(VectorsShape)
    .Gradient(LogSoftmaxGradient)
    .Cpu(ByType<SoftmaxKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
