// DisableCopyOnRead, which TensorFlow's Savers put before each read of a variable. Reads share the
// variable's memory here in any case, so there is nothing to switch off.
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/state/variables.h"

namespace tandem::io {
namespace {

absl::Status DisableCopyOnRead(KernelContext& c) {
  return state::GetVariable(c, 0, absl::StatusCode::kNotFound).status();
}

TANDEM_OP("DisableCopyOnRead")
    .Inputs("resource:resource")
    .Stateful()
    .Cheap()
    .Shape(NoOutputs)
    .HostMemory({"resource"})
    .Cpu(Function(DisableCopyOnRead));

}  // namespace
}  // namespace tandem::io
