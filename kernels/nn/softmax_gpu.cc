// Softmax, LogSoftmax and the cross entropies on GPUs.
//
// Labels lie on the device, where nobody can refuse them: one that is no class makes the loss and
// the gradient of its row not a number, as in TensorFlow.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/gpu.h"
#include "core/op/registry.h"
#include "kernels/common/broadcast.h"
#include "kernels/nn/softmax_gpu_code.h"

namespace tandem {
namespace {

constexpr uint32_t kThreads = 128;  // As softmax_gpu.cu.cc has it.

const std::vector<DataType> kTypes = {kFloat32, kFloat64, kFloat16, kBfloat16};

class SoftmaxOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    log_ = init.op().name == "LogSoftmax";
    name_ = absl::StrCat("Softmax_", DataTypeName(init.Attr<DataType>("T")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& logits = c.input(0);
    const int rank = logits.shape().rank();
    if (rank < 1) return errors::InvalidArgument("logits must have rank 1 at least, not 0");
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.ForwardOrAllocate({0}, 0, logits.shape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const int64_t columns = output->shape().dim(rank - 1);
    const int64_t rows = output->num_elements() / columns;
    const GpuFunction<const void*, void*, int64_t, int64_t, bool> function{
        {&kSoftmaxGpuCode, name_.c_str()}};
    return GpuQueueOf(c.device())
        .Run(function, GridForRows(rows, kThreads), c.input(0).data(), output->mutable_data(), rows,
             columns, log_);
  }

 private:
  bool log_ = false;
  std::string name_;
};

// (logits, labels, loss, backprop, rows, columns, and for both inputs what lies between two rows).
using CrossEntropyFunction =
    GpuFunction<const void*, const void*, void*, void*, int64_t, int64_t, int64_t, int64_t>;

// The last part of both cross entropies: the inputs fit each other.
absl::Status RunCrossEntropy(KernelContext& c, const std::string& name, int64_t rows,
                             int64_t columns, int64_t logits_stride, int64_t labels_stride) {
  TANDEM_ASSIGN_OR_RETURN(Tensor* const loss, c.AllocateOutput(0, Shape({rows})));
  TANDEM_ASSIGN_OR_RETURN(Tensor* const backprop, c.AllocateOutput(1, Shape({rows, columns})));
  GpuQueue& queue = GpuQueueOf(c.device());
  if (rows == 0) return absl::OkStatus();
  if (columns == 0) return queue.Fill(loss->mutable_data(), 0, loss->num_bytes());
  const CrossEntropyFunction function{{&kSoftmaxGpuCode, name.c_str()}};
  return queue.Run(function, GridForRows(rows, kThreads), c.input(0).data(), c.input(1).data(),
                   loss->mutable_data(), backprop->mutable_data(), rows, columns, logits_stride,
                   labels_stride);
}

class SparseCrossEntropyOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    name_ = absl::StrCat("SparseCrossEntropy_", DataTypeName(init.Attr<DataType>("T")), "_",
                         DataTypeName(init.Attr<DataType>("Tlabels")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Shape& logits = c.input(0).shape();
    const Shape& labels = c.input(1).shape();
    if (!logits.IsMatrix() || !labels.IsVector() || logits.dim(0) != labels.dim(0)) {
      return errors::InvalidArgument("logits of shape ", logits.DebugString(),
                                     " and labels of shape ", labels.DebugString(),
                                     " must be a matrix and a vector with an entry for each row");
    }
    if (logits.dim(1) < 1) {
      return errors::InvalidArgument("logits of shape ", logits.DebugString(),
                                     " must have one class at least");
    }
    return RunCrossEntropy(c, name_, logits.dim(0), logits.dim(1), logits.dim(1), 1);
  }

 private:
  std::string name_;
};

class CrossEntropyOnGpu final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    name_ = absl::StrCat("CrossEntropy_", DataTypeName(init.Attr<DataType>("T")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Shape& logits = c.input(0).shape();
    const Shape& labels = c.input(1).shape();
    const absl::StatusOr<BroadcastPlan> both = BroadcastPlan::Make({&logits, &labels});
    if (!logits.IsMatrix() || !labels.IsMatrix() || !both.ok()) {
      return errors::InvalidArgument("logits of shape ", logits.DebugString(),
                                     " and labels of shape ", labels.DebugString(),
                                     " must be matrices of one shape, or broadcast to one");
    }
    const int64_t rows = both->output_shape().dim(0);
    const int64_t columns = both->output_shape().dim(1);
    if (logits.dim(1) != labels.dim(1)) {
      return errors::Unimplemented("on a GPU logits of shape ", logits.DebugString(),
                                   " and labels of shape ", labels.DebugString(),
                                   " must have as many columns; place the op on the CPU");
    }
    return RunCrossEntropy(c, name_, rows, columns, logits.dim(0) == rows ? columns : 0,
                           labels.dim(0) == rows ? columns : 0);
  }

 private:
  std::string name_;
};

KernelDef OnGpu(KernelDef def) {
  def.device = kCuda;
  return def;
}

TANDEM_KERNEL("Softmax", OnGpu(Make<SoftmaxOnGpu>("T", kTypes)));
TANDEM_KERNEL("LogSoftmax", OnGpu(Make<SoftmaxOnGpu>("T", kTypes)));
TANDEM_KERNEL("SparseSoftmaxCrossEntropyWithLogits",
              OnGpu(Make<SparseCrossEntropyOnGpu>("T", kTypes)));
TANDEM_KERNEL("SoftmaxCrossEntropyWithLogits", OnGpu(Make<CrossEntropyOnGpu>("T", kTypes)));

}  // namespace
}  // namespace tandem
