#include "kernels/math/prepared_op.h"

#include <utility>

#include "core/base/status.h"
#include "core/op/registry.h"

namespace tandem::testing {

absl::StatusOr<std::unique_ptr<PreparedOp>> PreparedOp::Make(const std::string& op,
                                                             const std::vector<Tensor>& inputs,
                                                             AttrMap attrs,
                                                             ParallelRunner* runner) {
  std::unique_ptr<PreparedOp> made(new PreparedOp());
  NodeSpec spec;
  spec.name = "tested";
  spec.op = op;
  spec.attrs = std::move(attrs);
  for (const Tensor& input : inputs) {
    NodeSpec source;
    source.name = made->graph_.UniqueName("input");
    source.op = "Const";
    source.attrs = {{"dtype", input.dtype()}, {"value", input}};
    TANDEM_ASSIGN_OR_RETURN(Node * node, made->graph_.AddNode(std::move(source)));
    spec.inputs.push_back(node->output(0));
  }
  TANDEM_ASSIGN_OR_RETURN(made->node_, made->graph_.AddNode(std::move(spec)));
  Node& node = *made->node_;
  for (int i = 0; i < node.num_inputs(); ++i) made->input_types_.push_back(node.input_dtype(i));
  for (int i = 0; i < node.num_outputs(); ++i) {
    made->output_types_.push_back(node.output_info(i).dtype);
  }
  made->device_ = {"/job:localhost/replica:0/task:0/device:CPU:0",
                   kCpu,
                   0,
                   HostAllocator(),
                   &made->resources_,
                   runner};
  TANDEM_ASSIGN_OR_RETURN(const KernelDef* def,
                          OpRegistry::Global().FindKernel(node.op(), kCpu, node.attrs()));
  KernelInit init({node.name(), &node.op(), &node.attrs(), made->input_types_, made->output_types_,
                   &made->device_, &made->graph_.functions()});
  TANDEM_ASSIGN_OR_RETURN(made->kernel_, def->factory(init));
  made->step_.cancellation = &made->cancellation_;
  made->inputs_.reset(new Slot[inputs.size()]);
  made->outputs_.reset(new Slot[made->output_types_.size()]);
  for (size_t i = 0; i < inputs.size(); ++i) made->input_pointers_.push_back(&made->inputs_[i]);
  return made;
}

absl::StatusOr<Tensor> PreparedOp::Run(std::vector<Tensor> inputs, bool last_use) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_[i].value = std::move(inputs[i]);
    inputs_[i].state = Slot::State::kValue;
    inputs_[i].uses = last_use ? 1 : 2;
  }
  KernelContext context(
      {node_->name(), &device_, &step_, input_pointers_, outputs_.get(), output_types_, 0, 0});
  const absl::Status status = kernel_->Compute(context);
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].value = Tensor();
  TANDEM_RETURN_IF_ERROR(status);
  return std::move(outputs_[0].value);
}

}  // namespace tandem::testing
