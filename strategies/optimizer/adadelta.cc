#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class AdadeltaOptimizer final : public SlotOptimizer {
 public:
  explicit AdadeltaOptimizer(const AdadeltaOptions& options)
      : SlotOptimizer("adadelta", options.learning_rate, options.schedule,
                      {{"accumulated_grad"}, {"accumulated_delta_var"}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions({{"rho", options_.rho}, {"epsilon", options_.epsilon}});
  }

 private:
  absl::Status CheckOptions() const override {
    TANDEM_RETURN_IF_ERROR(CheckRange("rho", options_.rho, 0, 1, /*below=*/true));
    return CheckNotNegative("epsilon", options_.epsilon);
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "rho", options_.rho));
    return t.scope().AddNode(
        "ResourceApplyAdadelta",
        {t.handle(), t.slot(0), t.slot(1), t.learning_rate(), t.Number(options_.rho),
         t.Number(options_.epsilon), t.DenseGradient()});
  }

  const AdadeltaOptions options_;
};

}  // namespace

OptimizerPtr Adadelta(AdadeltaOptions options) {
  return std::make_shared<AdadeltaOptimizer>(options);
}

}  // namespace tandem::optimizer
