// The text of the typed wrappers of ops:
//
//   Output MatMul(const Scope& scope, const Input& a, const Input& b,
//                 const MatMulOptions& options = {});
//
// Inputs come first, then the attributes that have no default and that no input implies, then those
// that have one, as fields of an options struct: MatMul(scope, x, w, {.transpose_b = true}). A list
// of inputs is an InputList. An op without outputs gives its Node*, one with a single output an
// Output (or a vector, when it is a list), one with several a struct of them.
//
// Ops whose names begin with an underscore get none; nor does Const (core/graph/scope.h has it).
#ifndef TANDEM_TOOLS_GENERATE_OPS_WRAPPERS_H_
#define TANDEM_TOOLS_GENERATE_OPS_WRAPPERS_H_

#include <string>
#include <vector>

#include "core/op/op_def.h"

namespace tandem {

// The ops that get a wrapper.
std::vector<const OpDef*> OpsToWrap(const std::vector<const OpDef*>& ops);

// A header with all wrappers. `path` is what sources include it by ("kernels/ops.h").
std::string WrapperHeader(const std::vector<const OpDef*>& ops, const std::string& path);
// A source with the definitions of some of them.
std::string WrapperSource(const std::vector<const OpDef*>& ops, const std::string& header_path);

}  // namespace tandem

#endif  // TANDEM_TOOLS_GENERATE_OPS_WRAPPERS_H_
