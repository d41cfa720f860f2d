// MergeSummary: the values of all summaries in one. No tag may occur twice.
#include <unordered_set>

#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/io/summary_kernel.h"

namespace tandem::io {
namespace {

absl::Status Compute(KernelContext& c) {
  tensorflow::Summary merged;
  std::unordered_set<std::string> tags;
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (const std::string& bytes : c.input(i).Elements<std::string>()) {
      tensorflow::Summary summary;
      if (!summary.ParseFromString(bytes)) {
        return errors::InvalidArgument("input ", i, " holds ", bytes.size(),
                                       " bytes that are no summary");
      }
      for (tensorflow::Summary::Value& value : *summary.mutable_value()) {
        // Values of TensorSummary have none.
        if (!value.tag().empty() && !tags.insert(value.tag()).second) {
          return errors::InvalidArgument("the tag '", value.tag(), "' of input ", i,
                                         " occurs before, too");
        }
        *merged.add_value() = std::move(value);
      }
    }
  }
  return OutputSummary(c, merged);
}

TANDEM_OP("MergeSummary")
    .Inputs("inputs:N*string")
    .Outputs("summary:string")
    .Attrs("N:int>=1")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"inputs", "summary"})
    .Cpu(Function(Compute));

}  // namespace
}  // namespace tandem::io
