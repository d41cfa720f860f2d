// _FusedConv2D: activation(convolution(input, filter) + bias). Made by graph passes, Tandem's and
// TensorFlow's.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "kernels/nn/conv2d_common.h"
#include "kernels/nn/fused_activation.h"

namespace tandem {
namespace {

// The largest magnitude among `n` numbers; larger than all of them, or not a number, when there is
// one that is not. Magnitudes are ordered as their bits are, with infinity and then all that is no
// number above the others.
float LargestMagnitude(const float* x, int64_t n, ParallelRunner& parallel) {
  std::atomic<uint32_t> largest{0};
  parallel.For(n, 0.1, [&](int64_t begin, int64_t end) {
    uint32_t most = 0;
    for (int64_t i = begin; i < end; ++i) {
      most = std::max(most, absl::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
    }
    uint32_t before = largest.load(std::memory_order_relaxed);
    while (before < most && !largest.compare_exchange_weak(before, most)) {
    }
  });
  return absl::bit_cast<float>(largest.load());
}

class FusedConv2DKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(attrs_, ConvolutionAttrs(init, absl::StatusCode::kUnimplemented));
    TANDEM_ASSIGN_OR_RETURN(activation_,
                            ParseFusedOps(init.Attr<std::vector<std::string>>("fused_ops"),
                                          init.Attr<float>("leakyrelu_alpha")));
    if (init.Attr<std::string>("filter_format") != "HWIO") {
      return errors::Unimplemented("filters in the layout ",
                                   init.Attr<std::string>("filter_format"), "; known is HWIO");
    }
    if (init.num_inputs() != 3 || init.input_dtype(2) != init.input_dtype(0)) {
      return errors::InvalidArgument(
          "a bias of the input's type is the only argument of these "
          "fused_ops; there are ",
          init.num_inputs() - 2);
    }
    filters_ = NewFilterCache(FilterCacheOptions(init));
    magnitude_ = std::make_unique<PackedWeights<int>>(FilterCacheOptions(init));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    const Tensor& filter = c.input(1);
    const Tensor& bias = c.input(2);
    TANDEM_ASSIGN_OR_RETURN(const Convolution conv,
                            MakeConvolution(attrs_, input.shape(), filter.shape()));
    if (!bias.shape().IsVector() || bias.num_elements() != conv.out_channels) {
      return errors::InvalidArgument("a bias of shape ", bias.shape().DebugString(),
                                     " does not fit ", conv.out_channels, " output channels");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, OutputShape(conv)));
    if (output->num_elements() == 0) return absl::OkStatus();
    if (input.num_elements() == 0) {
      return errors::InvalidArgument("an input of shape ", input.shape().DebugString(),
                                     " has no channels to convolve");
    }
    TANDEM_ASSIGN_OR_RETURN(const Tensor x, ToFloat(c, input));
    TANDEM_ASSIGN_OR_RETURN(const Tensor w, ToFloat(c, filter));
    TANDEM_ASSIGN_OR_RETURN(const Tensor b, ToFloat(c, bias));
    Tensor result = *output;
    if (output->dtype() != kFloat32) {
      TANDEM_ASSIGN_OR_RETURN(result, c.AllocateTemporary(kFloat32, output->shape()));
    }
    float* const to = result.MutableElements<float>().data();
    // oneDNN's activations may make a zero of what is no number. Where such could arise they come
    // after the convolution instead.
    const bool finite =
        activation_.kind == ActivationKind::kNone || StaysFinite(c, conv, x, w, b, filter);
    TANDEM_RETURN_IF_ERROR(ConvolveFloat(
        conv, x.Elements<float>().data(), {w.Elements<float>().data(), filter, filters_.get()},
        b.Elements<float>().data(), finite ? activation_ : FusedActivation(), to,
        c.parallel().parallelism()));
    if (!finite) Activate(to, result.num_elements(), activation_, c.parallel());
    FromFloat(result, *output, c.parallel());
    return absl::OkStatus();
  }

 private:
  // True when no sum of the convolution can overflow, let alone be no number.
  bool StaysFinite(KernelContext& c, const Convolution& conv, const Tensor& x, const Tensor& w,
                   const Tensor& b, const Tensor& filter) {
    const auto largest = [&](const Tensor& t) {
      return LargestMagnitude(t.Elements<float>().data(), t.num_elements(), c.parallel());
    };
    const auto of_filter = [&](void* to) {
      const float magnitude = largest(w);
      std::memcpy(to, &magnitude, sizeof(magnitude));
    };
    float filter_magnitude;
    if (const auto kept = magnitude_->Get(filter, 0, sizeof(filter_magnitude), of_filter)) {
      std::memcpy(&filter_magnitude, kept->data(), sizeof(filter_magnitude));
    } else {
      of_filter(&filter_magnitude);
    }
    const auto terms = static_cast<double>(w.num_elements() / conv.out_channels);
    return static_cast<double>(largest(x)) * filter_magnitude * terms + largest(b) <
           std::numeric_limits<float>::max() / 2;
  }

  WindowAttrs attrs_;
  FusedActivation activation_;
  std::shared_ptr<FilterCache> filters_;
  // The largest magnitude in a filter; there is one "layout".
  std::unique_ptr<PackedWeights<int>> magnitude_;
};

TANDEM_OP("_FusedConv2D")
    .Inputs("input:T, filter:T, args:TArgs, host_args:num_host_args*float32")
    .Outputs("output:T")
    .Attrs(
        "T:type{float16,float32,float64,int8,qint8}; TArgs:list(type); num_args:int>=0; "
        "num_host_args:int>=0=0; strides:list(int); padding:string{SAME,VALID,EXPLICIT}; "
        "explicit_paddings:list(int)=[]; data_format:string{NHWC,NCHW,NCHW_VECT_C}=NHWC; "
        "filter_format:string{HWIO,OIHW,OIHW_VECT_I}=HWIO; dilations:list(int)=[1,1,1,1]; "
        "use_cudnn_on_gpu:bool=True; fused_ops:list(string)=[]; epsilon:float=0.0001; "
        "leakyrelu_alpha:float=0.2")
    .HostMemory({"host_args"})
    .Shape(Conv2DShape)
    .Cpu(Make<FusedConv2DKernel>("T", {kFloat16, kFloat32}));

}  // namespace
}  // namespace tandem
