// _TandemCompress and _TandemSumCompressed: gradients in the form in which they travel between
// processes (gradient_codec.h). Made by strategies only; never part of an exported graph.
#include <algorithm>
#include <string>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/collective/gradient_codec.h"

namespace tandem {
namespace {

// With the codec that the attribute names.
class CodecKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(const GradientCodec codec,
                            GradientCodec::Parse(init.Attr<std::string>("codec")));
    codec_.emplace(codec);
    return absl::OkStatus();
  }

 protected:
  const GradientCodec& codec() const { return *codec_; }

 private:
  absl::optional<GradientCodec> codec_;
};

absl::Status CheckAlike(const KernelContext& c) {
  if (c.input(0).shape() == c.input(1).shape()) return absl::OkStatus();
  return errors::InvalidArgument("the gradient has shape ", c.input(0).shape().DebugString(),
                                 ", and what was left of the last one ",
                                 c.input(1).shape().DebugString());
}

class CompressKernel final : public CodecKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckAlike(c));
    const Tensor gradient = c.input(0);
    const Tensor residual = c.input(1);
    const int64_t elements = gradient.num_elements();
    TANDEM_ASSIGN_OR_RETURN(Tensor* const payload,
                            c.AllocateOutput(0, Shape({1, codec().PayloadBytes(elements)})));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const left, c.AllocateOutput(1, residual.shape()));
    const auto from = residual.Elements<float>();
    const auto to = left->MutableElements<float>();
    std::copy(from.begin(), from.end(), to.begin());
    codec().Encode(gradient.Elements<float>(), to,
                   absl::MakeSpan(static_cast<char*>(payload->mutable_data()),
                                  static_cast<size_t>(payload->num_elements())));
    return absl::OkStatus();
  }
};

class SumCompressedKernel final : public CodecKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor payloads = c.input(0);
    if (payloads.shape().rank() != 2) {
      return errors::InvalidArgument("compressed gradients have shape ",
                                     payloads.shape().DebugString(), "; a row each is wanted");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const sum, c.AllocateOutput(0, c.input(1).shape()));
    const auto elements = sum->MutableElements<float>();
    std::fill(elements.begin(), elements.end(), 0.0f);
    const auto bytes = static_cast<size_t>(payloads.shape().dim(1));
    const char* const data = static_cast<const char*>(payloads.data());
    // One after the other, so that all processes get the same bits.
    for (int64_t row = 0; row < payloads.shape().dim(0); ++row) {
      TANDEM_RETURN_IF_ERROR(codec().DecodeAdd(
          absl::MakeConstSpan(data + static_cast<size_t>(row) * bytes, bytes), elements));
    }
    return absl::OkStatus();
  }
};

absl::Status CompressShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({1, PartialShape::kUnknownDim})));
  return c.SetOutput(1, c.input(0));
}

absl::Status SumCompressedShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  return c.SetOutput(0, c.input(1));
}

TANDEM_OP("_TandemCompress")
    .Inputs("gradient:float, residual:float")
    .Outputs("payload:uint8, left:float")
    .Attrs("codec:string")
    .Shape(CompressShape)
    .NotDifferentiable()
    .HostMemory({"gradient", "residual", "payload", "left"})
    .Cpu(Make<CompressKernel>());

// `like`: of the shape of the sum.
TANDEM_OP("_TandemSumCompressed")
    .Inputs("payloads:uint8, like:float")
    .Outputs("sum:float")
    .Attrs("codec:string")
    .Shape(SumCompressedShape)
    .NotDifferentiable()
    .HostMemory({"payloads", "like", "sum"})
    .Cpu(Make<SumCompressedKernel>());

}  // namespace
}  // namespace tandem
