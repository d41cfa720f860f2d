// Runs a single op for tests, without a session: the node is checked as in a graph, its kernel is
// made and computes once.
#ifndef TANDEM_KERNELS_TESTING_OP_RUNNER_H_
#define TANDEM_KERNELS_TESTING_OP_RUNNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernel/kernel.h"
#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"

namespace tandem::testing {

// The outputs of the op for these inputs, or the first error: of the graph (attributes, types,
// shapes) or of the kernel. Inputs whose op wants a reference become variables that hold them; a
// reference among the outputs is read. Waits for asynchronous kernels, at most 60 s.
//
// With `constant_inputs` the inputs are constants of the graph, so that shape functions see their
// values; else they are placeholders of unknown shape, so that the kernel's own checks are met.
absl::StatusOr<std::vector<Tensor>> RunOp(const std::string& op, std::vector<Tensor> inputs,
                                          AttrMap attrs = {}, bool constant_inputs = false);

}  // namespace tandem::testing

#endif  // TANDEM_KERNELS_TESTING_OP_RUNNER_H_
