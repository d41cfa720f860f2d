// MaxPool3D, MaxPool3DGrad and MaxPool3DGradGrad: the largest element of each window of volumes.
//
// Of equal elements in a window each gets the whole gradient, as TensorFlow's kernel has it (that
// of images gives all to the first one); the gradient's gradient is that of the first. The gradient
// ops look at the input again instead of trusting `orig_output`.
#include <algorithm>
#include <cstdint>
#include <string>
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
  // The geometry of a gradient op, whose input 1 and `like_output` must be shaped like the pool.
  absl::StatusOr<VolumePool> GradientPool(KernelContext& c, const Tensor& like_output) const {
    const Shape& input = c.input(0).shape();
    TANDEM_ASSIGN_OR_RETURN(VolumePool pool, VolumePool::Make(attrs_, input));
    if (like_output.shape() == pool.output && c.input(1).shape() == pool.output) return pool;
    return errors::InvalidArgument("the pool of an input of shape ", input.DebugString(),
                                   " has shape ", pool.output.DebugString(),
                                   ", which orig_output of shape ",
                                   c.input(1).shape().DebugString(), " and the gradient of shape ",
                                   like_output.shape().DebugString(), " must have too");
  }

  VolumeAttrs attrs_;
};

// The largest elements of a window, one for each channel, and where in the volume they are.
template <typename T>
struct Largest {
  using C = ComputeType<T>;

  explicit Largest(int64_t channels)
      : value(static_cast<size_t>(channels)), place(static_cast<size_t>(channels)) {}

  void Find(const VolumePool& p, const T* volume, const Block& block) {
    bool is_first = true;
    block.ForEachVoxel(p, [&](int64_t voxel) {
      for (int64_t k = 0; k < p.channels; ++k) {
        const C x = static_cast<C>(volume[voxel + k]);
        const auto i = static_cast<size_t>(k);
        const bool larger = is_first || value[i] < x;
        value[i] = larger ? x : value[i];
        place[i] = larger ? voxel + k : place[i];
      }
      is_first = false;
    });
  }

  std::vector<C> value;
  std::vector<int64_t> place;
};

template <typename T>
class MaxPool3DKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const VolumePool p, VolumePool::Make(attrs_, c.input(0).shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = c.input(0).Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    c.parallel().For(p.batch, p.Cost(0.5), [&](int64_t begin, int64_t end) {
      Largest<T> largest(p.channels);
      for (int64_t n = begin; n < end; ++n) {
        ForEachWindow(p, [&](int64_t out, const Block& block) {
          largest.Find(p, x + n * p.InputVolume(), block);
          FromCompute(largest.value.data(), y + n * p.OutputVolume() + out, p.channels);
        });
      }
    });
    return absl::OkStatus();
  }
};

