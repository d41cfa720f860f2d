#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "strategies/nn/layer.h"

namespace tandem::nn {
namespace {

// A layer that is a name and a function.
class FunctionLayer final : public Layer {
 public:
  using Function = std::function<absl::StatusOr<Output>(
      const ReplicaContext& replica, const std::string& path, Output input, const CallOptions&)>;

  FunctionLayer(std::string name, Function function)
      : name_(std::move(name)), function_(std::move(function)) {}
  std::string default_name() const override { return name_; }
  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const CallOptions& options) const override {
    if (inputs.size() != 1) {
      return errors::InvalidArgument("layer '", path, "' takes 1 input and got ", inputs.size());
    }
    return function_(replica, path, inputs[0], options);
  }

 private:
  const std::string name_;
  const Function function_;
};

LayerPtr MakeLayer(std::string name, FunctionLayer::Function function) {
  return std::make_shared<FunctionLayer>(std::move(name), std::move(function));
}

absl::StatusOr<int64_t> LastDim(const std::string& path, Output input, int rank) {
  const PartialShape& shape = input.shape();
  if (!shape.has_rank() || (rank > 0 && shape.rank() != rank) || shape.rank() < 1 ||
      shape.dim(shape.rank() - 1) < 0) {
    return errors::InvalidArgument("layer '", path, "': its input has the shape ",
                                   shape.DebugString(), "; the last size must be known",
                                   rank > 0 ? absl::StrCat(" and the rank be ", rank) : "");
  }
  return shape.dim(shape.rank() - 1);
}

absl::StatusOr<Output> ReadNewVariable(const ReplicaContext& replica, VariableSpec spec) {
  TANDEM_ASSIGN_OR_RETURN(StrategyVariable * variable, replica.builder().Variable(spec));
  return replica.Read(*variable);
}

VariableSpec Spec(std::string name, Shape shape, std::function<Output(const Scope&)> initializer) {
  VariableSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  spec.initializer = std::move(initializer);
  return spec;
}

absl::StatusOr<Output> AddBias(const ReplicaContext& replica, const std::string& path,
                               const Scope& scope, int64_t size, Output x) {
  TANDEM_ASSIGN_OR_RETURN(const Output bias,
                          ReadNewVariable(replica, Spec(path + "/bias", Shape({size}),
                                                        Zeros(kFloat32, Shape({size})))));
  return scope.Call("BiasAdd", {x, bias});
}

LayerPtr Pool2D(std::string name, std::string op, Pool2DOptions options) {
  return MakeLayer(std::move(name),
                   [op, options](const ReplicaContext& replica, const std::string& path,
                                 Output input, const CallOptions&) -> absl::StatusOr<Output> {
                     TANDEM_RETURN_IF_ERROR(LastDim(path, input, 4).status());
                     const auto step = [&](size_t i) {
                       return options.strides[i] > 0 ? options.strides[i] : options.pool[i];
                     };
                     return replica.scope().SubScope(path).Call(
                         op, {input},
                         {{"ksize", std::vector<int64_t>{1, options.pool[0], options.pool[1], 1}},
                          {"strides", std::vector<int64_t>{1, step(0), step(1), 1}},
                          {"padding", options.padding}});
                   });
}

}  // namespace

absl::StatusOr<Output> Activate(const Scope& scope, const std::string& name, Output x) {
  static const auto& ops = *new std::map<std::string, std::string>({{"elu", "Elu"},
                                                                    {"relu", "Relu"},
                                                                    {"relu6", "Relu6"},
                                                                    {"selu", "Selu"},
                                                                    {"sigmoid", "Sigmoid"},
                                                                    {"softmax", "Softmax"},
                                                                    {"softplus", "Softplus"},
                                                                    {"softsign", "Softsign"},
                                                                    {"tanh", "Tanh"}});
  if (name.empty() || name == "linear") return x;
  const auto op = ops.find(name);
  if (op == ops.end()) {
    return errors::InvalidArgument(
        "there is no activation '", name, "'; there are linear, ",
        absl::StrJoin(ops, ", ",
                      [](std::string* out, const auto& entry) { out->append(entry.first); }));
  }
  return scope.Call(op->second, {x});
}

