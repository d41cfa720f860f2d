// ScalarSummary: a value for each of as many tags.
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"

namespace tandem::io {
namespace {

template <typename T>
class ScalarSummaryKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& tags = c.input(0);
    const Tensor& values = c.input(1);
    if (tags.shape() != values.shape()) {
      return errors::InvalidArgument(
          "tags have the shape ", tags.shape().DebugString(), ", values ",
          values.shape().DebugString(), "; expected a tag for each value",
          tags.num_elements() == 0
              ? ""
              : absl::StrCat(", the first of which is '", tags.Elements<std::string>()[0], "'"));
    }
    tensorflow::Summary summary;
    for (size_t i = 0; i < static_cast<size_t>(tags.num_elements()); ++i) {
      tensorflow::Summary::Value& value = *summary.add_value();
      value.set_tag(tags.Elements<std::string>()[i]);
      value.set_simple_value(static_cast<float>(values.Elements<T>()[i]));
    }
    return OutputSummary(c, summary);
  }
};

TANDEM_OP("ScalarSummary")
    .Inputs("tags:string, values:T")
    .Outputs("summary:string")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tags", "values", "summary"})
    .Cpu(ByType<ScalarSummaryKernel, float, double, int32_t, uint8_t, int16_t, int8_t, int64_t,
                Bfloat16, uint16_t, Float16, uint32_t, uint64_t>("T"));

}  // namespace
}  // namespace tandem::io