template <typename T>
class MaxPool3DGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const VolumePool p, GradientPool(c, c.input(2)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, c.input(0).shape()));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = c.input(0).Elements<T>().data();
    const T* const dy = c.input(2).Elements<T>().data();
    T* const dx = output->MutableElements<T>().data();
    c.parallel().For(p.batch, p.Cost(1), [&](int64_t begin, int64_t end) {
      Largest<T> largest(p.channels);
      std::vector<C> sums(static_cast<size_t>(p.InputVolume()));
      for (int64_t n = begin; n < end; ++n) {
        const T* const gradient = dy + n * p.OutputVolume();
        std::fill(sums.begin(), sums.end(), C(0));
        ForEachWindow(p, [&](int64_t out, const Block& block) {
          largest.Find(p, x + n * p.InputVolume(), block);
          block.ForEachVoxel(p, [&](int64_t voxel) {
            const T* const from = x + n * p.InputVolume() + voxel;
            C* const to = sums.data() + voxel;
            for (int64_t k = 0; k < p.channels; ++k) {
              const bool is_largest =
                  static_cast<C>(from[k]) == largest.value[static_cast<size_t>(k)];
              to[k] += is_largest ? static_cast<C>(gradient[out + k]) : C(0);
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

template <typename T>
class MaxPool3DGradGradKernel : public PoolKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& gradient = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const VolumePool p, GradientPool(c, c.input(1)));
    if (gradient.shape() != c.input(0).shape()) {
      return errors::InvalidArgument("the gradient of shape ", gradient.shape().DebugString(),
                                     " must be shaped like the input, ",
                                     c.input(0).shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, p.output));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const x = c.input(0).Elements<T>().data();
    const T* const g = gradient.Elements<T>().data();
    T* const y = output->MutableElements<T>().data();
    c.parallel().For(p.batch, p.Cost(1), [&](int64_t begin, int64_t end) {
      Largest<T> largest(p.channels);
      for (int64_t n = begin; n < end; ++n) {
        ForEachWindow(p, [&](int64_t out, const Block& block) {
          largest.Find(p, x + n * p.InputVolume(), block);
          for (int64_t k = 0; k < p.channels; ++k) {
            y[n * p.OutputVolume() + out + k] =
                g[n * p.InputVolume() + largest.place[static_cast<size_t>(k)]];
          }
        });
      }
    });
    return absl::OkStatus();
  }
};

AttrMap SameAttrs(const GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    attrs.emplace(name, g.node().attrs().find(name)->second);
  }
  return attrs;
}

absl::Status MaxPool3DGradient(GradientContext& g) {
  g.SetInputGradient(
      0, g.Call("MaxPool3DGrad", {g.input(0), g.output(0), g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}
// Where the largest elements are does not change with the input, almost everywhere; so the only
// gradients are those of the third input, in which these ops are linear.
absl::Status OfThird(GradientContext& g, const char* op) {
  g.SetInputGradient(0, g.Call("ZerosLike", {g.input(0)}));
  g.SetInputGradient(1, g.Call("ZerosLike", {g.input(1)}));
  g.SetInputGradient(2, g.Call(op, {g.input(0), g.input(1), g.OutputGradient(0)}, SameAttrs(g)));
  return absl::OkStatus();
}

// Both types of the gradient op are T.
template <typename T>
KernelDef GradKernel() {
  KernelDef def = Make<MaxPool3DGradKernel<T>>("T", {DataTypeOf<T>()});
  def.types.push_back({"TInput", {DataTypeOf<T>()}});
  return def;
}

TANDEM_OP("MaxPool3D")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=5; strides:list(int)>=5; padding:string{SAME,VALID}; "
        "data_format:string{NDHWC,NCDHW}=NDHWC; T:type{float16,bfloat16,float32}")
    .Shape(VolumePoolShape)
    .Gradient(MaxPool3DGradient)
    .Cpu(ByType<MaxPool3DKernel, float, Float16, Bfloat16>("T"));

TANDEM_OP("MaxPool3DGrad")
    .Inputs("orig_input:TInput, orig_output:TInput, grad:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=5; strides:list(int)>=5; padding:string{SAME,VALID}; "
        "data_format:string{NDHWC,NCDHW}=NDHWC; T:type{float16,bfloat16,float32}=float32; "
        "TInput:type{float16,bfloat16,float32}=float32")
    .Shape(UnchangedShape)
    .Gradient([](GradientContext& g) { return OfThird(g, "MaxPool3DGradGrad"); })
    .Cpu(GradKernel<float>())
    .Cpu(GradKernel<Float16>())
    .Cpu(GradKernel<Bfloat16>());

TANDEM_OP("MaxPool3DGradGrad")
    .Inputs("orig_input:T, orig_output:T, grad:T")
    .Outputs("output:T")
    .Attrs(
        "ksize:list(int)>=5; strides:list(int)>=5; padding:string{SAME,VALID}; "
        "data_format:string{NDHWC,NCDHW}=NDHWC; "
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape([](ShapeContext& c) { return c.SetOutput(0, c.input(1)); })
    .Gradient([](GradientContext& g) { return OfThird(g, "MaxPool3DGrad"); })
    .Cpu(ByType<MaxPool3DGradGradKernel, float, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem
