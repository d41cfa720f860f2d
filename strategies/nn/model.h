// The functional form: layers put together to a graph.
//
//   const nn::Value image = nn::Value::Input();
//   const nn::Value a = nn::Apply(nn::Conv2D({.filters = 8, .padding = "SAME"}), image);
//   const nn::Value b = nn::Apply(nn::Conv2D({.filters = 8, .padding = "SAME"}), a);
//   const nn::Value sum = nn::Apply(nn::Add(), {a, b});
//   nn::LayerPtr model = nn::Model({image}, nn::Apply(nn::Flatten(), sum));
//
// A Value stands for what a layer gives, once the model is called; it has no shape yet, so that
// errors show when the model is called. A layer that is applied twice shares its variables.
#ifndef TANDEM_STRATEGIES_NN_MODEL_H_
#define TANDEM_STRATEGIES_NN_MODEL_H_

#include <memory>
#include <utility>
#include <vector>

#include "strategies/nn/base.h"

namespace tandem::nn {

// Cheap to copy. Threads: as a value.
class Value {
 public:
  // What a layer made of other values, or an input of a model.
  struct Definition {
    LayerPtr layer;  // Null: an input.
    std::vector<Value> arguments;
  };

  // A new input of a model; two of them are different.
  static Value Input() { return Value(std::make_shared<const Definition>()); }

  const Definition& definition() const { return *definition_; }

  friend Value Apply(LayerPtr layer, std::vector<Value> arguments);

 private:
  explicit Value(std::shared_ptr<const Definition> definition)
      : definition_(std::move(definition)) {}

  // Shared by all copies, and by what is made of the value.
  std::shared_ptr<const Definition> definition_;
};

// What the layer makes of the arguments.
Value Apply(LayerPtr layer, std::vector<Value> arguments);
inline Value Apply(LayerPtr layer, const Value& argument) {
  return Apply(std::move(layer), std::vector<Value>{argument});
}

// The layer that takes `inputs`, in this order, and gives `output`. Its layers are numbered like
// those of Sequential, in the order in which they are computed: arguments first, from left to
// right. InvalidArgument when it is called: `output` needs an input that is not among `inputs`.
LayerPtr Model(std::vector<Value> inputs, Value output);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_MODEL_H_
