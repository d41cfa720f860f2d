#include "strategies/nn/layer_call.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "strategies/nn/activation.h"

namespace tandem::nn {
namespace {

class FunctionLayer final : public Layer {
 public:
  FunctionLayer(std::string name, LayerFunction function, InputRules rules)
      : name_(std::move(name)), function_(std::move(function)), rules_(rules) {}

  std::string default_name() const override { return name_; }

  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const CallOptions& options) const override {
    const int count = static_cast<int>(inputs.size());
    if (count < rules_.min_inputs || (rules_.max_inputs > 0 && count > rules_.max_inputs)) {
      return errors::InvalidArgument("layer '", path, "' (", name_, ") got ", count,
                                     " inputs; it takes ", Expected());
    }
    TANDEM_RETURN_IF_ERROR(replica.scope().status());
    for (const Output& input : inputs) {
      if (!input.valid()) return errors::InvalidArgument("layer '", path, "': an input is missing");
      if (rules_.floating_point && RemoveReference(input.dtype()) != kFloat32) {
        return errors::InvalidArgument(
            "layer '", path, "' (", name_, ") got an input of type ", DataTypeName(input.dtype()),
            " and shape ", input.shape().DebugString(), "; it takes float32: cast the data first");
      }
    }
    const LayerCall call(replica, path, inputs, options);
    TANDEM_ASSIGN_OR_RETURN(const Output output, function_(call));
    TANDEM_RETURN_IF_ERROR(replica.scope().status());
    return output;
  }

 private:
  std::string Expected() const {
    if (rules_.max_inputs == 0) return absl::StrCat("at least ", rules_.min_inputs);
    if (rules_.max_inputs == rules_.min_inputs) return absl::StrCat(rules_.min_inputs);
    return absl::StrCat(rules_.min_inputs, " to ", rules_.max_inputs);
  }

  const std::string name_;
  const LayerFunction function_;
  const InputRules rules_;
};

}  // namespace

LayerCall::LayerCall(const ReplicaContext& replica, const std::string& path,
                     const std::vector<Output>& inputs, const CallOptions& options)
    : replica_(replica),
      path_(path),
      inputs_(inputs),
      options_(options),
      scope_(replica.scope().SubScope(path)) {}

std::string LayerCall::NameOf(absl::string_view role) const {
  // A layer that is the whole model has no path.
  return path_.empty() ? std::string(role) : absl::StrCat(path_, "/", role);
}

absl::StatusOr<StrategyVariable*> LayerCall::MakeVariable(absl::string_view role,
                                                          const Shape& shape,
                                                          const Initializer& initializer,
                                                          const Fans& fans, bool trainable,
                                                          bool spread_rows) const {
  VariableSpec spec;
  spec.name = NameOf(role);
  spec.shape = shape;
  spec.spread_rows = spread_rows;
  spec.trainable = trainable && !options_.frozen;
  absl::StatusOr<InitialValue> initial =
      initializer.For(shape, fans, SeedFor(options_.seed, spec.name));
  if (!initial.ok())
    return WithContext(initial.status(), absl::StrCat("variable '", spec.name, "'"));
  spec.initializer = *std::move(initial);
  // With a seed of its own for each part: its rows are no others' then.
  spec.part_initializer = [initializer, fans, seed = SeedFor(options_.seed, spec.name)](
                              const Scope& scope, const Shape& rows, int64_t first_row) -> Output {
    const absl::StatusOr<InitialValue> part =
        initializer.For(rows, fans, SeedFor(seed, absl::StrCat("rows from ", first_row)));
    return part.ok() ? (*part)(scope) : Output();
  };
  return replica_.builder().Variable(spec);
}

absl::StatusOr<Output> LayerCall::Variable(absl::string_view role, const Shape& shape,
                                           const Initializer& initializer, const Fans& fans) const {
  TANDEM_ASSIGN_OR_RETURN(StrategyVariable * variable,
                          MakeVariable(role, shape, initializer, fans, true));
  return replica_.Read(*variable);
}

absl::StatusOr<Output> LayerCall::Variable(absl::string_view role, const Shape& shape,
                                           const Initializer& initializer) const {
  return Variable(role, shape, initializer, FansOf(shape));
}

