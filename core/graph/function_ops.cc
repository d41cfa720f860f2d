// _Arg and _Retval: where a function's body takes its arguments and gives its results. Clients
// never send them; a TensorFlow master does.
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

TANDEM_OP("_Arg")
    .Outputs("output:T")
    .Attrs("T:type; index:int>=0")
    .Stateful()  // Two arguments are never one, and none is computed ahead of the call.
    .Shape(UnknownShape);

TANDEM_OP("_Retval").Inputs("input:T").Attrs("T:type; index:int>=0").Stateful().Shape(NoOutputs);

}  // namespace
}  // namespace tandem
