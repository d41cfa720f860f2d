// TensorSummary, TensorSummaryV2: a whole tensor; the second one with a tag and the metadata of a
// plugin of TensorBoard.
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"
#include "kernels/io/summary_values.h"

namespace tandem::io {
namespace {

absl::Status ComputeTensorSummary(KernelContext& c) {
  tensorflow::Summary summary;
  tensorflow::Summary::Value& value = *summary.add_value();
  value.set_node_name(std::string(c.node_name()));
  TANDEM_RETURN_IF_ERROR(SetTensorValue(c.input(0), value));
  return OutputSummary(c, summary);
}

absl::Status ComputeTensorSummaryV2(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::string tag, ScalarText(c, 0, "tag"));
  TANDEM_ASSIGN_OR_RETURN(const std::string metadata,
                          ScalarText(c, 2, "serialized_summary_metadata"));
  tensorflow::Summary summary;
  tensorflow::Summary::Value& value = *summary.add_value();
  value.set_tag(tag);
  TANDEM_RETURN_IF_ERROR(SetMetadata(tag, metadata, value));
  TANDEM_RETURN_IF_ERROR(SetTensorValue(c.input(1), value));
  return OutputSummary(c, summary);
}

TANDEM_OP("TensorSummary")
    .Inputs("tensor:T")
    .Outputs("summary:string")
    .Attrs("T:type; description:string=\"\"; labels:list(string)=[]; display_name:string=\"\"")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tensor", "summary"})
    .Cpu(Function(ComputeTensorSummary));

TANDEM_OP("TensorSummaryV2")
    .Inputs("tag:string, tensor:T, serialized_summary_metadata:string")
    .Outputs("summary:string")
    .Attrs("T:type")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"tag", "tensor", "serialized_summary_metadata", "summary"})
    .Cpu(Function(ComputeTensorSummaryV2));

}  // namespace
}  // namespace tandem::io