absl::StatusOr<StrategyVariable*> LayerCall::Table(absl::string_view role, const Shape& shape,
                                                   const Initializer& initializer,
                                                   bool spread_rows) const {
  return MakeVariable(role, shape, initializer, FansOf(shape), true, spread_rows);
}

absl::StatusOr<StrategyVariable*> LayerCall::Statistic(absl::string_view role, const Shape& shape,
                                                       const Initializer& initializer) const {
  return MakeVariable(role, shape, initializer, FansOf(shape), false);
}

absl::StatusOr<Shape> LayerCall::ShapeOf(absl::string_view role,
                                         absl::Span<const int64_t> sizes) const {
  absl::StatusOr<Shape> shape = Shape::FromDims(sizes);
  if (!shape.ok()) {
    return WithContext(shape.status(),
                       absl::StrCat("layer '", path_, "': variable '", NameOf(role), "'"));
  }
  return shape;
}

absl::StatusOr<Output> LayerCall::Activated(const std::string& name, Output x) const {
  absl::StatusOr<Output> y = Activate(scope_, name, x, options_.fused);
  if (!y.ok()) return WithContext(y.status(), absl::StrCat("layer '", path_, "'"));
  return y;
}

absl::Status LayerCall::ShapeError(absl::string_view wanted) const {
  return Error("its input has the shape ", shape().DebugString(), "; it must be ", wanted);
}

absl::Status LayerCall::RequirePositive(absl::string_view name, int64_t value) const {
  if (value >= 1) return absl::OkStatus();
  return Error(name, " is ", value, "; it must be at least 1");
}

absl::Status LayerCall::RequireEpsilon(double epsilon) const {
  if (epsilon > 0 && std::isfinite(epsilon)) return absl::OkStatus();
  return Error("epsilon is ", epsilon, "; it must be positive and finite");
}

absl::StatusOr<int64_t> LayerCall::LastSize(int min_rank, int max_rank) const {
  const PartialShape& s = shape();
  if (!s.has_rank() || s.rank() < min_rank || (max_rank > 0 && s.rank() > max_rank) ||
      s.dim(s.rank() - 1) < 0) {
    return ShapeError(absl::StrCat("of rank ", min_rank,
                                   max_rank == 0          ? " or more"
                                   : max_rank == min_rank ? ""
                                                          : absl::StrCat(" to ", max_rank),
                                   " with a last size that is known"));
  }
  return s.dim(s.rank() - 1);
}

LayerPtr MakeLayer(std::string name, LayerFunction function, InputRules rules) {
  return std::make_shared<FunctionLayer>(std::move(name), std::move(function), rules);
}

Output SizesOf(const Scope& scope, Output x, int64_t first, int64_t last) {
  // Shape functions see through this op.
  return scope.Call(
      "StridedSlice",
      {scope.Call("Shape", {x}, {{"out_type", kInt64}}), Tensor::Vector<int64_t>({first}),
       Tensor::Vector<int64_t>({last}), Tensor::Vector<int64_t>({1})});
}

Output ReshapeLike(const Scope& scope, Output x, Output like, int keep,
                   const std::vector<int64_t>& sizes) {
  std::vector<int64_t> target;
  int unknown = 0;
  for (int i = 0; i < keep; ++i) {
    target.push_back(like.shape().has_rank() ? like.shape().dim(i) : -1);
    unknown += target.back() < 0 ? 1 : 0;
  }
  target.insert(target.end(), sizes.begin(), sizes.end());
  unknown += static_cast<int>(std::count(sizes.begin(), sizes.end(), -1));
  if (unknown <= 1) {
    return scope.Call("Reshape", {x, Tensor::Vector<int64_t>(absl::MakeConstSpan(target))});
  }
  const Output kept = SizesOf(scope, like, 0, keep);
  return scope.Call(
      "Reshape",
      {x, scope.Call("ConcatV2", {kept, Tensor::Vector<int64_t>(absl::MakeConstSpan(sizes)),
                                  Tensor::Scalar<int32_t>(0)})});
}

}  // namespace tandem::nn