LayerPtr Dense(DenseOptions options) {
  return MakeLayer(
      "dense",
      [options](const ReplicaContext& replica, const std::string& path, Output input,
                const CallOptions& call) -> absl::StatusOr<Output> {
        if (options.units < 1) {
          return errors::InvalidArgument("layer '", path, "': units is ", options.units,
                                         "; it must be at least 1");
        }
        TANDEM_ASSIGN_OR_RETURN(const int64_t inputs, LastDim(path, input, 2));
        const Scope scope = replica.scope().SubScope(path);
        const Shape shape({inputs, options.units});
        TANDEM_ASSIGN_OR_RETURN(
            const Output kernel,
            ReadNewVariable(replica, Spec(path + "/kernel", shape,
                                          GlorotUniform(shape, inputs, options.units,
                                                        SeedFor(call.seed, path + "/kernel")))));
        Output y = scope.Call("MatMul", {input, kernel});
        if (options.use_bias) {
          TANDEM_ASSIGN_OR_RETURN(y, AddBias(replica, path, scope, options.units, y));
        }
        return Activate(scope, options.activation, y);
      });
}

LayerPtr Conv2D(Conv2DOptions options) {
  return MakeLayer(
      "conv2d",
      [options](const ReplicaContext& replica, const std::string& path, Output input,
                const CallOptions& call) -> absl::StatusOr<Output> {
        if (options.filters < 1) {
          return errors::InvalidArgument("layer '", path, "': filters is ", options.filters,
                                         "; it must be at least 1");
        }
        TANDEM_ASSIGN_OR_RETURN(const int64_t channels, LastDim(path, input, 4));
        const Scope scope = replica.scope().SubScope(path);
        const Shape shape({options.kernel[0], options.kernel[1], channels, options.filters});
        const int64_t window = options.kernel[0] * options.kernel[1];
        TANDEM_ASSIGN_OR_RETURN(
            const Output kernel,
            ReadNewVariable(replica,
                            Spec(path + "/kernel", shape,
                                 GlorotUniform(shape, window * channels, window * options.filters,
                                               SeedFor(call.seed, path + "/kernel")))));
        Output y = scope.Call(
            "Conv2D", {input, kernel},
            {{"strides", std::vector<int64_t>{1, options.strides[0], options.strides[1], 1}},
             {"padding", options.padding}});
        if (options.use_bias) {
          TANDEM_ASSIGN_OR_RETURN(y, AddBias(replica, path, scope, options.filters, y));
        }
        return Activate(scope, options.activation, y);
      });
}

LayerPtr MaxPool2D(Pool2DOptions options) { return Pool2D("max_pool2d", "MaxPool", options); }
LayerPtr AveragePool2D(Pool2DOptions options) {
  return Pool2D("average_pool2d", "AvgPool", options);
}

LayerPtr Flatten() {
  return MakeLayer(
      "flatten",
      [](const ReplicaContext& replica, const std::string& path, Output input,
         const CallOptions&) -> absl::StatusOr<Output> {
        const PartialShape& shape = input.shape();
        int64_t size = 1;
        for (int i = 1; shape.has_rank() && i < shape.rank(); ++i) {
          if (shape.dim(i) < 0) size = -1;
          if (size >= 0) size *= shape.dim(i);
        }
        if (!shape.has_rank() || shape.rank() < 1 || size < 0) {
          return errors::InvalidArgument("layer '", path, "': its input has the shape ",
                                         shape.DebugString(),
                                         "; all sizes but the first must be known");
        }
        return replica.scope().SubScope(path).Call(
            "Reshape", {input, Tensor::Vector<int32_t>({-1, static_cast<int32_t>(size)})});
      });
}

LayerPtr Activation(std::string name) {
  return MakeLayer("activation", [name](const ReplicaContext& replica, const std::string& path,
                                        Output input, const CallOptions&) {
    return Activate(replica.scope().SubScope(path), name, input);
  });
}

LayerPtr Sequential(std::vector<LayerPtr> layers) {
  return MakeLayer(
      "sequential",
      [layers = std::move(layers)](const ReplicaContext& replica, const std::string& path,
                                   Output input,
                                   const CallOptions& call) -> absl::StatusOr<Output> {
        std::map<std::string, int> seen;
        Output x = input;
        for (const LayerPtr& layer : layers) {
          const std::string base = layer->default_name();
          const int number = seen[base]++;
          const std::string name = number == 0 ? base : absl::StrCat(base, "_", number);
          TANDEM_ASSIGN_OR_RETURN(
              x,
              layer->Call(replica, path.empty() ? name : absl::StrCat(path, "/", name), {x}, call));
          TANDEM_RETURN_IF_ERROR(replica.scope().status());
        }
        return x;
      });
}

}  // namespace tandem::nn
