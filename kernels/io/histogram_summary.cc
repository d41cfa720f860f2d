// HistogramSummary: how the values are spread over TensorFlow's buckets (core/io/histogram.h).
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"
#include "kernels/io/summary_values.h"

namespace tandem::io {
namespace {

absl::Status Compute(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 0, "tag"));
  tensorflow::Summary summary;
  TANDEM_RETURN_IF_ERROR(AddHistogramValue(tag, c.input(1), summary));
  return OutputSummary(c, summary);
}

TANDEM_OP("HistogramSummary")
    .Inputs("tag:string, values:T")
    .Outputs("summary:string")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}=float32")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tag", "values", "summary"})
    .Cpu(Function(Compute));

}  // namespace
}  // namespace tandem::io
