#include "strategies/optimizer/forwarding.h"

#include <limits>

#include "core/base/status.h"

namespace tandem::optimizer {
namespace {

class NoOptimizer final : public Optimizer {
 public:
  std::string name() const override { return "none"; }
  absl::Status Check() const override {
    return errors::InvalidArgument("there is no optimizer to wrap: it is null");
  }
  double LearningRate(int64_t) const override { return std::numeric_limits<double>::quiet_NaN(); }
  absl::StatusOr<std::vector<Gradient>> Transform(const Scope&,
                                                  std::vector<Gradient>) const override {
    return Check();
  }
  absl::Status CreateSlots(StrategyBuilder&, const StrategyVariable&) const override {
    return Check();
  }
  absl::StatusOr<Node*> Update(StrategyBuilder&, const Scope&, const StrategyVariable&, int,
                               const Gradient&, const UpdateInputs&) const override {
    return Check();
  }
};

}  // namespace

ForwardingOptimizer::ForwardingOptimizer(OptimizerPtr inner)
    : inner_(inner ? std::move(inner) : std::make_shared<NoOptimizer>()) {}

}  // namespace tandem::optimizer
