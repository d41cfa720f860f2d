// AudioSummaryV2: sounds as WAV files (core/io/wav.h).
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"
#include "kernels/io/summary_values.h"

namespace tandem::io {
namespace {

class AudioSummaryKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    max_outputs_ = init.Attr<int64_t>("max_outputs");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 0, "tag"));
    TANDEM_ASSIGN_OR_RETURN(const float rate, ScalarNumber<float>(c, 2, "sample_rate"));
    tensorflow::Summary summary;
    TANDEM_RETURN_IF_ERROR(AddAudioValues(tag, c.input(1), max_outputs_, rate, summary));
    return OutputSummary(c, summary);
  }

 private:
  int64_t max_outputs_ = 0;
};

TANDEM_OP("AudioSummaryV2")
    .Inputs("tag:string, tensor:float32, sample_rate:float32")
    .Outputs("summary:string")
    .Attrs("max_outputs:int>=1=3")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tag", "tensor", "sample_rate", "summary"})
    .Cpu(Make<AudioSummaryKernel>());

}  // namespace
}  // namespace tandem::io
