#include "strategies/nn/model.h"

#include <map>
#include <utility>

#include "strategies/nn/layer_call.h"
#include "strategies/nn/layer_paths.h"

namespace tandem::nn {
namespace {

using Definition = Value::Definition;

// What `output` is made of, up to what is `given`, each after its arguments. Without recursion:
// models may be deep.
std::vector<const Definition*> InOrder(const Definition* output,
                                       const std::map<const Definition*, Output>& given) {
  std::vector<const Definition*> order;
  // How many arguments of each were looked at.
  std::map<const Definition*, size_t> seen;
  std::vector<const Definition*> stack = {output};
  seen[output] = 0;
  while (!stack.empty()) {
    const Definition* const top = stack.back();
    size_t& next = seen[top];
    if (next == top->arguments.size() || given.count(top) > 0) {
      order.push_back(top);
      stack.pop_back();
      continue;
    }
    const Definition* const argument = &top->arguments[next++].definition();
    if (seen.emplace(argument, 0).second) stack.push_back(argument);
  }
  return order;
}

absl::StatusOr<Output> CallModel(const LayerCall& call, const std::vector<Value>& inputs,
                                 const Value& output) {
  if (call.inputs().size() != inputs.size()) {
    return call.Error("the model has ", inputs.size(), " inputs and got ", call.inputs().size());
  }
  std::map<const Definition*, Output> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[&inputs[i].definition()] = call.inputs()[i];
  }
  LayerPaths paths(call.path());
  for (const Definition* const definition : InOrder(&output.definition(), values)) {
    if (values.count(definition) > 0) continue;
    if (definition->layer == nullptr) {
      return call.Error(definition->arguments.empty()
                            ? "the model's output depends on an input that is not among its inputs"
                            : "a layer of the model is null");
    }
    std::vector<Output> arguments;
    for (const Value& argument : definition->arguments) {
      arguments.push_back(values[&argument.definition()]);
    }
    const LayerPaths::Use use = paths.Next(definition->layer, call.options());
    TANDEM_ASSIGN_OR_RETURN(values[definition], definition->layer->Call(call.replica(), use.path,
                                                                        arguments, use.options));
    TANDEM_RETURN_IF_ERROR(call.replica().scope().status());
  }
  return values[&output.definition()];
}

}  // namespace

Value Apply(LayerPtr layer, std::vector<Value> arguments) {
  return Value(
      std::make_shared<const Definition>(Definition{std::move(layer), std::move(arguments)}));
}

LayerPtr Model(std::vector<Value> inputs, Value output) {
  return MakeLayer("model",
                   [inputs = std::move(inputs), output = std::move(output)](const LayerCall& call) {
                     return CallModel(call, inputs, output);
                   },
                   {.max_inputs = 0, .floating_point = false});
}

}  // namespace tandem::nn
