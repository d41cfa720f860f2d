// Ops that need no code for GPUs: they pass values on, look at shapes, hold variables, steer. On a
// GPU they run the CPU's kernel (MovesValues in core/kernel/gpu.h). The lists of arguments in host
// memory are those of the ops.
#include "core/kernel/gpu.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

// --- The same elements under another shape, or as they are
// ----------------------------------------
TANDEM_KERNEL("Identity", MovesValues());
TANDEM_KERNEL("IdentityN", MovesValues());
TANDEM_KERNEL("StopGradient", MovesValues());
TANDEM_KERNEL("PreventGradient", MovesValues());
TANDEM_KERNEL("PlaceholderWithDefault", MovesValues());
TANDEM_KERNEL("EnsureShape", MovesValues());
TANDEM_KERNEL("Reshape", MovesValues({"shape"}));
TANDEM_KERNEL("ExpandDims", MovesValues({"dim"}));
TANDEM_KERNEL("Squeeze", MovesValues());
TANDEM_KERNEL("Bitcast", MovesValues());
TANDEM_KERNEL("Const", MovesValues());

// --- Shapes
// ---------------------------------------------------------------------------------------
TANDEM_KERNEL("Shape", MovesValues({"output"}));
TANDEM_KERNEL("ShapeN", MovesValues({"output"}));
TANDEM_KERNEL("Size", MovesValues({"output"}));
TANDEM_KERNEL("Rank", MovesValues({"output"}));

// --- Variables
// ------------------------------------------------------------------------------------
TANDEM_KERNEL("VarHandleOp", MovesValues({"resource"}));
TANDEM_KERNEL("VarIsInitializedOp", MovesValues({"resource", "is_initialized"}));
TANDEM_KERNEL("VariableShape", MovesValues({"input", "output"}));
TANDEM_KERNEL("ReadVariableOp", MovesValues({"resource"}));
TANDEM_KERNEL("DestroyResourceOp", MovesValues({"resource"}));

// --- Control
// --------------------------------------------------------------------------------------
TANDEM_KERNEL("NoOp", MovesValues());
TANDEM_KERNEL("ControlTrigger", MovesValues());
TANDEM_KERNEL("PartitionedCall", MovesValues());
TANDEM_KERNEL("StatefulPartitionedCall", MovesValues());

}  // namespace
}  // namespace tandem
