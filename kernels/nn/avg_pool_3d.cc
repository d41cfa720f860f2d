// AvgPool3D and AvgPool3DGrad. Padding does not count: a window at the border divides by the number
// of elements that it has.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/nn/vector_math.h"
#include "kernels/nn/volume_pool.h"

namespace tandem {
namespace {

class PoolKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, VolumePoolAttrs(init));
    return absl::OkStatus();
  }

 protected:
  VolumeAttrs attrs_;
};

template <typename T>
class AvgPool3DKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const VolumePool p, VolumePool::Make(attrs_, c.input(0).shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = c.input(0).Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    c.parallel().For(p.batch, p.Cost(0.3), [&](int64_t begin, int64_t end) {
      std::vector<C> sums(static_cast<size_t>(p.channels));
      for (int64_t n = begin; n < end; ++n) {
        const T* const volume = x + n * p.InputVolume();
        T* const to = y + n * p.OutputVolume();
        ForEachWindow(p, [&](int64_t out, const Block& block) {
          std::fill(sums.begin(), sums.end(), C(0));
          block.ForEachVoxel(p, [&](int64_t voxel) {
            for (int64_t k = 0; k < p.channels; ++k) {
              sums[static_cast<size_t>(k)] += static_cast<C>(volume[voxel + k]);
            }
          });
          const C size = static_cast<C>(block.size());
          for (int64_t k = 0; k < p.channels; ++k) {
            to[out + k] = T(sums[static_cast<size_t>(k)] / size);
          }
        });
      }
    });
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;
};

template <typename T>
class AvgPool3DGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& dy = c.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Shape input, VolumeSizes(c.input(0), "orig_input_shape"));
    TANDEM_ASSIGN_OR_RETURN(const VolumePool p, VolumePool::Make(attrs_, input));
    if (dy.shape() != p.output) {
      return errors::InvalidArgument("the pool of an input of shape ", input.DebugString(),
                                     " has shape ", p.output.DebugString(), ", the gradient ",
                                     dy.shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, input));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const gradients = dy.Elements<T>().data();
    T* const dx = output->MutableElements<T>().data();
    c.parallel().For(p.batch, p.Cost(0.5), [&](int64_t begin, int64_t end) {
      std::vector<C> sums(static_cast<size_t>(p.InputVolume()));
      for (int64_t n = begin; n < end; ++n) {
        const T* const gradient = gradients + n * p.OutputVolume();
        std::fill(sums.begin(), sums.end(), C(0));
        ForEachWindow(p, [&](int64_t out, const Block& block) {
          const C scale = C(1) / static_cast<C>(block.size());
          block.ForEachVoxel(p, [&](int64_t voxel) {
            C* const to = sums.data() + voxel;
            for (int64_t k = 0; k < p.channels; ++k) {
              to[k] += static_cast<C>(gradient[out + k]) * scale;
            }
          });
        });
        FromCompute(sums.data(), dx + n * p.InputVolume(), p.InputVolume());
      }
    });
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;
};

absl::Status AvgPool3DGradShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(VolumePoolAttrs(c).status());
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape sizes, c.InputAsShape(0));
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, sizes.MergeWith(PartialShape::UnknownOfRank(5)));
  return c.SetOutput(0, std::move(output));
}

AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

absl::Status AvgPool3DGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("AvgPool3DGrad",
                               {g.Call("Shape", {g.input(0)}), g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}
absl::Status AvgPool3DGradGradient(GradientContext& g) {
  g.SetInputGradient(1, g.Call("AvgPool3D", {g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}

constexpr char kAttrs[] =
    "ksize:list(int)>=5; strides:list(int)>=5; padding:string{SAME,VALID}; "
    "data_format:string{NDHWC,NCDHW}=NDHWC; T:type{float16,bfloat16,float32,float64}";

TANDEM_OP("AvgPool3D")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .Shape(VolumePoolShape)
    .Gradient(AvgPool3DGradient)
    .Cpu(ByType<AvgPool3DKernel, float, double, Float16, Bfloat16>("T"));

TANDEM_OP("AvgPool3DGrad")
    .Inputs("orig_input_shape:int32, grad:T")
    .Outputs("output:T")
    .Attrs(kAttrs)
    .HostMemory({"orig_input_shape"})
    .Shape(AvgPool3DGradShape)
    .Gradient(AvgPool3DGradGradient)
    .Cpu(ByType<AvgPool3DGradKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
