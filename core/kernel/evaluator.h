// Evaluator: how a pass runs one kernel while a graph is compiled, to fold constants. Runtimes
// implement it.
#ifndef TANDEM_CORE_KERNEL_EVALUATOR_H_
#define TANDEM_CORE_KERNEL_EVALUATOR_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/op/attr_value.h"
#include "core/op/op_def.h"
#include "core/tensor/tensor.h"

namespace tandem {

class FunctionLibrary;

// Threads: any.
class Evaluator {
 public:
  // One node with its inputs. What is pointed at lives until Evaluate returns.
  struct Request {
    absl::string_view node_name;
    const OpDef* op = nullptr;
    const AttrMap* attrs = nullptr;
    absl::Span<const DataType> input_types;
    absl::Span<const DataType> output_types;
    absl::string_view device;  // The full name.
    const FunctionLibrary* functions = nullptr;
    absl::Span<const Tensor> inputs;
    // No output may take more memory than this.
    size_t max_bytes = 0;
  };

  virtual ~Evaluator() = default;

  // The outputs of the node. REQUIRES: the op is stateless, without references among its arguments.
  //
  // Every error means that the node is left for the run: that of the kernel, which will then come
  // up again; ResourceExhausted when the outputs are too large; Unimplemented when the kernel needs
  // more than its inputs (it waits, or it calls functions) or its device is not the host's.
  virtual absl::StatusOr<std::vector<Tensor>> Evaluate(const Request& request) = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_KERNEL_EVALUATOR_H_
