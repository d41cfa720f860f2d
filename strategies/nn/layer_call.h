// For those who write layers: LayerCall has what every layer needs while it is called, and
// MakeLayer makes a layer of a name and a function.
//
//   LayerPtr Scale() {
//     return MakeLayer("scale", [](const LayerCall& call) -> absl::StatusOr<Output> {
//       TANDEM_ASSIGN_OR_RETURN(const int64_t features, call.LastSize());
//       TANDEM_ASSIGN_OR_RETURN(const Output factor,
//                               call.Variable("factor", Shape({features}), "ones"));
//       return call.scope().Call("Mul", {call.input(), factor});
//     });
//   }
#ifndef TANDEM_STRATEGIES_NN_LAYER_CALL_H_
#define TANDEM_STRATEGIES_NN_LAYER_CALL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "strategies/builder.h"
#include "strategies/nn/base.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

// One call of one layer. Lives as long as the call.
class LayerCall {
 public:
  LayerCall(const ReplicaContext& replica, const std::string& path,
            const std::vector<Output>& inputs, const CallOptions& options);

  const ReplicaContext& replica() const { return replica_; }
  const std::string& path() const { return path_; }
  const CallOptions& options() const { return options_; }
  // Nodes of the layer are named "<path>/…" and run on the replica's device.
  const Scope& scope() const { return scope_; }
  const std::vector<Output>& inputs() const { return inputs_; }
  Output input() const { return inputs_[0]; }
  const PartialShape& shape() const { return inputs_[0].shape(); }

  // What belongs to this layer and is called `role`: "<path>/<role>".
  std::string NameOf(absl::string_view role) const;

  // The value of a float32 variable, which is made if need be.
  absl::StatusOr<Output> Variable(absl::string_view role, const Shape& shape,
                                  const Initializer& initializer) const;
  absl::StatusOr<Output> Variable(absl::string_view role, const Shape& shape,
                                  const Initializer& initializer, const Fans& fans) const;
  // A variable of which rows are looked up (ReplicaContext::Lookup); see VariableSpec::spread_rows.
  absl::StatusOr<StrategyVariable*> Table(absl::string_view role, const Shape& shape,
                                          const Initializer& initializer, bool spread_rows) const;
  // A variable that is not trained but assigned (ReplicaContext::Assign): each step takes the mean
  // of the replicas' values.
  absl::StatusOr<StrategyVariable*> Statistic(absl::string_view role, const Shape& shape,
                                              const Initializer& initializer) const;

  // `x` after the activation of that name (activation.h).
  absl::StatusOr<Output> Activated(const std::string& name, Output x) const;

  // The shape of a variable called `role`. InvalidArgument: it has too many elements.
  absl::StatusOr<Shape> ShapeOf(absl::string_view role, absl::Span<const int64_t> sizes) const;

  // InvalidArgument: "layer '<path>': …".
  template <typename... Args>
  absl::Status Error(const Args&... args) const {
    return errors::InvalidArgument("layer '", path_, "': ", args...);
  }
  // The same about the shape of the input, with what would fit.
  absl::Status ShapeError(absl::string_view wanted) const;

  // Option `name` must be at least 1.
  absl::Status RequirePositive(absl::string_view name, int64_t value) const;
  // What keeps a normalization from dividing by zero must be positive and finite.
  absl::Status RequireEpsilon(double epsilon) const;
  // The size of the input's last dimension. InvalidArgument: it is not known, or the rank lies
  // outside [min_rank, max_rank] (0: any).
  absl::StatusOr<int64_t> LastSize(int min_rank = 1, int max_rank = 0) const;

 private:
  absl::StatusOr<StrategyVariable*> MakeVariable(absl::string_view role, const Shape& shape,
                                                 const Initializer& initializer, const Fans& fans,
                                                 bool trainable, bool spread_rows = false) const;

  const ReplicaContext& replica_;
  const std::string& path_;
  const std::vector<Output>& inputs_;
  const CallOptions& options_;
  const Scope scope_;
};

using LayerFunction = std::function<absl::StatusOr<Output>(const LayerCall& call)>;

struct InputRules {
  int min_inputs = 1;
  int max_inputs = 1;          // 0: any number.
  bool floating_point = true;  // They must be float32.
};

// A layer that checks its inputs by `rules` and then calls `function`. Errors of nodes that
// `function` adds reach the caller too.
LayerPtr MakeLayer(std::string name, LayerFunction function, InputRules rules = {});

// Sizes [first, last) of `x`, a vector of int64 in the graph.
Output SizesOf(const Scope& scope, Output x, int64_t first, int64_t last);

// `x` under the shape that `like` has in its first `keep` dimensions, followed by `sizes`.
Output ReshapeLike(const Scope& scope, Output x, Output like, int keep,
                   const std::vector<int64_t>& sizes);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LAYER_CALL_H_
