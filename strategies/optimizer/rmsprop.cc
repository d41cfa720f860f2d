#include "core/base/status.h"
#include "strategies/optimizer/slot_optimizer.h"

namespace tandem::optimizer {
namespace {

class RmsPropOptimizer final : public SlotOptimizer {
 public:
  explicit RmsPropOptimizer(const RmsPropOptions& options)
      : SlotOptimizer("rmsprop", options.learning_rate, options.schedule,
                      options.centered
                          ? std::vector<Slot>{{"average_gradient"}, {"velocity"}, {"momentum"}}
                          : std::vector<Slot>{{"velocity"}, {"momentum"}}),
        options_(options) {}

  OptionList DescribeOptions() const override {
    return ListOptions({{"rho", options_.rho},
                        {"momentum", options_.momentum},
                        {"epsilon", options_.epsilon},
                        {"centered", options_.centered}});
  }

 private:
  absl::Status CheckOptions() const override {
    TANDEM_RETURN_IF_ERROR(CheckRange("rho", options_.rho, 0, 1, /*below=*/true));
    TANDEM_RETURN_IF_ERROR(CheckRange("momentum", options_.momentum, 0, 1));
    return CheckNotNegative("epsilon", options_.epsilon);
  }

  absl::StatusOr<Node*> AddUpdate(const UpdateTarget& t) const override {
    TANDEM_RETURN_IF_ERROR(CheckBelowOne(t, "rho", options_.rho));
    InputList inputs = {t.handle(), t.slot(0), t.slot(1)};
    if (options_.centered) inputs.emplace_back(t.slot(2));
    inputs.emplace_back(t.learning_rate());
    inputs.emplace_back(t.Number(options_.rho));
    inputs.emplace_back(t.Number(options_.momentum));
    inputs.emplace_back(t.Number(options_.epsilon));
    inputs.emplace_back(t.DenseGradient());
    return t.scope().AddNode(
        options_.centered ? "ResourceApplyCenteredRMSProp" : "ResourceApplyRMSProp", inputs);
  }

  const RmsPropOptions options_;
};

}  // namespace

OptimizerPtr RmsProp(RmsPropOptions options) { return std::make_shared<RmsPropOptimizer>(options); }

}  // namespace tandem::optimizer
