// An op's kernel made once and run many times, for tests and benchmarks that choose what a session
// would: how loops are cut, and whether inputs may be overwritten.
#ifndef TANDEM_KERNELS_MATH_PREPARED_OP_H_
#define TANDEM_KERNELS_MATH_PREPARED_OP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernel/kernel.h"

namespace tandem::testing {

class PreparedOp {
 public:
  // `inputs` say types and shapes; `runner` outlives the op.
  static absl::StatusOr<std::unique_ptr<PreparedOp>> Make(const std::string& op,
                                                          const std::vector<Tensor>& inputs,
                                                          AttrMap attrs, ParallelRunner* runner);

  // Output 0. With `last_use` the inputs are handed over: the kernel may overwrite memory that
  // nobody else holds.
  absl::StatusOr<Tensor> Run(std::vector<Tensor> inputs, bool last_use = false);

  // What shape inference said of output 0.
  const PartialShape& inferred_shape() const { return node_->output_info(0).shape; }

 private:
  PreparedOp() = default;

  Graph graph_;
  Node* node_ = nullptr;
  ResourceManager resources_;
  KernelDevice device_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<DataType> input_types_;
  std::vector<DataType> output_types_;
  CancellationManager cancellation_;
  StepContext step_;
  std::unique_ptr<Slot[]> inputs_;
  std::unique_ptr<Slot[]> outputs_;
  std::vector<Slot*> input_pointers_;
};

}  // namespace tandem::testing

#endif  // TANDEM_KERNELS_MATH_PREPARED_OP_H_
