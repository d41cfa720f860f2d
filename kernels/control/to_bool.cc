// ToBool: whether a value counts as true.
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/control/truth.h"

namespace tandem {
namespace {

absl::Status ToBool(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const bool truth, Truth(c.input(0)));
  c.SetOutput(0, Tensor::Scalar(truth));
  return absl::OkStatus();
}

TANDEM_OP("ToBool")
    .Inputs("input:T")
    .Outputs("output:bool")
    .Attrs("T:type")
    .Shape(ScalarShape)
    .HostMemory({"input", "output"})
    .Cheap()
    .Cpu(Function(ToBool));

}  // namespace
}  // namespace tandem
