#include "kernels/testing/op_runner.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/graph.h"

namespace tandem::testing {
namespace {

// Where the inputs come from: ops of the tests alone, so that no kernel library is needed.
absl::Status ValueShape(ShapeContext& c) {
  return c.SetOutput(0, PartialShape(c.Attr<Tensor>("value").shape()));
}
const OpRegistry& Registry() { return OpRegistry::Global(); }

TANDEM_OP("_TestUnknown").Outputs("output:dtype").Attrs("dtype:type").Shape(UnknownShape);
TANDEM_OP("_TestReference").Outputs("output:ref dtype").Attrs("dtype:type").Shape(UnknownShape);
TANDEM_OP("_TestValue").Outputs("output:dtype").Attrs("value:tensor; dtype:type").Shape(ValueShape);

// The source of an input. Shape functions look through nodes of type Const; where the real op is
// linked in, it is used.
absl::StatusOr<Node*> AddSource(Graph& graph, const Tensor& value, bool reference, bool constant) {
  NodeSpec spec;
  spec.name = graph.UniqueName("input");
  spec.attrs = {{"dtype", value.dtype()}};
  if (reference) {
    spec.op = "_TestReference";
  } else if (constant) {
    spec.op = Registry().Find("Const") != nullptr ? "Const" : "_TestValue";
    spec.attrs.emplace("value", value);
  } else {
    spec.op = "_TestUnknown";
  }
  return graph.AddNode(std::move(spec));
}

// Which inputs the op declares as references; argument lists of ops with references are not
// variadic.
bool WantsReference(const OpDef& op, size_t i) {
  return i < op.inputs.size() && op.inputs[i].is_ref;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunOp(const std::string& op, std::vector<Tensor> inputs,
                                          AttrMap attrs, bool constant_inputs) {
  TANDEM_ASSIGN_OR_RETURN(const OpDef* def, Registry().Get(op));
  Graph graph;
  NodeSpec spec;
  spec.name = "tested";
  spec.op = op;
  spec.attrs = std::move(attrs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(Node * source,
                            AddSource(graph, inputs[i], WantsReference(*def, i), constant_inputs));
    spec.inputs.push_back(source->output(0));
  }
  TANDEM_ASSIGN_OR_RETURN(Node * node, graph.AddNode(std::move(spec)));

  ResourceManager resources;
  InlineRunner parallel;
  KernelDevice device{"/job:localhost/replica:0/task:0/device:CPU:0",
                      kCpu,
                      0,
                      HostAllocator(),
                      &resources,
                      &parallel};
  TANDEM_ASSIGN_OR_RETURN(const KernelDef* kernel_def,
                          Registry().FindKernel(*def, kCpu, node->attrs()));
  std::vector<DataType> input_types;
  std::vector<DataType> output_types;
  for (int i = 0; i < node->num_inputs(); ++i) input_types.push_back(node->input_dtype(i));
  for (int i = 0; i < node->num_outputs(); ++i) output_types.push_back(node->output_info(i).dtype);
  KernelInit init(
      {node->name(), def, &node->attrs(), input_types, output_types, &device, &graph.functions()});
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, kernel_def->factory(init));

  std::unique_ptr<Slot[]> input_slots(new Slot[inputs.size()]);
  std::unique_ptr<Slot[]> output_slots(new Slot[output_types.size()]);
  std::vector<Slot*> input_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Slot& slot = input_slots[i];
    slot.uses = 2;  // The caller keeps its tensors.
    if (WantsReference(*def, i)) {
      slot.reference = MakeRef<Variable>(inputs[i].dtype(), PartialShape(inputs[i].shape()));
      slot.state = Slot::State::kReference;
      MutexLock lock(slot.reference->mu());
      slot.reference->value() = inputs[i];
    } else {
      slot.value = inputs[i];
      slot.state = Slot::State::kValue;
    }
    input_pointers.push_back(&slot);
  }
  CancellationManager cancellation;
  ResourceManager step_resources;
  StepContext step;
  step.step_id = 1;
  step.cancellation = &cancellation;
  step.step_resources = &step_resources;
  KernelContext context(
      {node->name(), &device, &step, input_pointers, output_slots.get(), output_types, 0, 0});
  absl::Status status;
  if (AsyncKernel* async = kernel->AsAsync()) {
    Event done;
    async->Start(context, [&](absl::Status result) {
      status = std::move(result);
      done.Set();
    });
    if (!done.Wait(absl::Now() + absl::Seconds(60))) {
      return errors::DeadlineExceeded("op ", op, " was not done after 60 s");
    }
  } else {
    status = kernel->Compute(context);
  }
  TANDEM_RETURN_IF_ERROR(status);

  std::vector<Tensor> outputs;
  for (size_t i = 0; i < output_types.size(); ++i) {
    Slot& slot = output_slots[i];
    switch (slot.state) {
      case Slot::State::kValue:
        outputs.push_back(slot.value);
        break;
      case Slot::State::kReference: {
        TANDEM_ASSIGN_OR_RETURN(Tensor value, slot.reference->Read("tested"));
        outputs.push_back(std::move(value));
        break;
      }
      case Slot::State::kDead:
        outputs.emplace_back();
        break;
      case Slot::State::kEmpty:
        return errors::Internal("op ", op, " left its output ", i, " empty");
    }
  }
  return outputs;
}

}  // namespace tandem::testing
