// ImageSummary: the images of a batch (image_values.cc).
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"
#include "kernels/io/summary_values.h"

namespace tandem::io {
namespace {

class ImageSummaryKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    max_images_ = init.Attr<int64_t>("max_images");
    bad_color_ = init.Attr<Tensor>("bad_color");
    return CheckBadColor(bad_color_);
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 0, "tag"));
    tensorflow::Summary summary;
    TANDEM_RETURN_IF_ERROR(AddImageValues(tag, c.input(1), max_images_, bad_color_, summary));
    return OutputSummary(c, summary);
  }

 private:
  int64_t max_images_ = 0;
  Tensor bad_color_;
};

TANDEM_OP("ImageSummary")
    .Inputs("tag:string, tensor:T")
    .Outputs("summary:string")
    .Attrs(
        "max_images:int>=1=3; T:type{uint8,float32,float16,float64}=float32; "
        "bad_color:tensor=uint8[255,0,0,255]")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tag", "tensor", "summary"})
    .Cpu(Make<ImageSummaryKernel>());

}  // namespace
}  // namespace tandem::io
