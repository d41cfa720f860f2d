#include "core/op/gradient_context.h"

#include <utility>

#include "core/base/status.h"

namespace tandem {

GradientContext::GradientContext(Graph* graph, Node* node, std::vector<Gradient> output_gradients,
                                 std::string scope)
    : graph_(graph),
      node_(node),
      output_gradients_(std::move(output_gradients)),
      scope_(std::move(scope)),
      input_gradients_(static_cast<size_t>(node->num_inputs())) {}

bool GradientContext::HasOutputGradient(int i) const { return RawOutputGradient(i).exists(); }

const Gradient& GradientContext::RawOutputGradient(int i) const {
  return output_gradients_[static_cast<size_t>(i)];
}

Output GradientContext::OutputGradient(int i) {
  const Gradient& gradient = RawOutputGradient(i);
  if (!gradient.exists()) return Call("ZerosLike", {output(i)});
  return Densify(*this, gradient);
}

std::vector<Output> GradientContext::CallMulti(absl::string_view op, std::vector<Output> inputs,
                                               AttrMap attrs) {
  if (!status_.ok()) return std::vector<Output>(1);
  for (const Output& input : inputs) {
    if (input.valid()) continue;
    status_ = errors::Internal("the gradient of node '", node_->name(), "' (", node_->type(),
                               ") calls ", op, " with an input that does not exist");
    return std::vector<Output>(1);
  }
  NodeSpec spec;
  spec.name = graph_->UniqueName(absl::StrCat(scope_, "/", op));
  spec.op = std::string(op);
  spec.inputs = std::move(inputs);
  spec.attrs = std::move(attrs);
  spec.device = node_->requested_device();
  absl::StatusOr<Node*> added = graph_->AddNode(std::move(spec));
  if (!added.ok()) {
    status_ = WithContext(added.status(), absl::StrCat("the gradient of node '", node_->name(),
                                                       "' (", node_->type(), ")"));
    return std::vector<Output>(1);
  }
  std::vector<Output> outputs;
  for (int i = 0; i < (*added)->num_outputs(); ++i) outputs.push_back((*added)->output(i));
  if (outputs.empty()) outputs.emplace_back();
  return outputs;
}

Output GradientContext::Call(absl::string_view op, std::vector<Output> inputs, AttrMap attrs) {
  return CallMulti(op, std::move(inputs), std::move(attrs))[0];
}

Output GradientContext::Constant(Tensor value) {
  const DataType dtype = value.dtype();
  return Call("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
}

Output GradientContext::Scalar(DataType dtype, double value) {
  Tensor scalar = Tensor::Zeros(dtype, Shape());
  switch (dtype) {
#define TANDEM_CASE_(T)                                     \
  case DataTypeOf<T>():                                     \
    scalar.MutableElements<T>()[0] = static_cast<T>(value); \
    break;
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
#undef TANDEM_CASE_
    case kComplex64:
      scalar.MutableElements<std::complex<float>>()[0] = static_cast<float>(value);
      break;
    case kComplex128:
      scalar.MutableElements<std::complex<double>>()[0] = value;
      break;
    default:
      if (status_.ok()) {
        status_ = errors::Internal("the gradient of node '", node_->name(), "' wants a ",
                                   DataTypeName(dtype), " number");
      }
      return Output();
  }
  return Constant(std::move(scalar));
}

Output GradientContext::Conjugate(Output value) {
  if (!value.valid() || !IsComplex(RemoveReference(value.dtype()))) return value;
  return Call("Conj", {value});
}

Output GradientContext::ReduceToInput(Output gradient, int i, int j) {
  const PartialShape& mine = input(i).shape();
  if (gradient.valid() && mine.IsFullyDefined() && mine == gradient.shape()) return gradient;
  const Output shape_i = Call("Shape", {input(i)});
  const Output shape_j = Call("Shape", {input(j)});
  const Output axes = Call("BroadcastGradientArgs", {shape_i, shape_j});
  return Call("Reshape", {Call("Sum", {gradient, axes}), shape_i});
}

void GradientContext::SetInputGradient(int i, Gradient gradient) {
  input_gradients_[static_cast<size_t>(i)] = gradient;
}

}  // namespace tandem
